//! The engine: admits requests, runs CPU work on its workers, and batches pictures for one device.
//!
//! ```text
//! place            a picture of a request in flight, or 429     bound: max_requests_in_flight
//! admit            a slot in work, after the probe              bound: max_megapixels_in_flight
//! cpu, cpu_in      decode, matte, resize, encode                bound: cpu_workers, and as many for large pictures
//! wait_for_decoder a sandboxed decode, in another process       bound: MAX_WORKERS of the sandbox
//! segment          ticket → two lanes → batch → device thread → mask
//! ```
//!
//! Batches are formed when the device is free, from all queued tickets, so an idle daemon answers at once and a busy one
//! forms large batches. A ticket has one or more pictures of one caller, which stay together; it owns its slot until it is
//! answered, so no queue between admission and device can overflow. Where work waits for a slot or a CPU worker, accounts take
//! turns (`fair_semaphore`). The request of a disconnected caller is dropped at the next step: before the batch is formed, before each
//! CPU task.

mod added;
mod admission;
mod affinity;
mod config;
mod device_thread;
mod fair_semaphore;
mod queue;
mod self_test;
mod stall;
mod state;
mod worker_pool;

pub use admission::{Admission, Place, Slot};
pub use config::EngineConfig;
pub use fair_semaphore::{FairSemaphore, Permit, Tenant};
pub use queue::Lane;
pub use state::{EngineState, WeightsInfo};

use crate::codec::sandbox;
use crate::image::{BufferPool, Frame, RawMask};
use crate::model::added::{AddedModels, AddedName};
use crate::model::{CpuRetoucher, Retoucher, SegmentError, Segmenter};
use crate::recipe::Network;
use crate::telemetry::metrics;
use added::AddedQueues;
use device_thread::Device;
use queue::Ticket;
use state::Status;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout_at;
use worker_pool::{Gauges, WorkerPool};

/// Bytes of unused picture buffers that are kept: one picture of 4096×4096, and the planes of its matte.
const KEPT_BUFFER_BYTES: usize = 128 << 20;
const CPU_GAUGES: Gauges = Gauges { waiting: metrics::cpu_jobs_waiting, running: metrics::cpu_jobs_running };
const DECODE_GAUGES: Gauges = Gauges { waiting: metrics::decode_jobs_waiting, running: metrics::decode_jobs_running };

/// Makes the network. Called on the device thread: at the start, after a panic, and after an idle unload.
pub type SegmenterFactory = Arc<dyn Fn() -> Result<Box<dyn Segmenter>, SegmentError> + Send + Sync>;

/// Why the engine did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// All places, or the account's share of the places, are taken.
    #[error("too many requests of this account, or in all, are in flight")]
    QueueFull {
        /// Time until a place is likely to be free, in whole seconds.
        retry_after: Duration,
    },
    /// The request's deadline passed.
    #[error("the deadline passed")]
    DeadlineExceeded,
    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    Stopped,
    /// The network could not be loaded.
    #[error("the network could not be loaded: {0}")]
    Failed(String),
    /// The device failed on this ticket, in its batch and alone.
    #[error("the device failed: {0}")]
    Device(String),
    /// CPU work panicked.
    #[error("a worker panicked: {0}")]
    Panicked(String),
}

/// Pictures of one caller with their masks.
#[derive(Debug)]
pub struct Segmented {
    /// The pictures of the request.
    pub frames: Vec<Frame>,
    /// The mask of each, in their order.
    pub masks: Vec<RawMask>,
    /// Time in the queue of the device.
    pub queued: Duration,
    /// Duration of the batch.
    pub took: Duration,
}

