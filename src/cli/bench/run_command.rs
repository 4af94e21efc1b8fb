//! `backdrop bench PHOTO…`: parses the options, warms up, runs the scenario, and writes the record.

use super::arrivals::{PhotoOrder, poisson};
use super::closed_loop::{self, ClosedLoop, Issued};
use super::http_client::{self, DaemonUrl, HttpClient};
use super::open_loop::{self, StopRule};
use super::percentiles::{Percentile, thousandths};
use super::query::Outcome as QueryOutcome;
use super::rate_search::RateSearch;
use super::record::{BenchResult, Criteria, Parameters, PhotoInfo, Record, Run, ServiceInfo, Verdict};
use super::scenario::Scenario;
use super::target::{InProcess, Photo, Service, Target};
use super::{report_html, text};
use crate::cli::config_args::EngineArgs;
use crate::cli::endpoint_args::{
    FieldArg, attached_file, endpoint_fields, endpoint_named, endpoint_names, parse_field,
};
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::local_engine::{self, LocalEngine};
use crate::cli::remove::AuxFiles;
use crate::cli::stdout;
use crate::config::Config;
use crate::recipe::{BG_FILE, Endpoint, MASK_FILE};
use clap::Args;
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct RunCommand {
    /// Pictures, sent in rounds that have each of them once
    #[arg(required = true, value_name = "PHOTO")]
    photos: Vec<PathBuf>,
    /// How the pictures are sent and what the result is
    #[arg(long, value_name = "SCENARIO", value_enum, default_value_t = Scenario::ClosedLoop)]
    scenario: Scenario,
    /// Duration in seconds, of a search of each rate; there a run goes on until it has enough samples for the percentile
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: u16,
    /// Seconds before the measurement, in which every photo is sent at least once
    #[arg(long, value_name = "S", default_value_t = 2)]
    warm_up: u16,
    /// Seed of the arrivals and of the order of the photos
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Pictures processed concurrently: closed-loop [default: 4], offline [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: Option<u16>,
    /// Pictures in a query of multi-stream [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    samples_per_query: Option<u16>,
    /// Measure this rate of server, in pictures a second, instead of searching the highest
    #[arg(long, value_name = "R", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Latency bound of server, in milliseconds; a search needs it
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    latency_bound: Option<u32>,
    /// Percentile of the result [default: 90 for single-stream, 99 for multi-stream and server]
    #[arg(long, value_name = "P", value_enum)]
    percentile: Option<Percentile>,
    /// Endpoint of the API to measure [default: remove]
    #[arg(long, value_parser = endpoint_names(), hide_possible_values = true)]
    endpoint: Option<String>,
    /// Parameter of the endpoint, such as edge=hard, or bg_file=PATH; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_field)]
    set: Vec<FieldArg>,
    /// Measure a running daemon, such as http://127.0.0.1:8080
    #[arg(long, value_name = "URL", requires = "key", conflicts_with_all = ["device", "weights", "model"])]
    url: Option<DaemonUrl>,
    /// Key for the daemon
    #[arg(long, value_name = "KEY", requires = "url", hide_env_values = true)]
    key: Option<String>,
    /// Connections to the daemon at once, at most [default: 256, what a daemon accepts from one address]
    #[arg(long, value_name = "N", requires = "url", value_parser = clap::value_parser!(u16).range(1..))]
    max_connections: Option<u16>,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
    /// Write the record as JSON, for `backdrop bench compare`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a report with plots, one HTML file without external parts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    engine_args: EngineArgs,
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.001..=100_000.0).contains(rate));
    rate.ok_or_else(|| "expected a number from 0.001 to 100000".to_owned())
}

