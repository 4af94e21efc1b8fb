//! Options of the commands that run pictures through the pipeline in this process: endpoint, fields, concurrency, engine.

use super::config_args::EngineArgs;
use super::endpoint_args::{FieldArg, endpoint_named, endpoint_names, local_fields, parse_field};
use super::exit_code::Failure;
use crate::config::{Config, Problems};
use crate::image::OutputFormat;
use crate::image::color::Color;
use crate::recipe::{Recipe, Value};
use clap::Args;
use std::path::Path;

/// `--jobs`.
#[derive(Args, Debug)]
pub(super) struct JobsArg {
    /// Pictures processed concurrently [default: number of CPUs, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

impl JobsArg {
    /// Pictures processed concurrently.
    pub(super) fn get(&self) -> usize {
        let default = || std::thread::available_parallelism().map_or(2, |cpus| cpus.get().max(2));
        self.jobs.map_or_else(default, usize::from)
    }
}

#[derive(Args, Debug)]
pub(super) struct PictureArgs {
    /// Endpoint of the API to run
    #[arg(long, value_parser = endpoint_names(), default_value = "remove")]
    endpoint: String,
    /// Parameter of the endpoint, such as edge=hard, point=120,80, bg_file=PATH or mask_file=PATH; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_field)]
    set: Vec<FieldArg>,
    /// Background: a colour or a picture; the endpoint is replace-bg, or with --size and a colour studio-shot
    #[arg(long, value_name = "COLOUR|FILE", conflicts_with = "endpoint")]
    background: Option<String>,
    /// Centres the subject on a square of so many pixels, by default white; the endpoint is studio-shot, without its shadow
    #[arg(long, value_name = "PIXELS", conflicts_with = "endpoint")]
    size: Option<u32>,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    engine_args: EngineArgs,
}

impl PictureArgs {
    /// The configuration.
    pub(super) fn config(&self) -> Result<Config, Problems> {
        self.engine_args.load(&[])
    }

    /// The endpoint, and the fields of `--background`, `--size` and `--set`.
    pub(super) fn chosen(&self) -> (&str, Vec<FieldArg>) {
        let color = self.background.as_deref().filter(|text| Color::parse(text).is_some());
        let file = self.background.as_deref().filter(|_| color.is_none());
        let endpoint = match (&self.background, self.size) {
            (None, None) => self.endpoint.as_str(),
            (_, Some(_)) if file.is_none() => "studio-shot",
            (_, _) => "replace-bg",
        };
        let size = self.size.map(|size| size.to_string());
        let is_square = self.size.is_some() && endpoint == "studio-shot";
        let fields = [
            ("bg_color", color),
            ("bg_file", file),
            ("width", size.as_deref()),
            ("height", size.as_deref()),
            ("shadow", Some("false").filter(|_| is_square)),
        ];
        let is_set = |name: &str| self.set.iter().any(|(set, _)| set == name);
        let fields = fields.into_iter().filter(|(name, _)| !is_set(name));
        let fields = fields.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        (endpoint, fields.chain(self.set.iter().cloned()).collect())
    }

    /// Pictures processed concurrently.
    pub(super) fn jobs(&self) -> usize {
        self.jobs.get()
    }

    /// The recipe of the fields. `output` is the format of the output file's extension, and the file.
    pub(super) fn recipe(&self, output: Option<(&str, &Path)>) -> Result<Recipe, Failure> {
        let (endpoint, set) = self.chosen();
        let endpoint = endpoint_named(endpoint);
        let mut fields = local_fields(endpoint, &set)?;
        if let Some((format, file)) = output {
            match fields.get("format") {
                Some(given) if OutputFormat::parse(given) != OutputFormat::parse(format) => {
                    return Err(format!("--set format={given} does not fit {}", file.display()).into());
                }
                Some(_) => {}
                None => fields.push("format", format)?,
            }
        }
        Ok(endpoint.recipe(&fields)?)
    }
}
