//! The record of a benchmark: service, machine, parameters, results, and every sample. Written as JSON and read by `compare`.

use super::closed_loop::Issued;
use super::machine::Machine;
use super::percentiles::{Latency, Percentile, at_most, thousandths};
use super::query::{Outcome, Query, Reply};
use super::scenario::Scenario;
use crate::cli::exit_code::Failure;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The version of this format.
const FORMAT: u32 = 1;

/// The name of the time outside all stages: HTTP, transfer, the client.
pub(super) const OTHER: &str = "other";

/// A benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) format: u32,
    /// The version of the program that measured.
    pub(super) version: String,
    pub(super) started: Timestamp,
    pub(super) parameters: Parameters,
    pub(super) service: ServiceInfo,
    /// The machine that measured, also if the daemon is on another machine.
    pub(super) machine: Machine,
    pub(super) photos: Vec<PhotoInfo>,
    pub(super) result: BenchResult,
    /// One run, or the runs of a search in their order, one for each rate.
    pub(super) runs: Vec<Run>,
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Parameters {
    pub(super) scenario: Scenario,
    pub(super) endpoint: String,
    /// Fields of the endpoint.
    pub(super) set: Vec<(String, String)>,
    pub(super) clients: usize,
    pub(super) samples_per_query: usize,
    pub(super) seconds: f64,
    pub(super) warm_up_seconds: f64,
    pub(super) seed: u64,
    pub(super) percentile: Percentile,
    /// Arrivals a second; `None` if it was searched.
    pub(super) rate: Option<f64>,
    pub(super) latency_bound_ms: Option<f64>,
    /// Most connections to a daemon.
    pub(super) max_connections: Option<usize>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServiceInfo {
    /// The daemon; `None` for the pipeline in this process.
    pub(super) url: Option<String>,
    /// The device of the pipeline in this process.
    pub(super) device: Option<String>,
    pub(super) model: Option<String>,
}

/// A picture that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PhotoInfo {
    pub(super) name: String,
    pub(super) bytes: usize,
    pub(super) pixels: usize,
}

/// The one number of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct BenchResult {
    /// Its name, such as `p90 latency`.
    pub(super) metric: String,
    pub(super) unit: String,
    /// `None` if the run does not show it.
    pub(super) value: Option<f64>,
    /// Why there is no value, or what limits it; may be empty.
    pub(super) note: String,
}

/// The measurements of one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Arrivals a second of an open loop.
    pub(super) rate: Option<f64>,
    /// From the start to the last answer.
    pub(super) seconds: f64,
    /// Finished pictures.
    pub(super) images: usize,
    pub(super) images_per_second: f64,
    pub(super) megapixels_per_second: f64,
    /// Latency of finished queries. `None` in the offline scenario, in which they only wait for each other.
    pub(super) latency_ms: Option<Latency>,
    /// In the order of the stages.
    pub(super) stages: Vec<StageTime>,
    pub(super) outcomes: Outcomes,
    /// The comparison with the latency bound, if there is one.
    pub(super) bound: Option<Bound>,
    pub(super) generator: Generator,
    pub(super) samples: Samples,
}

/// The time of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StageTime {
    pub(super) name: String,
    pub(super) mean_ms: f64,
    /// Share of the mean time of a picture.
    pub(super) share: f64,
}

/// Pictures by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcomes {
    pub(super) done: usize,
    /// Refused because of load (429).
    pub(super) refused: usize,
    /// Other failures, by status or reason.
    pub(super) failed: BTreeMap<String, usize>,
}

impl Outcomes {
    fn of<'a>(replies: impl Iterator<Item = &'a Reply>) -> Self {
        let mut outcomes = Self::default();
        for reply in replies {
            match &reply.outcome {
                Outcome::Done => outcomes.done += 1,
                Outcome::Refused => outcomes.refused += 1,
                Outcome::Failed(reason) => *outcomes.failed.entry(reason.clone()).or_default() += 1,
            }
        }
        outcomes
    }

    /// Failures other than refusals.
    pub(super) fn failures(&self) -> usize {
        self.failed.values().sum()
    }
}

/// A run against the latency bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Bound {
    /// Queries that were not answered within it, with refused and failed queries.
    pub(super) exceeded: usize,
    pub(super) verdict: Verdict,
    /// Whether LoadGen's early stopping would also accept the run: the share is within the bound with 99 % confidence.
    pub(super) confident: bool,
}

/// Whether a run met the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    Met,
    Missed,
    /// The percentile needs more samples.
    TooFewSamples,
}

