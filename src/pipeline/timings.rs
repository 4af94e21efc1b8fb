//! Time spent in each stage of one run.

use crate::telemetry::metrics::{self, Stage};
use std::time::{Duration, Instant};

/// Time spent in each stage; zero in those that did not take place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Fetching a caller's URL.
    pub fetch: Duration,
    /// Reading the header and the pixels.
    pub decode: Duration,
    /// All waiting: for megapixels, for a CPU worker, for the device.
    pub queue: Duration,
    /// The network, the whole batch.
    pub segment: Duration,
    /// Detecting and restoring faces, and enlarging.
    pub retouch: Duration,
    /// From mask to cutout.
    pub matte: Duration,
    /// From cutout to finished picture, with the rendering of a backdrop, which runs while the network does.
    pub compose: Duration,
    /// Writing the file.
    pub encode: Duration,
}

impl Timings {
    /// Each stage with its time, in the order of the work.
    #[must_use]
    pub const fn stages(&self) -> [(Stage, Duration); 8] {
        [
            (Stage::Fetch, self.fetch),
            (Stage::Decode, self.decode),
            (Stage::Queue, self.queue),
            (Stage::Segment, self.segment),
            (Stage::Retouch, self.retouch),
            (Stage::Matte, self.matte),
            (Stage::Compose, self.compose),
            (Stage::Encode, self.encode),
        ]
    }

    /// Sets waiting to what no stage took of the time since `began`, and reports all stages to the metrics.
    pub(super) fn finalize(&mut self, began: Instant) {
        let worked: Duration = self.stages().iter().map(|(_, took)| *took).sum();
        self.queue = (self.fetch + began.elapsed()).saturating_sub(worked);
        for (stage, took) in self.stages() {
            if stage == Stage::Queue || !took.is_zero() {
                metrics::stage_finished(stage, took);
            }
        }
    }
}
