//! Time spent in each stage of one run.

use crate::image::Transferred;
use crate::telemetry::metrics::{self, Stage};
use std::time::{Duration, Instant};

/// Time spent in each stage; zero for a stage that did not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Fetching a caller's URL; for a whole request also reading its body.
    pub fetch: Duration,
    /// Reading the header and the pixels.
    pub decode: Duration,
    /// Waiting for megapixels, a CPU worker and the device; for a whole request also all time of no other stage.
    pub queue: Duration,
    /// The network, for the whole batch.
    pub segment: Duration,
    /// Detecting and restoring faces, and enlarging.
    pub retouch: Duration,
    /// From mask to cutout.
    pub matte: Duration,
    /// From cutout to finished picture, including a backdrop's rendering, which runs in parallel with the network.
    pub compose: Duration,
    /// Writing the file.
    pub encode: Duration,
    /// Bytes transferred between host and GPU for the picture; `None` on the CPU.
    pub transferred: Option<Transferred>,
}

impl Timings {
    /// Each stage with its time, in the order of the pipeline.
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

    /// These times within a request that took `wall`, including `reading` for its body. Reading is added to fetching,
    /// and time of no stage to waiting, so that the stages add up to `wall`. They add up to more if a backdrop is
    /// rendered while the network runs.
    #[must_use]
    pub fn within_request(mut self, wall: Duration, reading: Duration) -> Self {
        self.fetch += reading;
        self.wait_out(wall);
        self
    }

    /// Sets waiting to the time since `began` that no stage took, and reports all stages to the metrics.
    pub(super) fn finalize(&mut self, began: Instant) {
        self.wait_out(self.fetch + began.elapsed());
        for (stage, took) in self.stages() {
            if stage == Stage::Queue || !took.is_zero() {
                metrics::stage_finished(stage, took);
            }
        }
    }

    /// Sets waiting to the part of `wall` that no stage took.
    fn wait_out(&mut self, wall: Duration) {
        self.queue = Duration::ZERO;
        let worked: Duration = self.stages().iter().map(|(_, took)| *took).sum();
        self.queue = wall.saturating_sub(worked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_of_a_request_add_up_to_its_wall_time() {
        let ms = Duration::from_millis;
        let of_pipeline = Timings { fetch: ms(5), queue: ms(7), segment: ms(20), encode: ms(30), ..Timings::default() };
        let of_request = of_pipeline.within_request(ms(100), ms(12));
        assert_eq!((of_request.fetch, of_request.queue), (ms(17), ms(33)));
        assert_eq!(of_request.stages().iter().map(|(_, took)| *took).sum::<Duration>(), ms(100));
        let overlapping = of_pipeline.within_request(ms(40), ms(0));
        assert_eq!((overlapping.queue, overlapping.segment), (ms(0), ms(20)));
    }
}
