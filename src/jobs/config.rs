//! Section `[jobs]`.

use serde::{Deserialize, Serialize};

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
}

impl Default for JobsConfig {
    fn default() -> Self {
        Self { results: None, parallel: 1, max_queued_per_key: 20 }
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
        wrong.map(|(name, _, most)| format!("jobs.{name}: expected a number from 1 to {most}")).collect()
    }
}
