//! Configuration: flag over environment variable over TOML file over default, and every mistake told at once.
//!
//! Each section's struct lives with the module that obeys it; here they are put together. `backdrop.toml.example`
//! lists every setting with its default.

mod layered;
mod secret;

pub use layered::{Layered, Origin, Problem, Problems, Sources, merge, settings_of, variable_of};
pub use secret::Secret;

use crate::account::price::PriceConfig;
use crate::engine::EngineConfig;
use crate::generate::GenerateConfig;
use crate::http::compat::CompatConfig;
use crate::http::config::{HttpConfig, LimitsConfig};
use crate::jobs::JobsConfig;
use crate::model::device::DeviceChoice;
use crate::source::FetchConfig;
use crate::telemetry::tracing::LogConfig;
use crate::video::VideoConfig;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Names the file when no `--config` does.
const FILE_VARIABLE: &str = "BACKDROP_CONFIG";

/// The variables of flags whose setting is in a section: `--listen` is `BACKDROP_LISTEN` as well as
/// `BACKDROP_SERVER_LISTEN`.
const SHORT_VARIABLES: &[(&str, &str)] =
    &[("BACKDROP_LISTEN", "server.listen"), ("BACKDROP_ADMIN_LISTEN", "server.admin_listen")];

/// Every setting of the daemon and of the command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where accounts and keys are kept.
    pub data_dir: PathBuf,
    /// `auto` (a real GPU that passes its self-test, else the CPU), `cpu`, `gpu`, or part of a GPU's name.
    pub device: DeviceChoice,
    /// A weights file made by `backdrop weights import`; without one, the weights in the binary.
    pub weights: Option<PathBuf>,
    /// The first key of an empty store; without one, a fresh key is made and printed once.
    pub bootstrap_key: Option<Secret<String>>,
    /// The listeners.
    pub server: HttpConfig,
    /// Routes in other services' wire formats.
    pub compat: CompatConfig,
    /// What one caller may do.
    pub limits: LimitsConfig,
    /// What is billed.
    pub prices: PriceConfig,
    /// How callers' URLs are fetched.
    pub fetch: FetchConfig,
    /// Bounds and habits of the engine.
    pub engine: EngineConfig,
    /// Work that outlives its request.
    pub jobs: JobsConfig,
    /// The tools for clips.
    pub video: VideoConfig,
    /// Where backdrops come from.
    pub generate: GenerateConfig,
    /// The log.
    pub log: LogConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: "backdrop-data".into(),
            device: DeviceChoice::default(),
            weights: None,
            bootstrap_key: None,
            server: HttpConfig::default(),
            compat: CompatConfig::default(),
            limits: LimitsConfig::default(),
            prices: PriceConfig::default(),
            fetch: FetchConfig::default(),
            engine: EngineConfig::default(),
            jobs: JobsConfig::default(),
            video: VideoConfig::default(),
            generate: GenerateConfig::default(),
            log: LogConfig::default(),
        }
    }
}

impl Config {
    /// What does not fit together, all of it; each complaint reads `section.key: what was expected`.
    fn complaints(&self) -> Vec<String> {
        [
            self.server.validate(),
            self.compat.validate(&self.server),
            self.limits.validate(),
            self.limits.validate_memory(&self.server, self.engine.max_megapixels_in_flight),
            self.prices.validate(),
            self.fetch.validate(),
            self.engine.validate(),
            self.jobs.validate(),
            self.video.validate(),
            self.generate.validate(),
            self.log.validate(),
        ]
        .concat()
    }
}

/// Reads the configuration of this process. `file` is `--config`; `flags` are the settings that were given as flags.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(
    file: Option<&Path>,
    flags: Vec<(&'static str, &'static str, String)>,
) -> Result<Layered<Config>, Problems> {
    // A variable that is not text cannot be one of ours.
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let from_environment =
        || environment.iter().find(|(name, _)| name == FILE_VARIABLE).map(|(_, path)| PathBuf::from(path));
    let mut problems = Vec::new();
    let file = file.map(Path::to_owned).or_else(from_environment).and_then(|path| {
        let text = std::fs::read_to_string(&path);
        let unreadable = |error: &std::io::Error| Problem {
            origin: Some(Origin::File(path.clone())),
            setting: String::new(),
            message: format!("cannot be read: {error}"),
        };
        text.inspect_err(|error| problems.push(unreadable(error))).ok().map(|text| (path, text))
    });
    match check(&Sources { file, environment, flags }) {
        Ok(config) if problems.is_empty() => Ok(config),
        Ok(_) => Err(Problems(problems)),
        Err(more) => Err(Problems(problems.into_iter().chain(more.0).collect())),
    }
}