/// The engine. Clones share it. Dropping the last clone finishes the queue and ends the device thread.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    admission: Admission,
    status: Arc<Status>,
    buffers: BufferPool,
    cpu: WorkerPool,
    large: WorkerPool,
    decoder_waits: WorkerPool,
    stalled_after: Duration,
    retoucher: Arc<dyn Retoucher>,
    added: AddedQueues,
    /// `None` after the shutdown.
    tickets: Mutex<Option<mpsc::Sender<Ticket>>>,
    device: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the threads and returns at once; `factory` is called on the device thread, and requests wait for it.
    ///
    /// # Panics
    /// When the system has no thread left.
    #[must_use]
    pub fn start(config: &EngineConfig, factory: SegmenterFactory) -> Self {
        Self::start_with(config, factory, Arc::new(CpuRetoucher::default()))
    }

    /// As [`Engine::start`], with these auxiliary networks.
    ///
    /// # Panics
    /// When the system has no thread left.
    #[must_use]
    pub fn start_with(config: &EngineConfig, factory: SegmenterFactory, retoucher: Arc<dyn Retoucher>) -> Self {
        Self::start_with_models(config, factory, retoucher, AddedModels::default(), 0)
    }

    /// As [`Engine::start_with`], with added models, of which at most `memory` bytes are loaded at a time.
    ///
    /// # Panics
    /// When the system has no thread left.
    #[must_use]
    pub fn start_with_models(
        config: &EngineConfig,
        factory: SegmenterFactory,
        retoucher: Arc<dyn Retoucher>,
        models: AddedModels,
        memory: u64,
    ) -> Self {
        let admission = Admission::new(config);
        let status = Arc::new(Status::new());
        let buffers = BufferPool::new(KEPT_BUFFER_BYTES);
        let (tickets, inbox) = mpsc::channel();
        let device = Device {
            inbox,
            factory,
            threads: device_thread::threads(config),
            status: Arc::clone(&status),
            admission: admission.clone(),
            buffers: buffers.clone(),
            max_batch: config.max_batch,
            idle_unload: config.idle_unload,
            is_built_in: true,
        };
        let added = AddedQueues::new(models, memory, config, admission.clone(), buffers.clone());
        let thread = std::thread::Builder::new()
            .name("device".to_owned())
            .spawn(move || device.run())
            .expect("the system has threads left when the engine starts");
        Self(Arc::new(Inner {
            admission,
            status,
            buffers,
            cpu: WorkerPool::new("cpu", config.workers(), CPU_GAUGES),
            large: WorkerPool::new("cpu-large", config.workers(), CPU_GAUGES),
            decoder_waits: WorkerPool::new("decoder-wait", sandbox::MAX_WORKERS, DECODE_GAUGES),
            stalled_after: config.stalled_after,
            retoucher,
            added,
            tickets: Mutex::new(Some(tickets)),
            device: Mutex::new(Some(thread)),
        }))
    }

    /// The places and slots of its pictures.
    #[must_use]
    pub fn admission(&self) -> &Admission {
        &self.0.admission
    }

    /// Waits until `pixels` more may be in memory and it is the turn of `tenant`. The slot, with a clone in every task, is kept as long as
    /// the pixels. A picture larger than seven eighths of the budget takes these alone; small pictures stay in the
    /// last eighth.
    ///
    /// # Errors
    /// [`EngineError::DeadlineExceeded`]; [`EngineError::Stopped`] during shutdown.
    pub async fn admit(&self, tenant: Tenant, pixels: usize, deadline: Instant) -> Result<Slot, EngineError> {
        self.0.admission.slot(tenant, pixels, deadline).await
    }

    /// Runs `work` on a CPU worker, in the turn of `tenant`. When the caller disconnects first, it is not begun.
    ///
    /// # Errors
    /// [`EngineError::Panicked`] when it panics.
    pub async fn cpu<T: Send + 'static>(
        &self,
        tenant: Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        self.0.cpu.run(tenant, work).await
    }

    /// As [`Engine::cpu`], for the picture of `slot`. Work on large pictures, which takes seconds, has a second pool of workers: the operating
    /// system shares the processors between the pools.
    ///
    /// # Errors
    /// [`EngineError::Panicked`] when it panics.
    pub async fn cpu_in<T: Send + 'static>(
        &self,
        slot: &Slot,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let workers = if slot.is_large() { &self.0.large } else { &self.0.cpu };
        workers.run(slot.tenant(), work).await
    }

    /// Runs `work`, which waits for a decode worker and computes little, on a thread that CPU work does not need: a decoder
    /// that hangs keeps no CPU worker. When the caller disconnects first, it is not begun.
    ///
    /// # Errors
    /// [`EngineError::Panicked`] when it panics.
    pub async fn wait_for_decoder<T: Send + 'static>(
        &self,
        tenant: Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        self.0.decoder_waits.run(tenant, work).await
    }

    /// Segments `frames` with `network`, all of them in one batch, together with other queued tickets.
    ///
    /// They succeed or fail together. A list of more pictures than one run of the network takes is a separate batch of several runs; an
    /// empty list is answered at once.
    ///
    /// # Errors
    /// [`EngineError::DeadlineExceeded`], [`EngineError::Device`], [`EngineError::Failed`] (also when an added model is not there),
    /// [`EngineError::Stopped`].
    pub async fn segment(
        &self,
        network: &Network,
        slot: &Slot,
        frames: Vec<Frame>,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Segmented, EngineError> {
        let pictures = frames.len();
        if pictures == 0 {
            return Ok(Segmented { frames, masks: Vec::new(), queued: Duration::ZERO, took: Duration::ZERO });
        }
        let (reply, answer) = oneshot::channel();
        let ticket = Ticket {
            frames,
            lane,
            deadline,
            queued_at: Instant::now(),
            span: tracing::Span::current(),
            reply,
            _slot: slot.clone(),
        };
        let tickets = match network {
            Network::BuiltIn(_) => {
                let tickets = self.0.tickets.lock().unwrap_or_else(PoisonError::into_inner).clone();
                tickets.ok_or(EngineError::Stopped)?
            }
            Network::Added(name) => self.0.added.queue(name)?,
        };
        metrics::queue_entered(lane.name(), pictures);
        if tickets.send(ticket).is_err() {
            metrics::queue_left(lane.name(), pictures);
            return Err(EngineError::Stopped);
        }
        // The thread of a replaced model ends when the last sender is dropped.
        drop(tickets);
        match timeout_at(deadline.into(), answer).await {
            Ok(answered) => answered.unwrap_or(Err(EngineError::Stopped)),
            Err(_) => Err(EngineError::DeadlineExceeded),
        }
    }

    /// The auxiliary networks. Use them inside [`Engine::cpu`].
    #[must_use]
    pub fn retoucher(&self) -> &Arc<dyn Retoucher> {
        &self.0.retoucher
    }

    /// The state, to read or to wait for.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<EngineState> {
        self.0.status.subscribe()
    }

    /// Waits until the network is loaded.
    ///
    /// # Errors
    /// [`EngineError::Failed`] when it cannot be, [`EngineError::Stopped`] during shutdown.
    pub async fn ready(&self) -> Result<(), EngineError> {
        self.0.status.loaded().await
    }

    /// Begins to load an added network; the built-in one is loaded from the start.
    ///
    /// # Errors
    /// [`EngineError::Failed`] when there is no such model, or it takes too much memory.
    pub fn load(&self, network: &Network) -> Result<(), EngineError> {
        match network {
            Network::BuiltIn(_) => Ok(()),
            Network::Added(name) => self.0.added.queue(name).map(drop),
        }
    }

    /// As [`Engine::ready`], for any network: an added network begins to load.
    ///
    /// # Errors
    /// [`EngineError::Failed`] when it cannot be loaded.
    pub async fn ready_by(&self, network: &Network) -> Result<(), EngineError> {
        let Network::Added(name) = network else { return self.ready().await };
        let _tickets = self.0.added.queue(name)?;
        self.0.added.status(name).ok_or(EngineError::Stopped)?.loaded().await
    }

    /// Whether the device thread runs. It ends early only by a defect.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let device = self.0.device.lock().unwrap_or_else(PoisonError::into_inner);
        device.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Time since the network first failed to load; `None` after a successful load.
    #[must_use]
    pub fn failed_for(&self) -> Option<Duration> {
        self.0.status.failed_for()
    }

    /// Whether CPU work waits and no worker has begun or ended any for longer than `stalled_after`.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.0.cpu.stalled_for().max(self.0.large.stalled_for()) > self.0.stalled_after
    }

    /// Sets name and version of the weights, the side of the network's square input in pixels, and the reported properties of the
    /// weights, for reports before the network is loaded.
    pub fn announce(&self, model: &str, side: u32, weights: WeightsInfo) {
        self.0.status.announce(model, side, weights);
    }

    /// Reported properties of the built-in network's weights; empty until announced.
    #[must_use]
    pub fn weights(&self) -> WeightsInfo {
        self.0.status.names().weights.clone()
    }

    /// The side of the network's square input in pixels; `None` until it was announced or the network was loaded once.
    #[must_use]
    pub fn side(&self) -> Option<u32> {
        self.0.status.names().side
    }

    /// The added models.
    #[must_use]
    pub fn added(&self) -> &AddedModels {
        self.0.added.models()
    }

    /// Whether an added model of this name and version is in memory.
    #[must_use]
    pub fn is_loaded(&self, name: &AddedName) -> bool {
        self.0.added.status(name).is_some_and(|status| status.now() == EngineState::Ready)
    }

    /// The side of the square input of `network` in pixels, if it is known.
    #[must_use]
    pub fn side_of(&self, network: &Network) -> Option<u32> {
        match network {
            Network::BuiltIn(_) => self.side(),
            Network::Added(name) => self.0.added.models().find(name).ok().map(|model| model.card.conventions.size),
        }
    }

    /// Name and version of the weights; empty until they were announced or loaded once.
    #[must_use]
    pub fn model(&self) -> String {
        self.0.status.names().model.clone()
    }

    /// The device, in words; empty until the network was loaded once.
    #[must_use]
    pub fn device(&self) -> String {
        self.0.status.names().device.clone()
    }

    /// The pool of picture buffers.
    #[must_use]
    pub fn buffers(&self) -> &BufferPool {
        &self.0.buffers
    }

    /// Refuses new requests, waits for those in flight, and ends the device thread.
    ///
    /// Every request has a deadline, so this ends; to stop waiting earlier, drop the future.
    pub async fn shutdown(&self) {
        self.0.status.change(EngineState::Draining);
        self.0.admission.drain().await;
        drop(self.0.tickets.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.0.device.lock().unwrap_or_else(PoisonError::into_inner).take();
        for thread in thread.into_iter().chain(self.0.added.end()) {
            if tokio::task::spawn_blocking(move || thread.join().is_err()).await.unwrap_or(true) {
                tracing::error!("the device thread panicked");
            }
        }
    }
}
