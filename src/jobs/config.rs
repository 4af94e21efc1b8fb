//! Section `[jobs]`.

use serde::{Deserialize, Serialize};

/// A petabyte.
const MOST_MEGABYTES: u64 = 1 << 30;

/// Where results go, and how much is done at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobsConfig {
    /// Where results are kept: `s3://`, `gs://`, `az://` or `file://`; without one, the folder `results` in the data
    /// directory.
    pub results: Option<String>,
    /// Jobs that are worked on at once.
    pub parallel: usize,
    /// Jobs that a key may have waiting or under way; one more is refused.
    pub max_queued_per_key: usize,
    /// Megabytes that clips, segments and results may take on this machine; new clips are refused from three quarters of
    /// it on, and a job under way fails beyond it.
    pub max_megabytes: u64,
    /// Megabytes of the disk that new clips leave free; below half of them a job under way fails.
    pub min_free_megabytes: u64,
}

impl Default for JobsConfig {
    fn default() -> Self {
        Self { results: None, parallel: 1, max_queued_per_key: 20, max_megabytes: 16_384, min_free_megabytes: 512 }
    }
}

impl JobsConfig {
    /// Every mistake in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let in_range = [
            ("parallel", self.parallel, 64),
            // The place of a job in the queue is found by going through it.
            ("max_queued_per_key", self.max_queued_per_key, 1000),
        ];
        let wrong = in_range.into_iter().filter(|&(_, value, most)| !(1..=most).contains(&value));
        let wrong = wrong.map(|(name, _, most)| format!("jobs.{name}: expected a number from 1 to {most}"));
        let in_range = [
            // Three quarters of it have to hold the largest clip.
            ("max_megabytes", self.max_megabytes, 512),
            ("min_free_megabytes", self.min_free_megabytes, 0),
        ];
        let sizes = in_range.into_iter().filter(|&(_, value, least)| !(least..=MOST_MEGABYTES).contains(&value));
        let sizes =
            sizes.map(|(name, _, least)| format!("jobs.{name}: expected a number from {least} to {MOST_MEGABYTES}"));
        wrong.chain(sizes).collect()
    }
}
