//! `backdrop bench compare A.json B.json`: ratios of two records with confidence intervals.
//!
//! A change is reported only if 1 is outside the interval of the ratio. The intervals contain the variation within the two runs;
//! a difference between the runs (another load on the machine, another clock) looks like a change.

use super::bootstrap::{CONFIDENCE, Ratio, ratio};
use super::percentiles::{Percentile, rank};
use super::record::{Record, Run};
use super::scenario::Scenario;
use super::text::number;
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::stdout;
use crate::cli::text_table::format_table;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(super) struct CompareCommand {
    /// The record to compare with
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The record that is compared
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

impl CompareCommand {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let comparison = Comparison::of(&Record::read(&self.a)?, &Record::read(&self.b)?)?;
        stdout::print_result(self.json, &comparison, || comparison.text())?;
        Ok(Outcome::Done)
    }
}

/// The comparison of two records.
#[derive(Debug, Serialize)]
struct Comparison {
    confidence_percent: u32,
    /// Differences of the conditions.
    differences: Vec<String>,
    rows: Vec<Row>,
}

/// The comparison of one metric.
#[derive(Debug, Serialize)]
struct Row {
    metric: String,
    a: f64,
    b: f64,
    ratio: f64,
    low: f64,
    high: f64,
    change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    Better,
    Worse,
    NotShown,
}

impl Row {
    fn new(metric: String, of: Ratio, more_is_better: bool) -> Self {
        let Ratio { a, b, ratio, low, high } = of;
        let change = match (low > 1.0, high < 1.0) {
            (true, _) if more_is_better => Change::Better,
            (true, _) => Change::Worse,
            (_, true) if more_is_better => Change::Worse,
            (_, true) => Change::Better,
            (false, false) => Change::NotShown,
        };
        Self { metric, a, b, ratio, low, high, change }
    }
}

impl Comparison {
    fn of(a: &Record, b: &Record) -> Result<Self, Failure> {
        let (of_a, of_b) = (a.parameters.scenario, b.parameters.scenario);
        if of_a != of_b {
            return Err(format!("A is a run of {} and B of {}", of_a.name(), of_b.name()).into());
        }
        let rows = match (a.runs.as_slice(), b.runs.as_slice()) {
            ([a], [b]) => run_rows(of_a, a, b),
            _ => rate_row(a, b).into_iter().collect(),
        };
        if rows.is_empty() {
            return Err("the records have nothing in common that can be compared".into());
        }
        Ok(Self { confidence_percent: CONFIDENCE, differences: differences(a, b), rows })
    }

    fn text(&self) -> String {
        let row = |row: &Row| {
            let change = match row.change {
                Change::Better => "better",
                Change::Worse => "worse",
                Change::NotShown => "no change shown",
            };
            [
                row.metric.clone(),
                number(row.a),
                number(row.b),
                format!("{:.3}", row.ratio),
                format!("{:.3} to {:.3}", row.low, row.high),
                change.to_owned(),
            ]
        };
        let interval = format!("{} % interval", self.confidence_percent);
        let table = format_table(["metric", "A", "B", "B/A", &interval, "change"], self.rows.iter().map(row));
        let differences = self.differences.iter().map(|difference| format!("\nalso differs: {difference}"));
        differences.fold(table, |text, line| text + &line)
    }
}

/// Throughput, latencies and stages of two runs.
fn run_rows(scenario: Scenario, a: &Run, b: &Run) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |metric: String, a: &[f64], b: &[f64], more_is_better, statistic: &dyn Fn(&mut [f64]) -> f64| {
        if !a.is_empty() && !b.is_empty() {
            rows.push(Row::new(metric, ratio(a, b, statistic), more_is_better));
        }
    };
    // An open loop's throughput is the rate that was set.
    if scenario != Scenario::Server {
        let (a, b) = (seconds_per_image(a), seconds_per_image(b));
        add("images/s".to_owned(), &a, &b, true, &|seconds| 1.0 / mean(seconds));
    }
    if a.latency_ms.is_some() && b.latency_ms.is_some() {
        let (a_ms, b_ms) = (&a.samples.latency_ms, &b.samples.latency_ms);
        add("mean latency, ms".to_owned(), a_ms, b_ms, false, &mean);
        for percentile in Percentile::ALL {
            if a_ms.len().min(b_ms.len()) >= percentile.min_samples() {
                add(format!("{} latency, ms", percentile.name()), a_ms, b_ms, false, &|ms| {
                    *ms.select_nth_unstable_by(rank(percentile.share(), ms.len()), f64::total_cmp).1
                });
            }
        }
    }
    for stage in &a.stages {
        let column = |run: &Run| run.samples.stages_ms.get(&stage.name).cloned().unwrap_or_default();
        add(format!("{}, mean ms", stage.name), &column(a), &column(b), false, &mean);
    }
    rows
}

/// Intervals between the ends of queries in their order, in seconds, divided by the images of a query.
fn seconds_per_image(run: &Run) -> Vec<f64> {
    let samples = &run.samples;
    let mut ends: Vec<f64> = samples.at_ms.iter().zip(&samples.latency_ms).map(|(at, latency)| at + latency).collect();
    ends.sort_by(f64::total_cmp);
    let images_per_query = run.images as f64 / ends.len() as f64;
    let per_image = 1e-3 / images_per_query;
    [0.0].iter().chain(&ends).zip(&ends).map(|(before, end)| (end - before) * per_image).collect()
}

