//! Options of the commands that run pictures through the pipeline in this process: endpoint, fields, concurrency, engine.

use super::config_args::EngineArgs;
use super::endpoint_args::{FieldArg, endpoint_fields, endpoint_named, endpoint_names, parse_field};
use super::exit_code::Failure;
use super::local_engine;
use crate::config::{Config, Problems};
use crate::image::OutputFormat;
use crate::recipe::{Recipe, Value};
use clap::Args;
use std::path::Path;

#[derive(Args, Debug)]
pub(super) struct PictureArgs {
    /// Endpoint of the API to run
    #[arg(long, value_parser = endpoint_names(), default_value = "remove")]
    endpoint: String,
    /// Parameter of the endpoint, such as edge=hard, point=120,80, bg_file=PATH or mask_file=PATH; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_field)]
    set: Vec<FieldArg>,
    /// Pictures processed concurrently [default: number of CPUs, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    #[command(flatten)]
    engine_args: EngineArgs,
}

impl PictureArgs {
    /// The configuration.
    pub(super) fn config(&self) -> Result<Config, Problems> {
        self.engine_args.load(&[])
    }

    /// The fields of `--set`.
    pub(super) fn set(&self) -> &[FieldArg] {
        &self.set
    }

    /// Pictures processed concurrently.
    pub(super) fn jobs(&self) -> usize {
        self.jobs.map_or_else(local_engine::default_jobs, usize::from)
    }

    /// The recipe of `--set`. `output` is the format of the output file's extension, and the file.
    pub(super) fn recipe(&self, output: Option<(&str, &Path)>) -> Result<Recipe, Failure> {
        let endpoint = endpoint_named(&self.endpoint);
        let mut fields = endpoint_fields(endpoint, &self.set)?;
        if let Some(preset) = fields.get("preset") {
            return Err(
                format!("preset {preset:?}: presets are stored by a daemon; pass its parameters with --set").into()
            );
        }
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
