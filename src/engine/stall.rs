//! Stall detection for the pool of CPU workers.
//!
//! A task that never ends keeps its worker, and the tasks queued behind it wait until their deadlines while every other check passes. A
//! pool has stalled when tasks wait and no worker has begun or ended a task for long. An idle pool has not stalled.

use std::time::{Duration, Instant};

/// The number of waiting and running tasks, and the time of the last progress.
#[derive(Debug)]
pub(super) struct StallDetector {
    workers: usize,
    waiting: usize,
    working: usize,
    /// When a worker last began or ended a task, or a task arrived for a free worker.
    last: Instant,
}

impl StallDetector {
    pub(super) fn new(workers: usize, now: Instant) -> Self {
        Self { workers, waiting: 0, working: 0, last: now }
    }

    /// A task arrived.
    pub(super) fn arrived(&mut self, now: Instant) {
        // No task was due before.
        if self.waiting == 0 && self.working < self.workers {
            self.last = now;
        }
        self.waiting += 1;
    }

    /// A waiting task was cancelled.
    pub(super) fn cancelled(&mut self) {
        self.waiting -= 1;
    }

    /// A waiting task was begun.
    pub(super) fn began(&mut self, now: Instant) {
        self.waiting -= 1;
        self.working += 1;
        self.last = now;
    }

    /// A task ended.
    pub(super) fn ended(&mut self, now: Instant) {
        self.working -= 1;
        self.last = now;
    }

    /// Time for which tasks have waited and none was begun or ended.
    pub(super) fn stalled_for(&self, now: Instant) -> Duration {
        if self.waiting == 0 { Duration::ZERO } else { now.saturating_duration_since(self.last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_idle_pool_and_a_busy_one_without_a_queue_do_not_stall() {
        let start = Instant::now();
        let mut pool = StallDetector::new(1, start);
        assert_eq!(pool.stalled_for(start + HOUR), Duration::ZERO);
        pool.arrived(start + HOUR);
        assert_eq!(pool.stalled_for(start + HOUR), Duration::ZERO, "the idle hour does not count");
        pool.began(start + HOUR);
        assert_eq!(pool.stalled_for(start + 2 * HOUR), Duration::ZERO, "one long task");
    }

    #[test]
    fn work_behind_workers_that_do_not_end_stalls() {
        let start = Instant::now();
        let mut pool = StallDetector::new(2, start);
        for _ in 0..2 {
            pool.arrived(start);
            pool.began(start);
        }
        pool.arrived(start + 10 * SECOND);
        assert_eq!(pool.stalled_for(start + 40 * SECOND), 40 * SECOND, "since the last progress, not the last arrival");
        pool.cancelled();
        assert_eq!(pool.stalled_for(start + 50 * SECOND), Duration::ZERO);
        pool.arrived(start + 60 * SECOND);
        assert_eq!(pool.stalled_for(start + 61 * SECOND), 61 * SECOND, "an arrival is no progress");
        pool.ended(start + 70 * SECOND);
        assert_eq!(pool.stalled_for(start + 71 * SECOND), SECOND);
        pool.began(start + 71 * SECOND);
        assert_eq!(pool.stalled_for(start + HOUR), Duration::ZERO);
    }

    #[test]
    fn a_free_worker_that_does_not_begin_stalls() {
        // One task whose parallel parts hold the other workers.
        let start = Instant::now();
        let mut pool = StallDetector::new(2, start);
        pool.arrived(start);
        pool.began(start);
        pool.arrived(start + HOUR);
        assert_eq!(pool.stalled_for(start + HOUR + SECOND), SECOND);
        pool.arrived(start + HOUR + SECOND);
        assert_eq!(pool.stalled_for(start + HOUR + 2 * SECOND), 2 * SECOND);
    }
}
