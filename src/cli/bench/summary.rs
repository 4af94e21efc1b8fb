//! Summarises samples: rates, latency percentiles and stage medians.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// One request and its response.
pub(super) struct Sample {
    /// `200`, another status, or why there was no response.
    pub(super) outcome: String,
    /// From sending to the last byte of the response.
    pub(super) took: Duration,
    /// Milliseconds of each stage, in their order.
    pub(super) stages: Vec<(String, f64)>,
}

/// The summary of a run. Rates and latencies are of successful responses.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    jobs: usize,
    seconds: f64,
    images: usize,
    images_per_second: f64,
    megapixels_per_second: f64,
    latency_ms: Latency,
    /// Median of each stage, in the order of the stages.
    #[serde(serialize_with = "as_object")]
    stages_ms: Vec<(String, f64)>,
    outcomes: BTreeMap<String, usize>,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p95: f64,
    p99: f64,
}

impl Summary {
    /// Summarises samples, each with the pixels of its picture.
    pub(super) fn new(samples: Vec<(usize, Sample)>, jobs: usize, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        let mut outcomes = BTreeMap::new();
        let (mut latencies, mut pixels) = (Vec::new(), 0);
        let mut stages: Vec<(String, Vec<f64>)> = Vec::new();
        for (size, sample) in samples {
            if sample.outcome == "200" {
                latencies.push(sample.took.as_secs_f64() * 1000.0);
                pixels += size;
                for (name, milliseconds) in sample.stages {
                    match stages.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, all)) => all.push(milliseconds),
                        None => stages.push((name, vec![milliseconds])),
                    }
                }
            }
            *outcomes.entry(sample.outcome).or_default() += 1;
        }
        Self {
            jobs,
            seconds,
            images: latencies.len(),
            images_per_second: latencies.len() as f64 / seconds,
            megapixels_per_second: pixels as f64 / 1e6 / seconds,
            latency_ms: Latency {
                p50: percentile(&mut latencies, 0.50),
                p95: percentile(&mut latencies, 0.95),
                p99: percentile(&mut latencies, 0.99),
            },
            stages_ms: stages.into_iter().map(|(name, mut all)| (name, percentile(&mut all, 0.5))).collect(),
            outcomes,
        }
    }

    /// Responses other than pictures and refusals because of load.
    pub(super) fn errors(&self) -> usize {
        self.outcomes
            .iter()
            .filter(|(outcome, _)| !matches!(outcome.as_str(), "200" | "429"))
            .map(|(_, count)| count)
            .sum()
    }

    /// The summary as text.
    pub(super) fn text(&self) -> String {
        let Self { jobs, seconds, images, images_per_second, megapixels_per_second, latency_ms, stages_ms, outcomes } =
            self;
        let mut text = format!(
            "{images} images in {seconds:.1} s, {jobs} at once\n\
             throughput  {images_per_second:.2} images/s  {megapixels_per_second:.2} MPix/s\n\
             latency     p50 {:.0} ms  p95 {:.0} ms  p99 {:.0} ms",
            latency_ms.p50, latency_ms.p95, latency_ms.p99
        );
        let mut list = |label: &str, entries: String| {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{label:<12}{entries}");
        };
        if !stages_ms.is_empty() {
            let stages = stages_ms.iter().map(|(name, milliseconds)| format!("{name} {milliseconds:.1} ms"));
            list("medians", stages.collect::<Vec<_>>().join("  "));
        }
        if self.outcomes.keys().any(|outcome| outcome != "200") {
            let outcomes = outcomes.iter().map(|(outcome, count)| format!("{count} × {outcome}"));
            list("answers", outcomes.collect::<Vec<_>>().join("  "));
        }
        text
    }
}

fn as_object<S: Serializer>(stages: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(stages.iter().map(|(name, milliseconds)| (name, milliseconds)))
}

/// The smallest value that at least `share` of all values do not exceed; 0 for none.
fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 0.50), 50.0);
        assert_eq!(percentile(&mut values, 0.99), 99.0);
        assert_eq!(percentile(&mut [7.0], 0.5), 7.0);
        assert_eq!(percentile(&mut [], 0.5), 0.0);
    }

    #[test]
    fn only_pictures_count_for_rates_and_only_real_errors_as_errors() {
        let sample = |outcome: &str, ms| Sample {
            outcome: outcome.to_owned(),
            took: Duration::from_millis(ms),
            stages: vec![("decode".to_owned(), ms as f64 / 10.0)],
        };
        let samples = vec![
            (1_000_000, sample("200", 100)),
            (1_000_000, sample("200", 300)),
            (1_000_000, sample("429", 1)),
            (1_000_000, sample("connection reset", 1)),
        ];
        let summary = Summary::new(samples, 2, Duration::from_secs(2));
        assert_eq!((summary.images, summary.images_per_second, summary.megapixels_per_second), (2, 1.0, 1.0));
        assert_eq!(summary.latency_ms.p50, 100.0);
        assert_eq!(summary.stages_ms, [("decode".to_owned(), 10.0)]);
        assert_eq!(summary.errors(), 1);
        assert!(summary.text().contains("answers     2 × 200  1 × 429  1 × connection reset"), "{}", summary.text());
    }
}
