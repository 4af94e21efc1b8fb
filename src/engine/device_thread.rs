//! The device thread: loads the network, runs one batch at a time, and recovers from failed batches and panics.
//!
//! * A failed batch is retried ticket by ticket, once. A ticket that then still fails fails alone.
//! * A panic, and a ticket-by-ticket retry in which nothing succeeds, drop the network; the next batch is served by a
//!   fresh one. Loading is not repeated more than once a second.
//! * A load that failed is repeated with the next ticket, and once a minute without one: a balancer sends none while
//!   `/readyz` reports the failure.
//! * An invalid mask (wrong size, not finite) is a device failure. It never becomes a picture.
//!
//! On the CPU the network has a separate pool. In a pool shared with decoding and matting, a worker that waits for the rest of a
//! layer begins to decode another picture, and the batch waits for the decoder: with 64 photos of 4 megapixels, 16 at a time, the
//! slowest photo took 1.3 to 2 times as long, at equal throughput.

use super::admission::Admission;
use super::queue::{Lanes, Ticket, form_batch};
use super::state::Status;
use super::{EngineConfig, EngineError, EngineState, SegmenterFactory, affinity, self_test};
use crate::image::{BufferPool, Frame, RawMask, Size};
use crate::model::Segmenter;
use crate::telemetry::{metrics, panic_message};
use backdrop_kernels::recycled;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time that unused picture buffers are kept after the last request.
const BUFFERS_IDLE: Duration = Duration::from_secs(2);
/// Least time between a failed load and the next one.
const LOAD_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Least time between a failed load and the next one while no ticket arrives.
const LOAD_AGAIN_IDLE: Duration = Duration::from_secs(60);

pub(super) struct Device {
    pub(super) inbox: Receiver<Ticket>,
    pub(super) factory: SegmenterFactory,
    pub(super) threads: rayon::ThreadPool,
    pub(super) status: Arc<Status>,
    pub(super) admission: Admission,
    pub(super) buffers: BufferPool,
    pub(super) max_batch: usize,
    pub(super) idle_unload: Option<Duration>,
    /// Whether the network is the built-in one, which is tested when it is loaded, has one grid, and is loaded again without tickets after
    /// a failure. An added network is unloaded by its own idle time, not by the engine's.
    pub(super) is_built_in: bool,
}

/// A loaded network.
struct Loaded {
    segmenter: Box<dyn Segmenter>,
    /// The grid of all its masks; `None` if masks have different grids.
    grid: Option<Size>,
}

struct Running {
    device: Device,
    lanes: Lanes<Ticket>,
    loaded: Option<Loaded>,
    load_failed: Option<(Instant, EngineError)>,
    /// The end of the last batch.
    used: Instant,
}

impl Device {
    /// The thread's main function: until the engine is dropped or shut down, and the queue is empty.
    pub(super) fn run(self) {
        let mut running = Running::new(self);
        // Before the first ticket. A failure is reported by the state and to the next tickets.
        let _: Result<(), EngineError> = running.ensure_loaded();
        while let Some(batch) = running.next_batch() {
            running.serve(batch);
        }
    }
}

impl Running {
    fn new(device: Device) -> Self {
        Self { device, lanes: Lanes::new(), loaded: None, load_failed: None, used: Instant::now() }
    }

    /// Pictures in one run of the network at most.
    fn max_batch(&self) -> usize {
        self.loaded.as_ref().map_or(usize::MAX, |loaded| loaded.segmenter.max_batch()).min(self.device.max_batch)
    }

    /// Waits for tickets and forms a batch of them; `None` when no more can come.
    fn next_batch(&mut self) -> Option<Vec<Ticket>> {
        loop {
            self.collect();
            if self.lanes.is_empty() {
                match self.device.inbox.recv_timeout(self.tick()) {
                    Ok(ticket) => self.queue(ticket),
                    Err(RecvTimeoutError::Timeout) => self.idle(),
                    Err(RecvTimeoutError::Disconnected) => return None,
                }
                continue;
            }
            // Before the batch is formed: loading takes long, and callers disconnect meanwhile.
            if let Err(failure) = self.ensure_loaded() {
                for ticket in form_batch(&mut self.lanes, usize::MAX, Instant::now()) {
                    ticket.fail(failure.clone());
                }
                continue;
            }
            self.collect();
            let most = self.max_batch();
            let batch = form_batch(&mut self.lanes, most, Instant::now());
            if !batch.is_empty() {
                return Some(batch);
            }
        }
    }

    fn collect(&mut self) {
        while let Ok(ticket) = self.device.inbox.try_recv() {
            self.queue(ticket);
        }
    }

    fn queue(&mut self, ticket: Ticket) {
        let (lane, came) = (ticket.lane, ticket.queued_at);
        self.lanes.push(lane, ticket, came);
    }