/// Merges the sources and validates what comes out.
///
/// # Errors
/// Everything that is wrong with it.
pub fn check(sources: &Sources) -> Result<Layered<Config>, Problems> {
    let (config, mut problems) = merge::<Config>(sources, SHORT_VARIABLES);
    let problem = |complaint: String| {
        let (setting, message) = complaint.split_once(": ").unwrap_or(("", &complaint));
        Problem { origin: config.origin(setting).cloned(), setting: setting.to_owned(), message: message.to_owned() }
    };
    problems.extend(config.settings.complaints().into_iter().map(problem));
    if problems.is_empty() { Ok(config) } else { Err(Problems(problems)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../backdrop.toml.example");

    fn from_text(text: &str) -> Config {
        let sources = Sources { file: Some(("backdrop.toml.example".into(), text.to_owned())), ..Sources::default() };
        check(&sources).expect("the example is valid").settings
    }

    #[test]
    fn the_example_file_holds_the_defaults() {
        assert_eq!(format!("{:?}", from_text(EXAMPLE)), format!("{:?}", Config::default()));
        assert_ne!(format!("{:?}", from_text("device = 'cpu'\n")), format!("{:?}", Config::default()));
    }

    #[test]
    fn the_example_file_names_every_setting() {
        let mut section = String::new();
        let mut named = Vec::new();
        for line in EXAMPLE.lines() {
            let line = line.trim_start_matches(['#', ' ']);
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                // A setting may be a table of tables: `[generate.models."ID"]`.
                named.extend(name.split_once('"').map(|(table, _)| table.trim_end_matches('.').to_owned()));
                section = format!("{name}.");
            } else if let Some((key, _)) = line.split_once(" = ") {
                named.push(format!("{section}{key}"));
            }
        }
        let missing: Vec<_> = settings_of::<Config>().into_iter().filter(|setting| !named.contains(setting)).collect();
        assert!(missing.is_empty(), "not in backdrop.toml.example: {missing:?}");
    }

    #[test]
    fn settings_that_contradict_each_other_are_told_with_the_place_they_came_from() {
        let sources = Sources {
            environment: vec![
                ("BACKDROP_ADMIN_LISTEN".into(), "127.0.0.1:8080".into()),
                ("BACKDROP_ENGINE_MAX_BATCH".into(), "0".into()),
                ("BACKDROP_LIMITS_RATE_PER_MINUTE".into(), "often".into()),
            ],
            ..Sources::default()
        };
        let told = check(&sources).expect_err("three mistakes").to_string();
        assert!(told.contains("BACKDROP_LIMITS_RATE_PER_MINUTE: limits.rate_per_minute: invalid type"), "{told}");
        assert!(told.contains("BACKDROP_ENGINE_MAX_BATCH: engine.max_batch: expected 1 to 64"), "{told}");
        assert!(told.contains("BACKDROP_ADMIN_LISTEN: server.admin_listen: expected another address"), "{told}");
    }

    #[test]
    fn limits_of_pictures_are_settings_and_checked_against_the_memory() {
        let checked = |pairs: &[(&str, &str)]| {
            let environment = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            check(&Sources { environment, ..Sources::default() })
        };
        let given = [
            ("BACKDROP_LIMITS_MAX_BYTES", "52428800"),
            ("BACKDROP_LIMITS_MAX_SIDE", "12000"),
            ("BACKDROP_LIMITS_MAX_MEGAPIXELS", "100"),
        ];
        let problems = checked(&given).expect_err("too little memory").to_string();
        assert!(
            problems.contains("BACKDROP_LIMITS_MAX_MEGAPIXELS: limits.max_megapixels: expected at most"),
            "{problems}"
        );
        assert!(problems.contains("engine.max_megapixels_in_flight`, 64"), "{problems}");
        assert!(problems.contains("server.max_reply_megabytes_in_flight`, 64"), "{problems}");
        let memory = [
            ("BACKDROP_ENGINE_MAX_MEGAPIXELS_IN_FLIGHT", "200"),
            ("BACKDROP_SERVER_MAX_REPLY_MEGABYTES_IN_FLIGHT", "400"),
        ];
        let limits = checked(&[&given[..], &memory[..]].concat()).expect("enough memory").settings.limits;
        assert_eq!((limits.max_bytes, limits.max_side, limits.max_megapixels), (52_428_800, 12_000, 100));
    }

    #[test]
    fn the_bootstrap_key_is_never_printed() {
        let sources = Sources {
            environment: vec![("BACKDROP_BOOTSTRAP_KEY".into(), "bd_live_secret".into())],
            ..Sources::default()
        };
        let config = check(&sources).expect("valid").settings;
        assert_eq!(config.bootstrap_key.as_ref().map(|key| key.expose().as_str()), Some("bd_live_secret"));
        let printed = toml::to_string(&config).expect("plain data");
        assert!(printed.contains("bootstrap_key = \"***\"") && !printed.contains("bd_live"), "{printed}");
    }
}
