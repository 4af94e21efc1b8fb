//! Whether a pool of workers still gets anything done.
//!
//! Work that never ends holds its worker for good, and everything behind it waits for its deadline while each part of
//! the daemon by itself looks well. What shows it: work waits, and no worker has begun or ended any for long. A pool
//! with nothing to do does not stall, nor one whose waiting work moves.

use std::time::{Duration, Instant};

/// What a pool is doing, and since when.
#[derive(Debug)]
pub(super) struct Progress {
    workers: usize,
    waiting: usize,
    working: usize,
    /// When a worker last began or ended a piece of work, or work came that a worker was free for.
    last: Instant,
}

impl Progress {
    pub(super) fn new(workers: usize, now: Instant) -> Self {
        Self { workers, waiting: 0, working: 0, last: now }
    }

    /// A piece of work came.
    pub(super) fn came(&mut self, now: Instant) {
        // Nothing was due before, however long ago the last piece ended.
        if self.waiting == 0 && self.working < self.workers {
            self.last = now;
        }
        self.waiting += 1;
    }

    /// One that waited left without a worker.
    pub(super) fn left(&mut self) {
        self.waiting -= 1;
    }

    /// One that waited was begun.
    pub(super) fn began(&mut self, now: Instant) {
        self.waiting -= 1;
        self.working += 1;
        self.last = now;
    }

    /// One ended.
    pub(super) fn ended(&mut self, now: Instant) {
        self.working -= 1;
        self.last = now;
    }

    /// How long work has waited without any being begun or ended.
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
    fn an_idle_pool_and_a_busy_one_that_nothing_waits_for_do_not_stall() {
        let start = Instant::now();
        let mut pool = Progress::new(1, start);
        assert_eq!(pool.stalled_for(start + HOUR), Duration::ZERO);
        pool.came(start + HOUR);
        assert_eq!(pool.stalled_for(start + HOUR), Duration::ZERO, "the idle hour does not count");
        pool.began(start + HOUR);
        assert_eq!(pool.stalled_for(start + 2 * HOUR), Duration::ZERO, "one long piece");
    }

    #[test]
    fn work_behind_workers_that_do_not_end_stalls() {
        let start = Instant::now();
        let mut pool = Progress::new(2, start);
        for _ in 0..2 {
            pool.came(start);
            pool.began(start);
        }
        pool.came(start + 10 * SECOND);
        assert_eq!(pool.stalled_for(start + 40 * SECOND), 40 * SECOND, "since the last sign of work, not of waiting");
        pool.left();
        assert_eq!(pool.stalled_for(start + 50 * SECOND), Duration::ZERO);
        pool.came(start + 60 * SECOND);
        assert_eq!(pool.stalled_for(start + 61 * SECOND), 61 * SECOND, "the next one is no new start");
        pool.ended(start + 70 * SECOND);
        assert_eq!(pool.stalled_for(start + 71 * SECOND), SECOND);
        pool.began(start + 71 * SECOND);
        assert_eq!(pool.stalled_for(start + HOUR), Duration::ZERO);
    }

    #[test]
    fn a_queue_that_moves_does_not_stall() {
        let start = Instant::now();
        let mut pool = Progress::new(1, start);
        (0..100).for_each(|_| pool.came(start));
        for step in 0..100_u32 {
            let now = start + 10 * SECOND * step;
            pool.began(now);
            assert!(pool.stalled_for(now + 9 * SECOND) <= 9 * SECOND);
            pool.ended(now + 10 * SECOND);
        }
    }

    #[test]
    fn a_free_worker_that_does_not_begin_stalls() {
        // One piece whose parallel parts hold the other workers.
        let start = Instant::now();
        let mut pool = Progress::new(2, start);
        pool.came(start);
        pool.began(start);
        pool.came(start + HOUR);
        assert_eq!(pool.stalled_for(start + HOUR + SECOND), SECOND);
        pool.came(start + HOUR + SECOND);
        assert_eq!(pool.stalled_for(start + HOUR + 2 * SECOND), 2 * SECOND);
    }
}
