//! Configuration section `[engine]`: the engine's bounds and timings.

use crate::model::Precision;
use crate::recipe::Network;
use std::time::Duration;

/// Bounds and timings of the engine.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineConfig {
    /// The model of pictures for which neither the request nor the account sets one: `standard`, with a second pass over small
    /// subjects; `quality`, over all subjects that do not fill the frame; `fast`, one pass; or the name of an added one. Frames of clips have one pass.
    pub model: Network,
    /// What the segmentation network multiplies in: `f32`, or `bf16` on a CPU with AVX-512 BF16. Masks differ slightly, and
    /// the model's name with them.
    pub precision: Precision,
    /// Pictures of requests in flight, from the end of their upload to the encoded answer; one more is refused (429). Accounts share them
    /// evenly; a single account leaves an eighth free.
    pub max_requests_in_flight: usize,
    /// Decoded megapixels in memory at once, input and output. Pictures wait for it. An eighth is for small pictures only; a picture larger
    /// than the rest takes all of the rest.
    pub max_megapixels_in_flight: u32,
    /// Threads that decode, matte, resize and encode; 0 is one per core.
    pub cpu_workers: usize,
    /// Pictures in one run of the network, at most.
    pub max_batch: usize,
    /// After this time without a request the network is unloaded, until the next one; unset, it stays.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::optional")]
    pub idle_unload: Option<Duration>,
    /// When CPU work waits and no worker has begun or ended any for this long, `/readyz` reports unavailable.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub stalled_after: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            model: Network::default(),
            precision: Precision::default(),
            max_requests_in_flight: 64,
            max_megapixels_in_flight: 64,
            cpu_workers: 0,
            max_batch: 8,
            idle_unload: None,
            stalled_after: Duration::from_secs(30),
        }
    }
}

impl EngineConfig {
    /// Every mistake in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let mut check = |holds: bool, mistake: &str| {
            if !holds {
                mistakes.push(format!("engine.{mistake}"));
            }
        };
        check((1..=65_536).contains(&self.max_requests_in_flight), "max_requests_in_flight: expected 1 to 65536");
        check(
            (1..=1_000_000).contains(&self.max_megapixels_in_flight),
            "max_megapixels_in_flight: expected 1 to 1000000",
        );
        check(self.cpu_workers <= 1024, "cpu_workers: expected at most 1024");
        check((1..=64).contains(&self.max_batch), "max_batch: expected 1 to 64");
        check(self.idle_unload != Some(Duration::ZERO), "idle_unload: expected more than no time, such as 10m");
        check(self.stalled_after != Duration::ZERO, "stalled_after: expected more than no time, such as 30s");
        mistakes
    }

    /// `cpu_workers`, with 0 resolved.
    pub(super) fn workers(&self) -> usize {
        match self.cpu_workers {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            workers => workers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_is_reported_at_once() {
        assert!(EngineConfig::default().validate().is_empty());
        let broken = EngineConfig {
            max_requests_in_flight: 0,
            max_megapixels_in_flight: 0,
            cpu_workers: 100_000,
            max_batch: 0,
            idle_unload: Some(Duration::ZERO),
            stalled_after: Duration::ZERO,
            ..EngineConfig::default()
        };
        assert_eq!(broken.validate().len(), 6);
    }

    #[test]
    fn the_idle_time_is_a_human_readable_duration() {
        let config: EngineConfig = toml::from_str("idle_unload = \"10m\"").unwrap();
        assert_eq!(config.idle_unload, Some(Duration::from_secs(600)));
        assert_eq!(toml::from_str::<EngineConfig>(&toml::to_string(&config).unwrap()).unwrap(), config);
        assert_eq!(toml::from_str::<EngineConfig>("").unwrap(), EngineConfig::default());
        assert!(toml::from_str::<EngineConfig>("max_batsh = 3").is_err());
    }
}