/// How the load was generated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Generator {
    pub(super) queries: usize,
    /// Queries that were sent more than 10 ms later than due; the latencies include it.
    pub(super) late: usize,
    pub(super) most_late_ms: f64,
    /// Most connections to a daemon in use at once.
    pub(super) peak_connections: Option<usize>,
    /// Whether the run was ended when it could not meet the bound any more.
    pub(super) stopped_early: bool,
}

impl Generator {
    /// Whether the generator could not keep the load: more than 1 % of the queries were late.
    pub(super) const fn is_late(&self) -> bool {
        self.late * 100 > self.queries
    }
}

/// Each finished query, in the order in which they were due; columns, because they take less room than rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Samples {
    /// When it was due, since the start.
    pub(super) at_ms: Vec<f64>,
    pub(super) latency_ms: Vec<f64>,
    /// The mean of its pictures for each stage.
    pub(super) stages_ms: BTreeMap<String, Vec<f64>>,
}

/// Properties of the scenario that a run's summary depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Criteria {
    pub(super) has_latency: bool,
    pub(super) rate: Option<f64>,
    pub(super) latency_bound: Option<Duration>,
    pub(super) percentile: Percentile,
    pub(super) peak_connections: Option<usize>,
}

/// Lateness that counts: more than a scheduler's time slice.
const LATE: Duration = Duration::from_millis(10);

impl Run {
    /// Summarises the queries of a load.
    pub(super) fn new(issued: &Issued, criteria: &Criteria) -> Self {
        let Issued { queries, took, stopped_early } = issued;
        let mut done: Vec<&Query> = queries.iter().filter(|query| query.is_done()).collect();
        done.sort_by_key(|query| query.at);
        let finished = || done.iter().flat_map(|query| &query.replies);
        let pixels: usize = done.iter().map(|query| query.pixels).sum();
        let (seconds, images) = (took.as_secs_f64(), finished().count());
        let latency: Vec<f64> = done.iter().map(|query| rounded(query.latency)).collect();
        let order = stage_names(finished());
        let column = |name: &String| done.iter().map(|query| query_stage(query, name)).collect::<Vec<_>>();
        let columns = order.into_iter().map(|name| (name.clone(), column(&name)));
        let columns: Vec<_> = columns.filter(|(_, column)| column.iter().any(|&took| took > 0.0)).collect();
        Self {
            rate: criteria.rate,
            seconds: thousandths(seconds),
            images,
            images_per_second: thousandths(images as f64 / seconds),
            megapixels_per_second: thousandths(pixels as f64 / 1e6 / seconds),
            latency_ms: Latency::of(&latency).filter(|_| criteria.has_latency),
            stages: stage_times(&columns),
            outcomes: Outcomes::of(queries.iter().flat_map(|query| &query.replies)),
            bound: criteria.latency_bound.map(|bound| Bound::of(issued, bound, criteria.percentile)),
            generator: Generator {
                queries: queries.len(),
                late: queries.iter().filter(|query| query.late > LATE).count(),
                most_late_ms: queries.iter().map(|query| rounded(query.late)).fold(0.0, f64::max),
                peak_connections: criteria.peak_connections,
                stopped_early: *stopped_early,
            },
            samples: Samples {
                at_ms: done.iter().map(|query| rounded(query.at)).collect(),
                latency_ms: latency,
                stages_ms: columns.into_iter().collect(),
            },
        }
    }
}

impl Bound {
    fn of(issued: &Issued, bound: Duration, percentile: Percentile) -> Self {
        let queries = issued.queries.len();
        let exceeds = |query: &&Query| !query.is_done() || query.latency > bound;
        let exceeded = issued.queries.iter().filter(exceeds).count();
        let above = percentile.above();
        // The probability of so many or more, if the percentile were at the bound.
        let by_chance = exceeded.checked_sub(1).map_or(1.0, |fewer| 1.0 - at_most(fewer, queries, above));
        let verdict = if issued.stopped_early || by_chance < 0.01 {
            Verdict::Missed
        } else if queries < percentile.min_samples() {
            Verdict::TooFewSamples
        } else if exceeded > percentile.may_exceed(queries) {
            Verdict::Missed
        } else {
            Verdict::Met
        };
        let confident = verdict == Verdict::Met && at_most(exceeded, queries, above) < 0.01;
        Self { exceeded, verdict, confident }
    }
}

/// Milliseconds with three decimals.
fn rounded(duration: Duration) -> f64 {
    thousandths(duration.as_secs_f64() * 1e3)
}

