//! A pool of threads that bounds the work in progress: CPU work, or waits for decode workers.
//!
//! The pool holds at most as many tasks as threads; the others wait outside, where a cancelled task costs nothing. The bound
//! also limits stack depth: a rayon worker that waits for its own parallel part begins other tasks of the pool on the same
//! stack, without limit.
//!
//! Tasks may use rayon; it then runs on this pool.

use super::EngineError;
use super::fair_semaphore::{FairSemaphore, Tenant};
use super::stall::StallDetector;
use crate::telemetry::{metrics, panic_message};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Address space only, until it is used: image decoders put large arrays on the stack.
const STACK_BYTES: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct WorkerPool {
    threads: rayon::ThreadPool,
    places: FairSemaphore,
    progress: Arc<Mutex<StallDetector>>,
    gauges: Gauges,
}

/// The metrics of a pool; each call changes a number of tasks by +1 or -1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gauges {
    pub(super) waiting: fn(f64),
    pub(super) running: fn(f64),
}

impl WorkerPool {
    pub(super) fn new(name: &'static str, workers: usize, gauges: Gauges) -> Self {
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(workers)
            .thread_name(move |index| format!("{name}-{index}"))
            .stack_size(STACK_BYTES)
            .build()
            .expect("the system has threads left when the engine starts");
        let progress = Arc::new(Mutex::new(StallDetector::new(workers, Instant::now())));
        Self { threads, places: FairSemaphore::new(workers), progress, gauges }
    }

    /// Runs `work` on a worker, in the turn of `tenant`. Skipped when the caller disconnects first; a panic fails this call only.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        tenant: Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let task = Task::new(&self.progress, self.gauges);
        let place = self.places.acquire(tenant, 1).await;
        let (reply, answer) = oneshot::channel();
        let span = tracing::Span::current();
        self.threads.spawn(move || {
            let (_place, mut task) = (place, task);
            task.begin();
            if reply.is_closed() {
                metrics::queue_dropped(metrics::Dropped::ClientGone);
                return;
            }
            let _entered = span.enter();
            let outcome = catch_unwind(AssertUnwindSafe(work))
                .map_err(|panic| EngineError::Panicked(panic_message(&*panic).to_owned()));
            // An error means that the caller disconnected meanwhile.
            let _: Result<(), _> = reply.send(outcome);
        });
        answer.await.unwrap_or(Err(EngineError::Stopped))
    }

    /// Time for which tasks have waited and no worker has begun or ended one; zero when none waits.
    pub(super) fn stalled_for(&self) -> Duration {
        lock(&self.progress).stalled_for(Instant::now())
    }
}

fn lock(progress: &Mutex<StallDetector>) -> MutexGuard<'_, StallDetector> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task of the pool, waiting for a worker or with one.
struct Task {
    progress: Arc<Mutex<StallDetector>>,
    gauges: Gauges,
    has_begun: bool,
}

impl Task {
    fn new(progress: &Arc<Mutex<StallDetector>>, gauges: Gauges) -> Self {
        lock(progress).arrived(Instant::now());
        (gauges.waiting)(1.0);
        Self { progress: Arc::clone(progress), gauges, has_begun: false }
    }

    fn begin(&mut self) {
        self.has_begun = true;
        lock(&self.progress).began(Instant::now());
        (self.gauges.waiting)(-1.0);
        (self.gauges.running)(1.0);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.has_begun {
            lock(&self.progress).ended(Instant::now());
            (self.gauges.running)(-1.0);
        } else {
            lock(&self.progress).cancelled();
            (self.gauges.waiting)(-1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc;

    fn pool_of(workers: usize) -> WorkerPool {
        WorkerPool::new("cpu-test", workers, Gauges { waiting: |_| (), running: |_| () })
    }

    #[tokio::test]
    async fn work_runs_on_a_named_worker_and_its_parallel_parts_stay_in_the_pool() {
        let pool = pool_of(2);
        let name = || std::thread::current().name().unwrap_or_default().to_owned();
        let (outer, (a, b)) = pool.run(Tenant::default(), move || (name(), rayon::join(name, name))).await.unwrap();
        for thread in [outer, a, b] {
            assert!(thread.starts_with("cpu-test-"), "{thread}");
        }
    }

    #[tokio::test]
    async fn a_panic_fails_its_own_work_only() {
        let pool = pool_of(1);
        let failed = pool.run(Tenant::default(), || panic!("row {} is missing", 7)).await;
        assert_eq!(failed, Err::<(), _>(EngineError::Panicked("row 7 is missing".to_owned())));
        assert_eq!(pool.run(Tenant::default(), || 3).await, Ok(3));
    }

    #[tokio::test]
    async fn tenants_take_turns_and_work_of_a_disconnected_caller_is_skipped() {
        let pool = Arc::new(pool_of(1));
        let (open, gate) = mpsc::channel::<()>();
        let (entered, mut started) = tokio::sync::mpsc::unbounded_channel();
        let first = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move {
                pool.run(Tenant::default(), move || {
                    entered.send(()).unwrap();
                    gate.recv().unwrap();
                })
                .await
            }
        });
        started.recv().await.unwrap();
        let ran = Arc::new(AtomicBool::new(false));
        let second = tokio::spawn({
            let (pool, ran) = (Arc::clone(&pool), Arc::clone(&ran));
            async move { pool.run(Tenant::default(), move || ran.store(true, Ordering::SeqCst)).await }
        });
        let (requests, clips) = (Tenant::of("acme"), Tenant::background("acme"));
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiting = [requests, requests, requests, clips].into_iter().enumerate().map(|(at, tenant)| {
            let (pool, order) = (Arc::clone(&pool), Arc::clone(&order));
            tokio::spawn(async move { pool.run(tenant, move || order.lock().unwrap().push(at)).await })
        });
        let waiting: Vec<_> = waiting.collect();
        tokio::task::yield_now().await;
        second.abort();
        assert!(second.await.unwrap_err().is_cancelled());
        open.send(()).unwrap();
        first.await.unwrap().unwrap();
        for done in waiting {
            done.await.unwrap().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 3, 1, 2]);
        assert!(!ran.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn work_in_progress_is_bounded_by_the_workers() {
        let pool = Arc::new(pool_of(2));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let jobs: Vec<_> = (0..20)
            .map(|_| {
                let (pool, running, most) = (Arc::clone(&pool), Arc::clone(&running), Arc::clone(&most));
                tokio::spawn(async move {
                    pool.run(Tenant::default(), move || {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        // A parallel part, during whose waits a worker takes other work.
                        rayon::join(std::thread::yield_now, std::thread::yield_now);
                        running.fetch_sub(1, Ordering::SeqCst);
                    })
                    .await
                })
            })
            .collect();
        for job in jobs {
            job.await.unwrap().unwrap();
        }
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    }
}
