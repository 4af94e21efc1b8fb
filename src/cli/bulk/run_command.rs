//! `backdrop bulk`: the pipeline over object storage.

mod codes;
mod dry_run;
mod preset;
mod progress;
mod report;
mod stop;
mod work;

use super::endpoint::{endpoint_named, endpoint_names, fields_of};
use super::exit::{Failure, Outcome};
use super::print;
use super::remove::BesideFiles;
use super::runtime;
use super::set::{Set, name_and_value};
use super::settings::Settings;
use crate::account::price::Call;
use crate::bulk::{Ledger, Order, Places, Run, Select, Shard, Template};
use crate::model::CpuRetoucher;
use crate::model::weights::{Weights, manifest};
use crate::pipeline;
use crate::recipe::{BG_FILE, Endpoint, Fields, Recipe};
use crate::source::{Fetcher, Objects, ObjectsError};
use clap::{Args, Subcommand};
use object_store::path::Path;
use progress::Progress;
use report::ReportFile;
use sha2::{Digest, Sha256};
use std::path::{Path as FilePath, PathBuf};
use work::Pipeline;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Places are s3://bucket/folder, gs://bucket/folder, az://container/folder or file:///folder. \
    Credentials and endpoints come from the variables that each provider's own tools read (AWS_..., GOOGLE_..., \
    AZURE_...).")]
pub(super) struct Bulk {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: BulkRun,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put reports together, such as those of the shards of one run: each object once
    Report(report::Merge),
}

#[derive(Args, Debug)]
struct BulkRun {
    /// Where the pictures are
    #[arg(required = true, value_name = "FROM")]
    from: Option<String>,
    /// Where the results go
    #[arg(required = true, value_name = "TO")]
    to: Option<String>,
    /// Endpoint of the API to run [default: the preset's, or remove]
    #[arg(long, value_parser = endpoint_names())]
    endpoint: Option<String>,
    /// A parameter of the endpoint, such as edge=hard, or bg_file=PATH; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = name_and_value)]
    set: Vec<Set>,
    /// JSON of a preset, as GET /presets shows it, or of parameters alone; --set wins over it
    #[arg(long, value_name = "FILE")]
    preset: Option<PathBuf>,
    /// Keys to take in place of all pictures; a glob with a slash is about the key below FROM, one without about the name
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Keys to leave out
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Keys of the results below TO; placeholders are {dir}, {stem}, {name} and {ext}
    #[arg(long, value_name = "TEMPLATE", default_value = Template::DEFAULT)]
    output: Template,
    /// Report, and what a run continues from: a file, or an object of a store; a .csv comes beside it [default: a name
    /// made of FROM and TO, in this folder]
    #[arg(long, value_name = "FILE")]
    report: Option<String>,
    /// Count, price and estimate, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Pictures to do at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Pictures in work at once [default: number of CPUs, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// The part of the run that is done here, K from 0 to N-1 [default: what Kubernetes, AWS Batch, Cloud Run or Google
    /// Batch say]
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

impl Bulk {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        match self.command {
            Some(Command::Report(merge)) => merge.run(),
            None => self.run.run(),
        }
    }
}

impl BulkRun {
    fn run(self) -> Result<Outcome, Failure> {
        let shard = match self.shard {
            Some(shard) => Some(shard),
            None => Shard::from_environment(environment)?,
        };
        let select = Select::new(&self.include, &self.exclude)?;
        let (endpoint, fields) = self.fields()?;
        let mut recipe = endpoint.recipe(&fields)?;
        let config = self.settings.load(&[])?;
        recipe.cut_out_by(config.engine.model);
        let jobs = self.jobs.map_or_else(runtime::default_jobs, usize::from);
        let (Some(from), Some(to)) = (&self.from, &self.to) else { return Err("say FROM and TO".into()) };
        // In this order: no folder is made for pictures that are not there.
        let from = Objects::open(from, false)?;
        let places = Places::new(from, if self.dry_run { unmade(to)? } else { Objects::open(to, true)? })?;
        runtime::block_on(async {
            let max_bytes = config.limits.of_local_pictures().max_bytes;
            let fetcher = Fetcher::new(&config.fetch)?.up_to(max_bytes);
            let beside = BesideFiles::gather(&fetcher, &recipe, self.bg_file(), max_bytes).await?;
            let weights = runtime::weights(&config)?;
            let order = Order {
                select,
                template: self.output.clone(),
                extension: recipe.encode.format.name(),
                shard,
                limit: self.limit,
                parameters: parameters(endpoint, &fields, &beside, &models_of(&recipe, &weights)),
                model: pipeline::model_of(&recipe, || weights.model(), &CpuRetoucher::default()),
                max_bytes: max_bytes as u64,
            };
            drop(weights);
            let report = ReportFile::new(self.report.as_deref(), &places, shard)?;
            let pipeline = Pipeline::new(config.clone(), jobs, recipe, beside);
            if self.dry_run {
                let price = config.prices.price(&Call::of(endpoint.path, &fields, 1))?;
                return dry_run::run(&places, &order, &report, &pipeline, price.unit_price, jobs, self.json).await;
            }
            let path = report.open().await?;
            let ledger = Ledger::open(&path, &order.parameters)?;
            eprintln!("Report: {report}");
            if ledger.done_before() > 0 {
                eprintln!("{} objects are done already", ledger.done_before());
            }
            let stop = stop::on_signals()?;
            let mut progress = Progress::new();
            let run = Run { places: &places, order: &order, jobs, work: &pipeline, ledger: &ledger, stop: &stop };
            let (summary, broken) = run.run(&mut progress).await;
            progress.finish();
            let merged = tokio::task::spawn_blocking(move || ledger.finish()).await??;
            report.close().await?;
            eprintln!("{}", report::told(&summary));
            if summary.stopped || broken.is_some() {
                eprintln!("To go on, run the same command again: what is done is skipped.");
            }
            if self.json {
                print::json(&report::summary(&summary, &merged, &report))?;
            }
            match broken {
                Some(error) => Err(error.into()),
                None if summary.stopped => Ok(Outcome::SomeFailed),
                None if summary.done + summary.failed + summary.skipped == 0 && shard.is_none() => {
                    Err(format!("there is no picture in {}", places.from.place()).into())
                }
                None => Ok(Outcome::of(usize::try_from(summary.failed).unwrap_or(usize::MAX))),
            }
        })?
    }

