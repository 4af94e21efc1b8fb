//! Configuration section `[jobs]`: result storage, concurrency and disk space limits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::source::Place;

/// A petabyte.
const MOST_MEGABYTES: u64 = 1 << 30;

/// Where results are stored, and the limits of the job service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobsConfig {
    /// Where results are stored: `s3://`, `gs://`, `az://` or `file://`; without one, the folder `results` in the data
    /// directory.
    pub results: Option<String>,
    /// Jobs that run at once.
    pub parallel: usize,
    /// Pictures of queued bulk runs (`backdrop bulk --cluster`) that this daemon processes at once, beside its requests; 0: none.
    pub bulk_pictures: usize,
    /// Queued and running jobs that a key may have; one more is refused.
    pub max_queued_per_key: usize,
    /// Megabytes that clips, segments and results may use on this machine; new clips are refused from three quarters of
    /// it on, and a running job fails beyond it.
    pub max_megabytes: u64,
    /// Megabytes of the disk that new clips leave free; below half of them a running job fails.
    pub min_free_megabytes: u64,
    /// Places in object storage from which and to which the keys of an account may start bulk runs (`POST /bulk`), by account: the
    /// daemon reads and writes there with its own credentials, without a bill. By default no account may.
    pub bulk_places: BTreeMap<String, Vec<String>>,
}

impl Default for JobsConfig {
    fn default() -> Self {
        Self {
            results: None,
            parallel: 1,
            bulk_pictures: 0,
            max_queued_per_key: 20,
            max_megabytes: 16_384,
            min_free_megabytes: 512,
            bulk_places: BTreeMap::new(),
        }
    }
}

impl JobsConfig {
    /// Every mistake in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let places = self.bulk_places.values().flatten();
        let no_places = places.filter(|place| Place::parse(place).is_none());
        let no_places = no_places.map(|place| {
            format!("jobs.bulk_places: {place:?}: expected s3://, gs://, az:// or file:// with a bucket or a folder, without `..`")
        });
        let in_range = [
            ("parallel", self.parallel, 1, 64),
            ("bulk_pictures", self.bulk_pictures, 0, 256),
            // Counting a key's jobs scans the queue.
            ("max_queued_per_key", self.max_queued_per_key, 1, 1000),
        ];
        let wrong = in_range.into_iter().filter(|&(_, value, least, most)| !(least..=most).contains(&value));
        let wrong =
            wrong.map(|(name, _, least, most)| format!("jobs.{name}: expected a number from {least} to {most}"));
        let in_range = [
            // Three quarters of it must hold the largest clip.
            ("max_megabytes", self.max_megabytes, 512),
            ("min_free_megabytes", self.min_free_megabytes, 0),
        ];
        let sizes = in_range.into_iter().filter(|&(_, value, least)| !(least..=MOST_MEGABYTES).contains(&value));
        let sizes =
            sizes.map(|(name, _, least)| format!("jobs.{name}: expected a number from {least} to {MOST_MEGABYTES}"));
        wrong.chain(sizes).chain(no_places).collect()
    }
}