    fn serve(&mut self, batch: Vec<Ticket>) {
        let images: usize = batch.iter().map(|ticket| ticket.frames.len()).sum();
        let span = tracing::debug_span!("batch", images);
        for ticket in &batch {
            span.follows_from(&ticket.span);
        }
        let _entered = span.enter();
        for run in runs(images, self.max_batch()) {
            metrics::batch_formed(run.len());
        }
        let began = Instant::now();
        match self.attempt(&batch) {
            Ok(masks) => answer(batch, masks, began),
            Err(failure) => {
                metrics::batch_failed();
                tracing::warn!(%failure, images, "a batch failed; retrying it ticket by ticket");
                self.serve_one_by_one(batch);
            }
        }
        self.used = Instant::now();
    }

    fn serve_one_by_one(&mut self, batch: Vec<Ticket>) {
        let (mut succeeded, mut failed) = (0, 0);
        for ticket in batch {
            let Some(ticket) = ticket.still_wanted(Instant::now()) else { continue };
            let began = Instant::now();
            let span = ticket.span.clone();
            let _entered = span.enter();
            let one = [ticket];
            match self.ensure_loaded().and_then(|()| self.attempt(&one)) {
                Ok(masks) => {
                    answer(one, masks, began);
                    succeeded += 1;
                }
                Err(failure) => {
                    one.into_iter().for_each(|ticket| ticket.fail(failure.clone()));
                    failed += 1;
                }
            }
        }
        if succeeded == 0 && failed > 0 {
            self.discard();
        }
    }

    /// The masks of all pictures, in one run of the network; in several runs if one ticket has more pictures than a run takes. A panic
    /// unloads the network.
    fn attempt(&mut self, tickets: &[Ticket]) -> Result<Vec<RawMask>, EngineError> {
        let frames: Vec<&Frame> = tickets.iter().flat_map(|ticket| &ticket.frames).collect();
        let mut masks = Vec::with_capacity(frames.len());
        for run in runs(frames.len(), self.max_batch()) {
            masks.extend(self.run_network(&frames[run])?);
        }
        Ok(masks)
    }

