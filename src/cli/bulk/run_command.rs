//! `backdrop bulk FROM TO`: parses the options, runs the batch, and prints its summary.

use super::cluster_run::ClusterRun;
use super::dry_run;
use super::pipeline_processor::{PipelineProcessor, SharedEngine};
use super::preset;
use super::progress::Progress;
use super::queue_commands::open_queue;
use super::report_file::ReportFile;
use super::result_parameters::{model_of, parameters_hash};
use super::run_spec::RunSpec;
use super::summary::finish_run;
use crate::account::price::Call;
use crate::bulk::{KeyFilter, KeyTemplate, Locations, ReportLog, Run, RunOptions, Selection, Shard};
use crate::cli::config_args::EngineArgs;
use crate::cli::endpoint_args::{FieldArg, endpoint_fields, endpoint_named, endpoint_names, parse_field};
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::local_engine;
use crate::cli::picture_args::JobsArg;
use crate::cli::remove::AuxFiles;
use crate::cli::signals::stop_on_signals;
use crate::cli::variable;
use crate::config::Config;
use crate::engine::Tenant;
use crate::recipe::{Endpoint, FieldError, Fields, OF_ONE_PICTURE};
use crate::source::{StorageError, StorageLocation};
use clap::Args;
use object_store::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use url::Url;

/// The URL of a location, which may be the path of a folder.
fn address(location: &str) -> Result<String, Failure> {
    if location.contains("://") {
        return Ok(location.to_owned());
    }
    let path = std::path::absolute(location)?;
    let url =
        Url::from_file_path(&path).map_err(|()| format!("{} is not a path that a URL can have", path.display()))?;
    Ok(url.into())
}

#[derive(Args, Debug)]
pub(super) struct RunCommand {
    /// Location of the pictures
    #[arg(required = true, value_name = "FROM")]
    from: Option<String>,
    /// Location of the results
    #[arg(required = true, value_name = "TO")]
    to: Option<String>,
    /// Endpoint of the API to run [default: the preset's, or remove]
    #[arg(long, value_parser = endpoint_names())]
    endpoint: Option<String>,
    /// Parameter of the endpoint, such as edge=hard, or bg_file=PATH; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_field)]
    set: Vec<FieldArg>,
    /// Preset as JSON, in the form of GET /presets, or its parameters alone; --set takes precedence
    #[arg(long, value_name = "FILE")]
    preset: Option<PathBuf>,
    /// Keys to process instead of all pictures; a glob with a slash matches the key below FROM, one without the file name
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Keys to exclude
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Keys of the results below TO; placeholders are {dir}, {stem}, {name} and {ext}
    #[arg(long, value_name = "TEMPLATE", default_value = KeyTemplate::DEFAULT)]
    output: KeyTemplate,
    /// Report, from which a run also resumes: a file, or the URL of an object; a .csv is written next to it [default: a
    /// file in this folder, named after FROM and TO]
    #[arg(long, value_name = "FILE")]
    report: Option<String>,
    /// Print the number of pictures, price and duration, without processing them
    #[arg(long)]
    dry_run: bool,
    /// Maximum number of pictures to process
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    jobs: JobsArg,
    /// Part of the run to process on this machine, K from 0 to N-1 [default: from the variables of Kubernetes, AWS Batch,
    /// Cloud Run or Google Batch]
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Queue the run in the database of store.url for `backdrop work` on any number of machines, follow it, and write its
    /// report; the same command resumes the run
    #[arg(long, conflicts_with_all = ["shard", "jobs", "dry_run"])]
    cluster: bool,
    /// Return once the objects are queued; the same command without it follows the run
    #[arg(long, requires = "cluster")]
    detach: bool,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine_args: EngineArgs,
}

