//! Latency percentiles, stated only where a run has enough samples for them.
//!
//! The rule is early stopping of MLPerf LoadGen (`loadgen/early_stopping.cc`): a percentile `p` needs so many samples that
//! at most one of them lies above the true percentile with a probability below 1 %. That is 11 samples for p50, 64 for p90,
//! 130 for p95, 662 for p99 and 6636 for p99.9. A stated percentile is the nearest rank: a measured value, not an interpolation.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The chance of a wrong statement that is accepted: LoadGen's confidence is 99 %.
const RISK: f64 = 0.01;

/// The percentiles of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
pub(super) enum Percentile {
    #[serde(rename = "p50")]
    #[value(name = "50")]
    P50,
    #[serde(rename = "p90")]
    #[value(name = "90")]
    P90,
    #[serde(rename = "p95")]
    #[value(name = "95")]
    P95,
    #[serde(rename = "p99")]
    #[value(name = "99")]
    P99,
    #[serde(rename = "p99.9")]
    #[value(name = "99.9")]
    P999,
}

impl Percentile {
    /// All of them, in order.
    pub(super) const ALL: [Self; 5] = [Self::P50, Self::P90, Self::P95, Self::P99, Self::P999];

    /// The share of samples that do not exceed it.
    pub(super) const fn share(self) -> f64 {
        match self {
            Self::P50 => 0.5,
            Self::P90 => 0.9,
            Self::P95 => 0.95,
            Self::P99 => 0.99,
            Self::P999 => 0.999,
        }
    }

    /// `p50`, …, `p99.9`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
        }
    }

    /// Least number of samples with which it is stated.
    pub(super) fn min_samples(self) -> usize {
        (2..).find(|&n| at_most(1, n, self.above()) < RISK).expect("the probability falls to 0")
    }

    /// The share of samples above it.
    pub(super) const fn above(self) -> f64 {
        1.0 - self.share()
    }

    /// Its value among sorted samples: the least that [`Self::share`] of them do not exceed. `None` for too few samples.
    pub(super) fn of(self, sorted: &[f64]) -> Option<f64> {
        (sorted.len() >= self.min_samples()).then(|| sorted[rank(self.share(), sorted.len())])
    }

    /// How many of `count` samples may be above it.
    pub(super) fn may_exceed(self, count: usize) -> usize {
        // The small term keeps 0.01 × 700, which is a little less than 7 in binary, at 7.
        (self.above() * count as f64 + 1e-9) as usize
    }
}

/// Index of the nearest rank of `share` among `count` sorted samples.
pub(super) fn rank(share: f64, count: usize) -> usize {
    ((share * count as f64 - 1e-9).ceil() as usize).clamp(1, count) - 1
}

/// The probability that at most `k` of `n` independent events with probability `q` occur.
pub(super) fn at_most(k: usize, n: usize, q: f64) -> f64 {
    // In logarithms, because 0.99^n underflows for a large n.
    let (log_q, log_rest) = (q.ln(), (1.0 - q).ln());
    let mut log_term = n as f64 * log_rest;
    let mut sum = log_term.exp();
    for i in 0..k.min(n) {
        log_term += ((n - i) as f64 / (i + 1) as f64).ln() + log_q - log_rest;
        sum += log_term.exp();
    }
    sum.min(1.0)
}

/// Rounds to three decimals: more are noise, and short numbers are read from JSON as they were written.
pub(super) fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// A summary of latencies, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Latency {
    pub(super) samples: usize,
    pub(super) mean: f64,
    pub(super) min: f64,
    /// `None` for a percentile that needs more samples.
    #[serde(flatten)]
    pub(super) percentiles: BTreeMap<Percentile, Option<f64>>,
    pub(super) max: f64,
}

impl Latency {
    /// Summarises samples; `None` without any.
    pub(super) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self {
            samples: sorted.len(),
            mean: thousandths(sorted.iter().sum::<f64>() / sorted.len() as f64),
            min,
            percentiles: Percentile::ALL.into_iter().map(|percentile| (percentile, percentile.of(&sorted))).collect(),
            max,
        })
    }

    /// The percentile, if the run has enough samples for it.
    pub(super) fn get(&self, percentile: Percentile) -> Option<f64> {
        self.percentiles.get(&percentile).copied().flatten()
    }

    /// The percentiles that need more samples, as a sentence; empty when all are stated.
    pub(super) fn missing(&self) -> String {
        let missing = Percentile::ALL.into_iter().filter(|&percentile| self.get(percentile).is_none());
        let needs: Vec<_> = missing.map(|p| format!("{} needs {}", p.name(), p.min_samples())).collect();
        if needs.is_empty() {
            return String::new();
        }
        format!("not stated with {} samples: {}", self.samples, needs.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let sorted: Vec<f64> = (1..=1000).map(f64::from).collect();
        let of = |percentile: Percentile| percentile.of(&sorted);
        assert_eq!(of(Percentile::P50), Some(500.0));
        assert_eq!(of(Percentile::P90), Some(900.0));
        assert_eq!(of(Percentile::P95), Some(950.0));
        assert_eq!(of(Percentile::P99), Some(990.0));
        assert_eq!(of(Percentile::P999), None, "1000 samples are too few");
    }

    /// 64 and 662 are published with LoadGen: the queries that a valid single-stream and multi-stream run needs at least.
    #[test]
    fn the_samples_needed_are_those_of_loadgen() {
        assert_eq!(Percentile::ALL.map(Percentile::min_samples), [11, 64, 130, 662, 6636]);
    }

    #[test]
    fn one_of_a_hundred_may_exceed_the_99th_percentile() {
        assert_eq!([99, 100, 662, 700].map(|count| Percentile::P99.may_exceed(count)), [0, 1, 6, 7]);
    }
}
