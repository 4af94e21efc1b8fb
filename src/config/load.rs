//! Loads the configuration of this process from flags, environment and file, and validates it.

use super::merge::{Origin, Problem, Problems, Sources, merge};
use super::settings::Config;
use std::path::{Path, PathBuf};

/// Path of the file, without `--config`.
const FILE_VARIABLE: &str = "BACKDROP_CONFIG";

/// Short variable names of settings in a section: `--listen` is `BACKDROP_LISTEN` as well as `BACKDROP_SERVER_LISTEN`.
const SHORT_VARIABLES: &[(&str, &str)] =
    &[("BACKDROP_LISTEN", "server.listen"), ("BACKDROP_ADMIN_LISTEN", "server.admin_listen")];

/// Loads the configuration of this process. `file` is `--config`; `flags` are the settings given as flags.
///
/// # Errors
/// All mistakes.
pub fn load(file: Option<&Path>, flags: Vec<(&'static str, &'static str, String)>) -> Result<Config, Problems> {
    // Names and values of settings are Unicode.
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let from_environment =
        || environment.iter().find(|(name, _)| name == FILE_VARIABLE).map(|(_, path)| PathBuf::from(path));
    let mut problems = Vec::new();
    let file = file.map(Path::to_owned).or_else(from_environment).and_then(|path| {
        let text = std::fs::read_to_string(&path);
        let unreadable = |error: &std::io::Error| Problem {
            origin: Some(Origin::File(path.clone(), None)),
            setting: String::new(),
            message: format!("cannot be read: {error}"),
        };
        text.inspect_err(|error| problems.push(unreadable(error))).ok().map(|text| (path, text))
    });
    match validate(&Sources { file, environment, flags }) {
        Ok(config) if problems.is_empty() => Ok(config),
        Ok(_) => Err(Problems(problems)),
        Err(more) => Err(Problems(problems.into_iter().chain(more.0).collect())),
    }
}

/// Merges the sources and validates the result.
fn validate(sources: &Sources) -> Result<Config, Problems> {
    let (config, mut problems) = merge::<Config>(sources, SHORT_VARIABLES);
    let problem = |mistake: String| {
        let (setting, message) = mistake.split_once(": ").unwrap_or(("", &mistake));
        Problem { origin: config.origin(setting).cloned(), setting: setting.to_owned(), message: message.to_owned() }
    };
    problems.extend(config.settings.mistakes().into_iter().map(problem));
    if problems.is_empty() { Ok(config.settings) } else { Err(Problems(problems)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::merge::setting_names;

    const EXAMPLE: &str = include_str!("../../backdrop.toml.example");

    fn from_text(text: &str) -> Config {
        let sources = Sources { file: Some(("backdrop.toml.example".into(), text.to_owned())), ..Sources::default() };
        validate(&sources).expect("the example is valid")
    }

    #[test]
    fn the_example_file_has_the_defaults() {
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
        let missing: Vec<_> =
            setting_names::<Config>().into_iter().filter(|setting| !named.contains(setting)).collect();
        assert!(missing.is_empty(), "not in backdrop.toml.example: {missing:?}");
    }

    #[test]
    fn picture_limits_are_validated_against_the_memory() {
        let validated = |pairs: &[(&str, &str)]| {
            let environment = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            validate(&Sources { environment, ..Sources::default() })
        };
        let given = [("BACKDROP_LIMITS_MAX_MEGAPIXELS", "100")];
        let problems = validated(&given).expect_err("too little memory").to_string();
        assert!(
            problems.contains("BACKDROP_LIMITS_MAX_MEGAPIXELS: limits.max_megapixels: expected at most"),
            "{problems}"
        );
        let memory = [given[0], ("BACKDROP_ENGINE_MAX_MEGAPIXELS_IN_FLIGHT", "200")];
        assert_eq!(validated(&memory).expect("enough memory").limits.max_megapixels, 100);
    }

    #[test]
    fn the_bootstrap_key_is_never_printed() {
        let sources = Sources {
            environment: vec![("BACKDROP_BOOTSTRAP_KEY".into(), "bd_live_secret".into())],
            ..Sources::default()
        };
        let config = validate(&sources).expect("valid");
        assert_eq!(config.bootstrap_key.as_ref().map(|key| key.expose().as_str()), Some("bd_live_secret"));
        let printed = toml::to_string(&config).expect("plain data");
        assert!(printed.contains("bootstrap_key = \"***\"") && !printed.contains("bd_live"), "{printed}");
    }
}