impl RunCommand {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        self.validate()?;
        let record = local_engine::block_on(self.measure())??;
        // Before the files: one that cannot be written must not lose the measurement, nor a closed standard output the files.
        let printed = stdout::print_line(&if self.json { record.json()? } else { text::text(&record) });
        if let Some(path) = &self.out {
            write(path, &record.json()?)?;
        }
        if let Some(path) = &self.html {
            write(path, &report_html::page(&record))?;
        }
        printed?;
        Ok(Outcome::of(record.runs.iter().any(|run| run.outcomes.failures() > 0)))
    }

    /// Refuses options that the scenario does not have.
    fn validate(&self) -> Result<(), Failure> {
        use Scenario::{ClosedLoop, MultiStream, Offline, Server, SingleStream};
        let options: [(&str, bool, &[Scenario]); 5] = [
            ("--jobs", self.jobs.is_some(), &[ClosedLoop, Offline]),
            ("--samples-per-query", self.samples_per_query.is_some(), &[MultiStream]),
            ("--rate", self.rate.is_some(), &[Server]),
            ("--latency-bound", self.latency_bound.is_some(), &[Server]),
            ("--percentile", self.percentile.is_some(), &[SingleStream, MultiStream, Server]),
        ];
        for (option, given, scenarios) in options {
            if given && !scenarios.contains(&self.scenario) {
                let names: Vec<_> = scenarios.iter().map(|scenario| scenario.name()).collect();
                return Err(format!("{option} is an option of {}", names.join(" and ")).into());
            }
        }
        if self.scenario == Server && self.rate.is_none() && self.latency_bound.is_none() {
            return Err("the server scenario needs --latency-bound MS, to search the highest rate, or --rate R".into());
        }
        if self.endpoint.is_some() && self.url.as_ref().is_some_and(DaemonUrl::has_path) {
            return Err("the endpoint is given twice: by the path of --url and by --endpoint".into());
        }
        Ok(())
    }

    async fn measure(&self) -> Result<Record, Failure> {
        let photos = self.photos.iter().map(|path| Photo::load(path)).collect::<Result<Vec<_>, _>>()?;
        let infos = photos.iter().map(|photo| PhotoInfo {
            name: photo.name.clone(),
            bytes: photo.bytes.len(),
            pixels: photo.pixels,
        });
        let infos = infos.collect();
        let (service, mut info, endpoint) = self.service(&photos).await?;
        let bench = Bench { target: Arc::new(Target { photos, service }), parameters: self.parameters(endpoint) };
        let started = Timestamp::now();
        let (throughput, model) = bench.warm_up().await?;
        info.model = model;
        let (result, runs) = match bench.parameters.scenario {
            Scenario::Server if self.rate.is_none() => bench.search(throughput).await,
            Scenario::Server
            | Scenario::ClosedLoop
            | Scenario::SingleStream
            | Scenario::MultiStream
            | Scenario::Offline => {
                let run = bench.run_once(throughput).await;
                (bench.result(&run), vec![run])
            }
        };
        Ok(Record::new(started, bench.parameters, info, infos, result, runs))
    }

    fn parameters(&self, endpoint: String) -> Parameters {
        let scenario = self.scenario;
        Parameters {
            scenario,
            endpoint,
            set: self.set.clone(),
            clients: self.jobs.unwrap_or(scenario.default_jobs()).into(),
            samples_per_query: match scenario {
                Scenario::MultiStream => self.samples_per_query.unwrap_or(8).into(),
                Scenario::ClosedLoop | Scenario::SingleStream | Scenario::Server | Scenario::Offline => 1,
            },
            seconds: self.seconds.into(),
            warm_up_seconds: self.warm_up.into(),
            seed: self.seed,
            percentile: self.percentile.unwrap_or(scenario.default_percentile()),
            rate: self.rate,
            latency_bound_ms: self.latency_bound.map(f64::from),
            max_connections: self.url.as_ref().map(|_| self.max_connections()),
        }
    }

    fn max_connections(&self) -> usize {
        self.max_connections.unwrap_or(256).into()
    }

    /// The service that is measured, what it is, and the name of the endpoint.
    async fn service(&self, photos: &[Photo]) -> Result<(Service, ServiceInfo, String), Failure> {
        let endpoint = endpoint_named(self.endpoint.as_deref().unwrap_or("remove"));
        let (Some(url), Some(key)) = (&self.url, &self.key) else {
            let config = self.engine_args.load(&[])?;
            let service = self.in_process(&config, endpoint).await?;
            let info = ServiceInfo { url: None, device: Some(service.engine.device()), model: None };
            return Ok((Service::InProcess(Box::new(service)), info, endpoint.name.to_owned()));
        };
        // A path is sent as it is given: a daemon may have endpoints that this version does not know.
        let (url, name) = if url.has_path() {
            (url.clone(), url.path().trim_start_matches('/').to_owned())
        } else {
            if !endpoint.input.is_single() {
                return Err(format!("{} takes a batch; one picture a request can be measured", endpoint.path).into());
            }
            endpoint.recipe(&endpoint_fields(endpoint, &self.set)?)?;
            (url.clone().at(endpoint.path), endpoint.name.to_owned())
        };
        let info = ServiceInfo { url: Some(url.to_string()), device: None, model: None };
        let bodies = self.bodies(photos)?;
        Ok((Service::Daemon(HttpClient::new(url, key, bodies, self.max_connections())), info, name))
    }

    /// The request body of each photo.
    fn bodies(&self, photos: &[Photo]) -> Result<Vec<bytes::Bytes>, Failure> {
        let mut attached = Vec::new();
        for name in [BG_FILE, MASK_FILE] {
            if let Some(path) = attached_file(&self.set, name) {
                let file = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                attached.push((name, file));
            }
        }
        let is_field = |(name, _): &&FieldArg| !attached.iter().any(|(attached, _)| name == attached);
        let fields: Vec<FieldArg> = self.set.iter().filter(is_field).cloned().collect();
        let body = |photo: &Photo| {
            let mut files = vec![("file", &*photo.bytes)];
            files.extend(attached.iter().map(|(name, file)| (*name, &**file)));
            http_client::form(&fields, &files)
        };
        Ok(photos.iter().map(body).collect())
    }

    async fn in_process(&self, config: &Config, endpoint: &Endpoint) -> Result<InProcess, Failure> {
        let mut recipe = endpoint.recipe(&endpoint_fields(endpoint, &self.set)?)?;
        local_engine::select_network(config, &mut recipe)?;
        let aux_files = AuxFiles::load(&local_engine::fetcher(config)?, &recipe, &self.set).await?;
        Ok(InProcess { engine: LocalEngine::start(config).await?, recipe, aux_files })
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// A benchmark that is set up.
struct Bench {
    target: Arc<Target>,
    parameters: Parameters,
}

impl Bench {
    fn order(&self) -> PhotoOrder {
        PhotoOrder::new(self.target.photos.len(), self.parameters.seed)
    }

    /// Sends every photo at least once; returns the throughput and the model. Fails when no picture is finished.
    async fn warm_up(&self) -> Result<(f64, Option<String>), Failure> {
        let load = self.closed_loop(Duration::from_secs_f64(self.parameters.warm_up_seconds), self.target.photos.len());
        let Issued { queries, took, .. } = closed_loop::run(&self.target, self.order(), load).await;
        let replies = queries.into_iter().flat_map(|query| query.replies);
        let (done, other): (Vec<_>, Vec<_>) = replies.partition(|reply| reply.outcome == QueryOutcome::Done);
        if let Some(last) = done.last() {
            return Ok((done.len() as f64 / took.as_secs_f64(), last.model.clone()));
        }
        let reason = other.first().map(|reply| match &reply.outcome {
            QueryOutcome::Failed(reason) => reason.clone(),
            QueryOutcome::Refused | QueryOutcome::Done => "429".to_owned(),
        });
        Err(format!("no picture was finished in the warm-up: {}", reason.unwrap_or_default()).into())
    }

    const fn closed_loop(&self, least_time: Duration, least_pictures: usize) -> ClosedLoop {
        let Parameters { clients, samples_per_query, .. } = self.parameters;
        ClosedLoop { clients, pictures_per_query: samples_per_query, least_time, least_pictures }
    }

    /// One run of the scenario. `throughput` was measured in the warm-up.
    async fn run_once(&self, throughput: f64) -> Run {
        let duration = Duration::from_secs_f64(self.parameters.seconds);
        let issued = match (self.parameters.scenario, self.parameters.rate) {
            (Scenario::Server, Some(rate)) => open_loop::run(&self.target, self.schedule(rate, 0), None).await,
            // A fixed number of pictures, in whole rounds of the photos.
            (Scenario::Offline, _) => {
                let photos = self.target.photos.len();
                let rounds = (throughput * self.parameters.seconds / photos as f64).ceil() as usize;
                let load = self.closed_loop(Duration::ZERO, rounds * photos);
                closed_loop::run(&self.target, self.order(), load).await
            }
            _ => closed_loop::run(&self.target, self.order(), self.closed_loop(duration, 1)).await,
        };
        self.summary(&issued, self.parameters.rate)
    }

    /// Due times and photos: for the duration, and at least `least` queries.
    fn schedule(&self, rate: f64, least: usize) -> Vec<(Duration, usize)> {
        let mut order = self.order();
        let duration = Duration::from_secs_f64(self.parameters.seconds);
        let mut schedule = Vec::new();
        for at in poisson(rate, self.parameters.seed) {
            if at >= duration && schedule.len() >= least {
                break;
            }
            schedule.push((at, order.next()));
        }
        schedule
    }

    fn summary(&self, issued: &Issued, rate: Option<f64>) -> Run {
        let criteria = Criteria {
            has_latency: self.parameters.scenario != Scenario::Offline,
            rate,
            latency_bound: self.latency_bound(),
            percentile: self.parameters.percentile,
            peak_connections: self.target.peak_connections(),
        };
        Run::new(issued, &criteria)
    }

    fn latency_bound(&self) -> Option<Duration> {
        self.parameters.latency_bound_ms.map(|ms| Duration::from_secs_f64(ms / 1e3))
    }

    /// Searches the highest rate that meets the bound.
    async fn search(&self, throughput: f64) -> (BenchResult, Vec<Run>) {
        let percentile = self.parameters.percentile;
        let latency_bound = self.latency_bound().expect("validate() requires it for a search");
        let (mut search, mut runs) = (RateSearch::new(throughput), Vec::new());
        while let Some(rate) = search.next().map(thousandths) {
            let schedule = self.schedule(rate, percentile.min_samples());
            let (count, last) = (schedule.len(), schedule.last().map_or(0.0, |(at, _)| at.as_secs_f64()));
            print_stderr!("{} pictures a second: {count} pictures, about {last:.0} s", text::number(rate));
            let rule = StopRule { latency_bound, may_exceed: percentile.may_exceed(count) };
            let issued = open_loop::run(&self.target, schedule, Some(rule)).await;
            let run = self.summary(&issued, Some(rate));
            search.record(rate, run.bound.as_ref().is_some_and(|bound| bound.verdict == Verdict::Met));
            runs.push(run);
        }
        let best = runs.iter().find(|run| run.rate == search.met).and_then(|run| run.bound.as_ref());
        let weak = if best.is_none_or(|bound| bound.confident) { "" } else { "; met by less than 99 % confidence" };
        let note = match (search.met, search.missed) {
            (Some(_), Some(missed)) => format!("missed at {} a second{weak}", text::number(missed)),
            (Some(_), None) => format!("no rate that was tried missed it{weak}"),
            (None, _) => "every rate that was tried missed it".to_owned(),
        };
        let metric = format!("highest rate with {} within {} ms", percentile.name(), latency_bound.as_millis());
        (BenchResult { metric, unit: "images/s".to_owned(), value: search.met, note }, runs)
    }

    /// The result of a single run.
    fn result(&self, run: &Run) -> BenchResult {
        match self.parameters.scenario {
            Scenario::ClosedLoop | Scenario::Offline => BenchResult {
                metric: "throughput".to_owned(),
                unit: "images/s".to_owned(),
                value: Some(run.images_per_second),
                note: String::new(),
            },
            Scenario::SingleStream | Scenario::MultiStream | Scenario::Server => {
                let percentile = self.parameters.percentile;
                let latency = run.latency_ms.as_ref();
                let value = latency.and_then(|latency| latency.get(percentile));
                let samples = latency.map_or(0, |latency| latency.samples);
                let least = percentile.min_samples();
                let note = if value.is_none() { format!("{samples} of {least} samples") } else { String::new() };
                let metric = format!("{} latency", percentile.name());
                BenchResult { metric, unit: "ms".to_owned(), value, note }
            }
        }
    }
}