    fn run_network(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, EngineError> {
        let Some(loaded) = &mut self.loaded else {
            return Err(EngineError::Device("the network is not loaded".to_owned()));
        };
        let began = Instant::now();
        let outcome = segment(&self.device.threads, &mut *loaded.segmenter, frames);
        metrics::device_busy(loaded.segmenter.model(), frames.len(), began.elapsed());
        // The CPU may have replaced the GPU, or the GPU the CPU.
        self.device.status.moved_to(loaded.segmenter.device());
        let grid = loaded.grid;
        let masks = outcome.map_err(|failure| {
            if matches!(failure, Failure::Panicked(_)) {
                self.discard();
            }
            EngineError::Device(failure.to_string())
        })?;
        self_test::check(&masks, frames.len(), grid).map_err(EngineError::Device)?;
        Ok(masks)
    }

    fn ensure_loaded(&mut self) -> Result<(), EngineError> {
        if self.loaded.is_some() {
            return Ok(());
        }
        if let Some((at, failure)) = &self.load_failed
            && at.elapsed() < LOAD_AGAIN_AFTER
        {
            return Err(failure.clone());
        }
        self.device.status.change(EngineState::Loading);
        let began = Instant::now();
        match self.load() {
            Ok(loaded) => {
                let (model, device) = (loaded.segmenter.model().to_owned(), loaded.segmenter.device());
                tracing::info!(model, device, took = ?began.elapsed(), "the network is ready");
                let side = loaded.grid.map(Size::longest).or(self.device.status.names().side).unwrap_or_default();
                self.device.status.ready(&model, device, side);
                self.loaded = Some(loaded);
                self.load_failed = None;
                Ok(())
            }
            Err(reason) => {
                tracing::error!(reason, "the network could not be loaded");
                self.device.status.failed(&reason);
                let failure = EngineError::Failed(reason);
                self.load_failed = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }

    /// Builds the network and runs the self-test. A GPU is warmed up for every batch size when its network is built.
    fn load(&self) -> Result<Loaded, String> {
        let (factory, threads) = (&self.device.factory, &self.device.threads);
        let mut segmenter = catch_unwind(AssertUnwindSafe(|| threads.install(|| factory())))
            .map_err(|panic| format!("loading panicked: {}", panic_message(&*panic)))?
            .map_err(|error| error.to_string())?;
        if !self.device.is_built_in {
            return Ok(Loaded { segmenter, grid: None });
        }
        let failed = |reason: String| format!("the self-test failed: {reason}");
        let masks = segment(threads, &mut *segmenter, &[&self_test::picture()]).map_err(|e| failed(e.to_string()))?;
        let grid = self_test::validate(&masks).map_err(failed)?;
        Ok(Loaded { segmenter, grid: Some(grid) })
    }

    /// Drops the network; a panic while dropping is logged.
    fn discard(&mut self) {
        let loaded = self.loaded.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(loaded))) {
            tracing::error!(message = panic_message(&*panic), "dropping the network panicked");
        }
        // After a failed load there is nothing to unload, and the state stays `Failed`.
        if self.load_failed.is_none() {
            self.device.status.change(EngineState::Unloaded);
        }
    }

    /// Interval of the idle thread's checks.
    fn tick(&self) -> Duration {
        self.device.idle_unload.unwrap_or(Duration::MAX).min(Duration::from_secs(1))
    }

    /// The work of a tick without tickets.
    fn idle(&mut self) {
        let failed = self.load_failed.as_ref().filter(|_| self.device.is_built_in);
        if failed.is_some_and(|(at, _)| at.elapsed() >= LOAD_AGAIN_IDLE) {
            // It reports a failure and records its time.
            let _: Result<(), EngineError> = self.ensure_loaded();
        }
        self.free_idle_memory();
    }

    fn free_idle_memory(&mut self) {
        let idle = if self.device.is_built_in { self.device.admission.idle_for() } else { Some(self.used.elapsed()) };
        let Some(idle) = idle else { return };
        if idle >= BUFFERS_IDLE {
            self.device.buffers.clear();
            recycled::free();
            if let Some(loaded) = &mut self.loaded {
                loaded.segmenter.free_idle_memory();
            }
        }
        if self.loaded.is_some() && self.device.idle_unload.is_some_and(|limit| idle >= limit) {
            self.device.buffers.clear();
            recycled::free();
            self.discard();
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Reported(String),
    #[error("it panicked: {0}")]
    Panicked(String),
}

fn segment(
    threads: &rayon::ThreadPool,
    network: &mut dyn Segmenter,
    frames: &[&Frame],
) -> Result<Vec<RawMask>, Failure> {
    match catch_unwind(AssertUnwindSafe(|| threads.install(|| network.segment(frames)))) {
        Ok(Ok(masks)) => Ok(masks),
        Ok(Err(error)) => Err(Failure::Reported(error.into_reason())),
        Err(panic) => Err(Failure::Panicked(panic_message(&*panic).to_owned())),
    }
}

/// The split of `images` pictures into runs of the network.
fn runs(images: usize, max: usize) -> impl Iterator<Item = Range<usize>> {
    (0..images).step_by(max).map(move |first| first..images.min(first + max))
}

fn answer(tickets: impl IntoIterator<Item = Ticket>, masks: Vec<RawMask>, began: Instant) {
    let took = began.elapsed();
    let mut masks = masks.into_iter();
    for ticket in tickets {
        let own = masks.by_ref().take(ticket.frames.len()).collect();
        ticket.succeed(own, began, took);
    }
}

/// The pool of a network that has other threads.
pub(super) fn one_thread() -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("the system has threads left")
}

/// The pool that the network runs on.
pub(super) fn threads(config: &EngineConfig) -> rayon::ThreadPool {
    let workers = config.workers();
    let builder = rayon::ThreadPoolBuilder::new().num_threads(workers).thread_name(|index| format!("network-{index}"));
    affinity::bound(builder, workers).build().expect("the system has threads left when the engine starts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SegmentError;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc;

    /// Returns a mask that passes the self-test.
    struct Gradient;

    impl Segmenter for Gradient {
        fn model(&self) -> &str {
            "gradient"
        }

        fn device(&self) -> String {
            "none".to_owned()
        }

        fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError> {
            let mask = || RawMask::new(Size::new(2, 2), vec![0.0, 0.2, 0.9, 1.0]).expect("probabilities");
            Ok(frames.iter().map(|_| mask()).collect())
        }
    }

    #[test]
    fn a_failed_load_is_repeated_once_a_minute_without_tickets() {
        let (works, tries) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let factory: SegmenterFactory = Arc::new({
            let (works, tries) = (Arc::clone(&works), Arc::clone(&tries));
            move || {
                tries.fetch_add(1, Ordering::SeqCst);
                match works.load(Ordering::SeqCst) {
                    true => Ok(Box::new(Gradient) as Box<dyn Segmenter>),
                    false => Err(SegmentError::Unusable("the GPU is lost".to_owned())),
                }
            }
        });
        let (_tickets, inbox) = mpsc::channel();
        let device = Device {
            inbox,
            factory,
            threads: one_thread(),
            status: Arc::new(Status::new()),
            admission: Admission::new(&EngineConfig::default()),
            buffers: BufferPool::new(0),
            max_batch: 1,
            idle_unload: None,
            is_built_in: true,
        };
        let mut running = Running::new(device);
        let state = |running: &Running| (tries.load(Ordering::SeqCst), running.device.status.now());
        let minute_passes = |running: &mut Running| {
            running.load_failed.as_mut().expect("the load failed").0 -= LOAD_AGAIN_IDLE;
        };

        assert!(running.ensure_loaded().is_err());
        running.idle();
        assert_eq!(state(&running), (1, EngineState::Failed));
        for tries in 2..=3 {
            minute_passes(&mut running);
            running.idle();
            running.idle();
            assert_eq!(state(&running), (tries, EngineState::Failed), "once a minute");
        }
        running.discard();
        assert_eq!(state(&running).1, EngineState::Failed, "there is nothing to unload");

        works.store(true, Ordering::SeqCst);
        minute_passes(&mut running);
        running.idle();
        running.idle();
        assert_eq!(state(&running), (4, EngineState::Ready));
        running.discard();
        assert_eq!(state(&running).1, EngineState::Unloaded);
        running.idle();
        assert_eq!(state(&running), (4, EngineState::Unloaded), "an unloaded network waits for a ticket");
    }
}