/// The names of all stages in their order, and [`OTHER`].
fn stage_names<'a>(replies: impl Iterator<Item = &'a Reply>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in replies.flat_map(|reply| &reply.stages) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if !names.is_empty() {
        names.push(OTHER.to_owned());
    }
    names
}

/// The mean time of a stage of a query's pictures.
fn query_stage(query: &Query, name: &str) -> f64 {
    let of = |reply: &Reply| {
        if name == OTHER {
            let stages: f64 = reply.stages.iter().map(|(_, took)| took).sum();
            return (reply.took.as_secs_f64() * 1e3 - stages).max(0.0);
        }
        reply.stages.iter().find(|(stage, _)| stage == name).map_or(0.0, |(_, took)| *took)
    };
    thousandths(query.replies.iter().map(of).sum::<f64>() / query.replies.len() as f64)
}

/// The mean and share of each stage.
fn stage_times(columns: &[(String, Vec<f64>)]) -> Vec<StageTime> {
    let mean = |column: &[f64]| column.iter().sum::<f64>() / column.len() as f64;
    let all: f64 = columns.iter().map(|(_, column)| mean(column)).sum();
    let time = |(name, column): &(String, Vec<f64>)| StageTime {
        name: name.clone(),
        mean_ms: thousandths(mean(column)),
        share: thousandths(mean(column) / all),
    };
    columns.iter().map(time).collect()
}