fn mean(values: &mut [f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The highest rates of two searches; the interval is from the brackets of met and missed rates.
fn rate_row(a: &Record, b: &Record) -> Option<Row> {
    // The metric of a search names its percentile and bound; the metric of a run at one rate is a latency.
    if a.result.metric != b.result.metric {
        return None;
    }
    let (from, to) = (a.result.value?, b.result.value?);
    // The lowest rate above the result was missed, unless all that were tried were met.
    let next = |record: &Record, result: f64| {
        record.runs.iter().filter_map(|run| run.rate).filter(|&rate| rate > result).fold(f64::INFINITY, f64::min)
    };
    let of = Ratio { a: from, b: to, ratio: to / from, low: to / next(a, from), high: next(b, to) / from };
    Some(Row::new(format!("{}, {}", a.result.metric, a.result.unit), of, true))
}

/// Differences of the conditions, except seed and time.
fn differences(a: &Record, b: &Record) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |what: &str, a: String, b: String| {
        if a != b {
            differences.push(format!("{what}: A {a}, B {b}"));
        }
    };
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let photos = |record: &Record| {
        let pixels: usize = record.photos.iter().map(|photo| photo.pixels).sum();
        format!("{} of {} megapixels", record.photos.len(), number(pixels as f64 / 1e6))
    };
    let load = |record: &Record| {
        let p = &record.parameters;
        let rate = p.rate.map(|rate| format!(", {} a second", number(rate)));
        format!("{} clients, {} samples a query{}", p.clients, p.samples_per_query, rate.unwrap_or_default())
    };
    let set = |record: &Record| {
        let fields = record.parameters.set.iter().map(|(name, value)| format!(" {name}={value}"));
        record.parameters.endpoint.clone() + &fields.collect::<String>()
    };
    compare("version", a.version.clone(), b.version.clone());
    compare("model", or_none(&a.service.model), or_none(&b.service.model));
    compare("device", or_none(&a.service.device), or_none(&b.service.device));
    compare("daemon", or_none(&a.service.url), or_none(&b.service.url));
    compare("machine", a.machine.line(), b.machine.line());
    compare("photos", photos(a), photos(b));
    compare("endpoint", set(a), set(b));
    compare("load", load(a), load(b));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::record::tests::record;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Latencies of about 80 ms with a spread of 10 % and one slow query in twenty.
    fn latencies(count: usize, factor: f64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(11);
        let mut next = || {
            let slow = if random.random_bool(0.05) { 1.6 } else { 1.0 };
            80.0 * factor * slow * random.random_range(0.9..1.1)
        };
        (0..count).map(|_| next()).collect()
    }

    fn compare(a: &[f64], b: &[f64]) -> Comparison {
        Comparison::of(&record(Scenario::SingleStream, a), &record(Scenario::SingleStream, b)).unwrap()
    }

    #[test]
    fn a_change_of_20_percent_is_shown_in_both_directions() {
        let run = latencies(400, 1.0);
        let slower: Vec<f64> = latencies(800, 1.2)[400..].to_vec();
        let change = |a: &[f64], b: &[f64], metric: &str| {
            let comparison = compare(a, b);
            let row = comparison.rows.into_iter().find(|row| row.metric.starts_with(metric)).unwrap();
            (row.change, row.ratio)
        };
        for (metric, factor) in [("images/s", 1.0 / 1.2), ("mean", 1.2), ("p50", 1.2), ("p90", 1.2), ("matte", 1.2)] {
            let (worse, ratio) = change(&run, &slower, metric);
            assert!(worse == Change::Worse && (ratio / factor - 1.0).abs() < 0.06, "{metric}: {ratio}");
            assert_eq!(change(&slower, &run, metric).0, Change::Better, "{metric}");
        }
    }

    #[test]
    fn other_conditions_are_named_and_other_scenarios_refused() {
        let run = latencies(100, 1.0);
        let (a, mut b) = (record(Scenario::SingleStream, &run), record(Scenario::SingleStream, &run));
        assert!(Comparison::of(&a, &b).unwrap().differences.is_empty());
        b.service.model = Some("mine/2".to_owned());
        b.photos.clear();
        let text = Comparison::of(&a, &b).unwrap().text();
        assert!(text.contains("\nalso differs: model: A fgnet-384/5, B mine/2"), "{text}");
        assert!(text.contains("\nalso differs: photos: A 1 of 1.00 megapixels, B 0 of 0.00 megapixels"), "{text}");
        let error = Comparison::of(&a, &record(Scenario::Offline, &run)).unwrap_err().to_string();
        assert_eq!(error, "A is a run of single-stream and B of offline");
    }

    #[test]
    fn searches_change_only_where_their_brackets_are_apart() {
        let search = |met: f64| {
            let mut record = record(Scenario::Server, &[80.0; 70]);
            record.result.metric = "highest rate with p90 within 500 ms".to_owned();
            record.result.value = Some(met);
            let run = record.runs.remove(0);
            record.runs = vec![Run { rate: Some(met), ..run.clone() }, Run { rate: Some(met * 1.05), ..run }];
            record
        };
        let change = |a, b| Comparison::of(&search(a), &search(b)).unwrap().rows[0].change;
        assert_eq!(change(10.0, 10.4), Change::NotShown);
        assert_eq!(change(10.0, 10.6), Change::Better);
        assert_eq!(change(10.0, 9.4), Change::Worse);

        let (rate, latency) = (search(10.0), record(Scenario::Server, &[80.0; 70]));
        for (a, b) in [(&rate, &latency), (&latency, &rate)] {
            let error = Comparison::of(a, b).unwrap_err().to_string();
            assert_eq!(error, "the records have nothing in common that can be compared");
        }
    }
}
