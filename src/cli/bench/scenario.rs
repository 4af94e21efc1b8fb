//! The scenarios of a benchmark: the four of MLPerf LoadGen ("MLPerf Inference Benchmark", Reddi et al., ISCA 2020), and a
//! closed loop of several clients.

use super::percentiles::Percentile;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How queries are issued and what the result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Scenario {
    /// --jobs clients, each of which sends its next picture when it has the last one; the result is the throughput
    ClosedLoop,
    /// One picture at a time; the result is a percentile of the latency
    SingleStream,
    /// One query of --samples-per-query pictures at a time; the result is a percentile of the queries' latency
    MultiStream,
    /// Pictures arrive at random (Poisson), whether or not earlier ones are answered; the result is the highest rate at which
    /// a percentile of the latency is within --latency-bound
    Server,
    /// All pictures are there at the start; the result is the throughput
    Offline,
}

impl Scenario {
    /// Its name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClosedLoop => "closed-loop",
            Self::SingleStream => "single-stream",
            Self::MultiStream => "multi-stream",
            Self::Server => "server",
            Self::Offline => "offline",
        }
    }

    /// LoadGen's percentile of the result, the default.
    pub(super) const fn default_percentile(self) -> Percentile {
        match self {
            Self::SingleStream => Percentile::P90,
            Self::MultiStream | Self::Server | Self::ClosedLoop | Self::Offline => Percentile::P99,
        }
    }

    /// Clients of a scenario in which each sends its next query when it has the last answer.
    pub(super) const fn default_jobs(self) -> u16 {
        match self {
            Self::SingleStream | Self::MultiStream => 1,
            Self::ClosedLoop => 4,
            // In the warm-up, which measures the throughput that the search begins with.
            Self::Server => 8,
            // Enough for full batches while other pictures are decoded and encoded.
            Self::Offline => 32,
        }
    }
}