impl Record {
    /// A record of this version.
    pub(super) fn new(
        started: Timestamp,
        parameters: Parameters,
        service: ServiceInfo,
        photos: Vec<PhotoInfo>,
        result: BenchResult,
        runs: Vec<Run>,
    ) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let machine = Machine::this();
        Self { format: FORMAT, version, started, parameters, service, machine, photos, result, runs }
    }

    /// Reads a record.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?)
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let not_a_record = |error| format!("not a record of `backdrop bench`: {error}");
        let Head { format } = serde_json::from_slice(text).map_err(not_a_record)?;
        if format != FORMAT {
            return Err(format!("a record of format {format}; this version reads format {FORMAT}"));
        }
        serde_json::from_slice(text).map_err(not_a_record)
    }

    /// As JSON on one line.
    pub(super) fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn reply(outcome: Outcome, ms: f64) -> Reply {
        let stages = vec![("decode".to_owned(), ms * 0.1), ("matte".to_owned(), ms * 0.6)];
        Reply { stages, ..Reply::without_result(outcome, Duration::from_secs_f64(ms / 1e3)) }
    }

    fn query(at: u64, latency_ms: f64, outcome: Outcome) -> Query {
        Query {
            at: Duration::from_millis(at),
            latency: Duration::from_secs_f64(latency_ms / 1e3),
            late: Duration::ZERO,
            pixels: 1_000_000,
            replies: vec![reply(outcome, latency_ms)],
        }
    }

    fn criteria(bound_ms: Option<u64>) -> Criteria {
        Criteria {
            has_latency: true,
            rate: None,
            latency_bound: bound_ms.map(Duration::from_millis),
            percentile: Percentile::P90,
            peak_connections: None,
        }
    }

    fn issued(queries: Vec<Query>) -> Issued {
        Issued { queries, took: Duration::from_secs(2), stopped_early: false }
    }

    /// A record whose queries have these latencies, one after the other.
    pub(in crate::cli::bench) fn record(scenario: Scenario, latencies: &[f64]) -> Record {
        let mut at = 0.0;
        let mut queries = Vec::new();
        for &latency in latencies {
            queries.push(query(at as u64, latency, Outcome::Done));
            at += latency;
        }
        let issued = Issued { queries, took: Duration::from_secs_f64(at / 1e3), stopped_early: false };
        let run = Run::new(&issued, &Criteria { has_latency: scenario != Scenario::Offline, ..criteria(None) });
        let parameters = Parameters {
            scenario,
            endpoint: "remove".to_owned(),
            set: vec![("edge".to_owned(), "hard".to_owned())],
            clients: 1,
            samples_per_query: 1,
            seconds: 10.0,
            warm_up_seconds: 2.0,
            seed: 0,
            percentile: Percentile::P90,
            rate: None,
            latency_bound_ms: None,
            max_connections: None,
        };
        let service = ServiceInfo { url: None, device: Some("CPU".to_owned()), model: Some("fgnet-384/5".to_owned()) };
        let photos = vec![PhotoInfo { name: "<cup>.jpg".to_owned(), bytes: 50_000, pixels: 1_000_000 }];
        let result = BenchResult {
            metric: "p90 latency".to_owned(),
            unit: "ms".to_owned(),
            value: run.latency_ms.as_ref().and_then(|latency| latency.get(Percentile::P90)),
            note: String::new(),
        };
        Record::new(Timestamp::UNIX_EPOCH, parameters, service, photos, result, vec![run])
    }

    #[test]
    fn refusals_and_failures_are_counted_and_no_latencies() {
        let queries = vec![
            query(0, 100.0, Outcome::Done),
            query(10, 300.0, Outcome::Done),
            query(20, 1.0, Outcome::Refused),
            query(30, 1.0, Outcome::Failed("connection reset".to_owned())),
        ];
        let run = Run::new(&issued(queries), &criteria(None));
        assert_eq!((run.images, run.images_per_second, run.megapixels_per_second), (2, 1.0, 1.0));
        let latency = run.latency_ms.unwrap();
        assert_eq!((latency.samples, latency.min, latency.mean), (2, 100.0, 200.0));
        assert_eq!((run.outcomes.done, run.outcomes.refused, run.outcomes.failures()), (2, 1, 1));
        assert_eq!(run.samples.latency_ms, [100.0, 300.0]);
    }

    #[test]
    fn shares_of_stages_are_of_the_pictures_whole_time() {
        let run =
            Run::new(&issued(vec![query(0, 100.0, Outcome::Done), query(10, 300.0, Outcome::Done)]), &criteria(None));
        let stages: Vec<_> = run.stages.iter().map(|stage| (stage.name.as_str(), stage.mean_ms)).collect();
        assert_eq!(stages, [("decode", 20.0), ("matte", 120.0), (OTHER, 60.0)]);
        assert!((run.stages[1].share - 0.6).abs() < 1e-9);
    }

    #[test]
    fn refused_queries_exceed_the_bound() {
        let run = |slow: u64, refused: u64, all: u64| {
            let outcome = |i| if i < refused { Outcome::Refused } else { Outcome::Done };
            let latency = |i| if i < slow + refused { 500.0 } else { 50.0 };
            let queries = (0..all).map(|i| query(i, latency(i), outcome(i))).collect();
            Run::new(&issued(queries), &criteria(Some(100))).bound.unwrap()
        };
        let bound = |exceeded, verdict, confident| Bound { exceeded, verdict, confident };
        assert_eq!(run(10, 0, 100), bound(10, Verdict::Met, false));
        assert_eq!(run(3, 0, 100), bound(3, Verdict::Met, true));
        assert_eq!(run(6, 5, 100), bound(11, Verdict::Missed, false));
        assert_eq!(run(0, 0, 60), bound(0, Verdict::TooFewSamples, false));
        assert_eq!(run(30, 0, 60), bound(30, Verdict::Missed, false), "that is certain with few samples");
    }

    #[test]
    fn a_generator_with_more_than_one_percent_of_late_queries_is_late() {
        let late = |late: usize| {
            let mut queries: Vec<_> = (0..200).map(|i| query(i, 50.0, Outcome::Done)).collect();
            queries.iter_mut().take(late).for_each(|query| query.late = Duration::from_millis(25));
            Run::new(&issued(queries), &criteria(None)).generator
        };
        assert!(!late(2).is_late() && late(3).is_late());
        assert_eq!((late(3).late, late(3).most_late_ms), (3, 25.0));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let latencies: Vec<f64> = (0..70).map(|i| 80.0 + f64::from(i % 7)).collect();
        let written = record(Scenario::SingleStream, &latencies);
        assert_eq!(Record::parse(written.json().unwrap().as_bytes()).unwrap(), written);
        let offline = record(Scenario::Offline, &latencies);
        assert_eq!(offline.runs[0].latency_ms, None);
        assert_eq!(Record::parse(offline.json().unwrap().as_bytes()).unwrap(), offline);
        let json: serde_json::Value = serde_json::from_str(&written.json().unwrap()).unwrap();
        assert_eq!(
            (&json["runs"][0]["latency_ms"]["p90"], &json["runs"][0]["latency_ms"]["p99"]),
            (&86.0.into(), &().into())
        );
    }

    #[test]
    fn other_files_are_refused() {
        let error = Record::parse(b"{\"format\":2}").unwrap_err();
        assert_eq!(error, "a record of format 2; this version reads format 1");
        assert!(Record::parse(b"[]").unwrap_err().starts_with("not a record of"));
    }
}