impl RunCommand {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let shard = match self.shard {
            Some(shard) => Some(shard),
            None if self.cluster => None,
            None => Shard::from_environment(variable)?,
        };
        let filter = KeyFilter::new(&self.include, &self.exclude)?;
        let (endpoint, fields) = self.fields()?;
        let mut recipe = endpoint.recipe(&fields)?;
        if let Some(mask) = &recipe.inputs.mask {
            return Err(FieldError::not_taken(mask.param(), OF_ONE_PICTURE).into());
        }
        let config = self.engine_args.load(&[])?;
        local_engine::select_network(&config, &mut recipe)?;
        let jobs = self.jobs.get();
        let (Some(from), Some(to)) = (&self.from, &self.to) else { return Err("FROM and TO are required".into()) };
        let (from, to) = (&address(from)?, &address(to)?);
        // The source first: no destination folder is created when it is missing.
        let source = StorageLocation::open(from, false)?;
        let destination = if self.dry_run { open_uncreated(to)? } else { StorageLocation::open(to, true)? };
        let locations = Locations::new(source, destination)?;
        local_engine::block_on(async {
            let fetcher = local_engine::fetcher(&config)?;
            let aux_files = AuxFiles::load(&fetcher, &recipe, &self.set).await?;
            // Dropped before the run: the engine loads the weights again.
            let (models, model) = {
                let (weights, precision) = (local_engine::weights(&config)?, config.engine.precision);
                (local_engine::models_of(&recipe, &weights, precision), model_of(&recipe, &weights, precision))
            };
            let options = RunOptions {
                filter,
                template: self.output.clone(),
                extension: recipe.encode.format.name(),
                shard,
                limit: self.limit,
                parameters: parameters_hash(endpoint, &fields, &aux_files, &models),
                model,
                max_bytes: fetcher.max_bytes() as u64,
            };
            let report_file = ReportFile::new(self.report.as_deref(), &locations, shard)?;
            let queued = self.cluster.then(|| {
                let network = recipe.cut().map(|cut| cut.network.clone()).unwrap_or_default();
                let limits = (options.max_bytes, options.parameters.as_str());
                RunSpec::new([from, to], endpoint, &fields, network, limits, self.selection()).run(&aux_files)
            });
            let engine = Arc::new(SharedEngine::new(config.clone()));
            let processor = PipelineProcessor::new(engine, Tenant::default(), recipe, aux_files);
            if self.dry_run {
                let price = config.prices.price(&Call::of(endpoint.path, &fields, 1))?;
                let price = (price.unit_price, config.server.shows_prices(&config.prices));
                return dry_run::run(&locations, &options, &report_file, &processor, price, jobs, self.json).await;
            }
            let path = report_file.open().await?;
            let report = ReportLog::open(&path, &options.parameters)?;
            print_stderr!("Report: {report_file}");
            if report.done_before() > 0 {
                print_stderr!("{} objects are done already", report.done_before());
            }
            let (locations, options) = (&locations, &options);
            if let Some(run) = &queued {
                let queue = &open_queue(&config).await?;
                let cluster = ClusterRun { queue, run, locations, options, is_detached: self.detach, json: self.json };
                return cluster.run(report, &report_file, &stop_on_signals()?).await;
            }
            let stop = stop_on_signals()?;
            let mut progress = Progress::new();
            let run = Run { locations, options, jobs, processor: &processor, report: &report, stop: &stop };
            let (summary, error) = run.run(&mut progress).await;
            progress.finish();
            let outcome = finish_run(&summary, report, &report_file, self.json).await?;
            if summary.stopped || error.is_some() {
                print_stderr!("To resume, run the same command again: finished pictures are skipped.");
            }
            match error {
                Some(error) => Err(error.into()),
                None if !summary.stopped && summary.is_empty() && shard.is_none() => {
                    Err(format!("there is no picture in {}", locations.source.address_prefix()).into())
                }
                None => Ok(outcome),
            }
        })?
    }

    /// The configuration of the commands that work on the queue.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        Ok(self.engine_args.load(&[])?)
    }

    fn selection(&self) -> Selection {
        Selection {
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            output: self.output.to_string(),
            limit: self.limit,
        }
    }

    /// The endpoint, and its fields from `--set` and `--preset`.
    fn fields(&self) -> Result<(&'static Endpoint, Fields), Failure> {
        let preset = self.preset.as_deref().map(preset::read).transpose()?;
        let preset_endpoint = preset.as_ref().and_then(|preset| preset.endpoint);
        let endpoint = match (&self.endpoint, preset_endpoint) {
            (Some(name), _) => endpoint_named(name),
            (None, Some(endpoint)) => endpoint,
            (None, None) => endpoint_named("remove"),
        };
        let fields = endpoint_fields(endpoint, &self.set)?;
        if fields.get("preset").is_some() {
            return Err(
                "presets are stored by a daemon; save a record of GET /presets to a file and pass it as --preset"
                    .into(),
            );
        }
        let fields = match preset {
            Some(preset) => fields.over(&preset.fields(endpoint)?),
            None => fields,
        };
        Ok((endpoint, fields))
    }
}

/// Opens a location without creating it: a missing folder becomes a prefix in its nearest existing ancestor.
fn open_uncreated(text: &str) -> Result<StorageLocation, Failure> {
    let mut missing = Vec::new();
    let mut url = text.trim_end_matches('/').to_owned();
    loop {
        match StorageLocation::open(&url, false) {
            Ok(mut location) => {
                let parts = location.prefix.parts().map(|part| part.as_ref().to_owned()).collect::<Vec<_>>();
                location.prefix =
                    Path::parse(parts.into_iter().chain(missing.into_iter().rev()).collect::<Vec<_>>().join("/"))?;
                return Ok(location);
            }
            Err(StorageError::Folder(_)) if url.starts_with("file:///") && url.len() > "file:///".len() => {
                let (parent, name) = url.rsplit_once('/').expect("it has slashes");
                missing.push(Path::from_url_path(name)?.to_string());
                url = if parent == "file://" { "file:///".to_owned() } else { parent.to_owned() };
            }
            Err(error) => return Err(error.into()),
        }
    }
}