    /// The endpoint, and the fields that `--set` and `--preset` make.
    fn fields(&self) -> Result<(&'static Endpoint, Fields), Failure> {
        let preset = self.preset.as_deref().map(preset::read).transpose()?;
        let of_preset = preset.as_ref().and_then(|preset| preset.endpoint);
        let endpoint = match (&self.endpoint, of_preset) {
            (Some(name), _) => endpoint_named(name),
            (None, Some(endpoint)) => endpoint,
            (None, None) => endpoint_named("remove"),
        };
        let fields = fields_of(endpoint, &self.set)?;
        if fields.get("preset").is_some() {
            return Err(
                "presets are kept by a daemon; save what GET /presets shows into a file and say --preset".into()
            );
        }
        Ok((
            endpoint,
            match preset {
                Some(preset) => fields.over(&preset.fields(endpoint)?),
                None => fields,
            },
        ))
    }

    /// The background that `--set` names.
    fn bg_file(&self) -> Option<&FilePath> {
        self.set.iter().find(|(name, _)| name == BG_FILE).map(|(_, path)| FilePath::new(path))
    }
}

/// A variable of a service that runs this machine.
#[expect(clippy::disallowed_methods, reason = "no setting of ours: it is the service's to say which machine this is")]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The place of a URL, also when it is a folder that is not there: then as a part of the nearest one that is.
fn unmade(text: &str) -> Result<Objects, Failure> {
    let mut missing = Vec::new();
    let mut url = text.trim_end_matches('/').to_owned();
    loop {
        match Objects::open(&url, false) {
            Ok(mut place) => {
                let parts = place.prefix.parts().map(|part| part.as_ref().to_owned()).collect::<Vec<_>>();
                place.prefix =
                    Path::parse(parts.into_iter().chain(missing.into_iter().rev()).collect::<Vec<_>>().join("/"))?;
                return Ok(place);
            }
            Err(ObjectsError::Folder { .. }) if url.starts_with("file:///") && url.len() > "file:///".len() => {
                let (above, name) = url.rsplit_once('/').expect("it has slashes");
                missing.push(Path::from_url_path(name)?.to_string());
                url = if above == "file://" { "file:///".to_owned() } else { above.to_owned() };
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The models that a result depends on: the digest of the weights that cut out, and how; name and version of the built-in ones.
fn models_of(recipe: &Recipe, weights: &Weights) -> Vec<String> {
    let cuts = recipe.cut().map(|cut| cut.model.of(weights.sha256()));
    cuts.into_iter().chain(recipe.built_in().into_iter().map(manifest::model)).collect()
}

/// A hash of everything that a result depends on beside its source, as 16 hexadecimal digits.
fn parameters(endpoint: &Endpoint, fields: &Fields, beside: &BesideFiles, models: &[String]) -> String {
    let mut said: Vec<(&str, &str)> = fields.iter().collect();
    said.sort_unstable();
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(endpoint.path.as_bytes());
    for model in models {
        part(model.as_bytes());
    }
    for (name, value) in said {
        part(name.as_bytes());
        part(value.as_bytes());
    }
    for file in [&beside.background, &beside.mark] {
        part(file.as_deref().unwrap_or_default());
    }
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::InferenceMode;

    #[test]
    fn another_model_is_another_result_and_the_usual_one_is_what_it_was() {
        let weights = Weights::embedded();
        let mut recipe = Recipe::default();
        assert_eq!(models_of(&recipe, &weights), [weights.sha256()]);
        recipe.cut_out_by(InferenceMode::Quality);
        assert_eq!(models_of(&recipe, &weights), [format!("{}-quality", weights.sha256())]);
    }

    #[test]
    fn a_folder_that_is_not_there_has_its_place_and_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}/a%20b/c/", folder.path().display());
        let place = unmade(&url).unwrap();
        assert!(!folder.path().join("a b").exists());
        assert_eq!(place.place(), Objects::open(&url, true).unwrap().place());
        assert_eq!(unmade("s3://shop/x/").unwrap().place(), "s3://shop/x/");
        assert!(unmade("ftp://shop").is_err() && unmade("file://host/x").is_err());
    }
}
