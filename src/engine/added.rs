//! Added models: each has a queue and a thread, which loads the model and segments its pictures. When another model would exceed
//! the memory for models, the least recently used one ends, after the pictures in its queue.

use super::admission::Admission;
use super::config::EngineConfig;
use super::device_thread::{self, Device};
use super::queue::Ticket;
use super::state::Status;
use super::{EngineError, SegmenterFactory, WeightsInfo};
use crate::image::BufferPool;
use crate::model::added::{AddedModel, AddedModels, AddedName};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

/// The added models, and the threads of the running ones.
#[derive(Debug)]
pub(super) struct AddedQueues {
    models: AddedModels,
    memory: u64,
    config: EngineConfig,
    admission: Admission,
    buffers: BufferPool,
    running: Mutex<Vec<Running>>,
}

/// A model with its thread.
#[derive(Debug)]
struct Running {
    name: AddedName,
    memory: u64,
    used: Instant,
    tickets: mpsc::Sender<Ticket>,
    status: Arc<Status>,
    thread: JoinHandle<()>,
}

impl AddedQueues {
    pub(super) fn new(
        models: AddedModels,
        memory: u64,
        config: &EngineConfig,
        admission: Admission,
        buffers: BufferPool,
    ) -> Self {
        Self { models, memory, config: config.clone(), admission, buffers, running: Mutex::default() }
    }

    pub(super) fn models(&self) -> &AddedModels {
        &self.models
    }

    /// The status of the model of this name and version; `None` while it has no thread.
    pub(super) fn status(&self, name: &AddedName) -> Option<Arc<Status>> {
        self.running().iter().find(|running| running.name == *name).map(|running| Arc::clone(&running.status))
    }

    /// The queue of the model of this name and version.
    ///
    /// # Errors
    /// [`EngineError::Failed`] when there is no such model, or its memory exceeds the memory for all.
    pub(super) fn queue(&self, name: &AddedName) -> Result<mpsc::Sender<Ticket>, EngineError> {
        let mut running = self.running();
        if let Some(running) = running.iter_mut().find(|running| running.name == *name) {
            running.used = Instant::now();
            return Ok(running.tickets.clone());
        }
        let model = self.models.find(name).map_err(|error| EngineError::Failed(error.to_string()))?;
        let memory = model.memory();
        if memory > self.memory {
            let [needed, most] = [memory, self.memory].map(|bytes| bytes.div_ceil(1 << 20));
            return Err(EngineError::Failed(format!("{name} takes {needed} MB, more than `models.memory`, {most} MB")));
        }
        // The previous version of the model is not used again.
        let mut ended: Vec<_> = running.extract_if(.., |running| running.name.name() == name.name()).collect();
        while running.iter().map(|running| running.memory).sum::<u64>() + memory > self.memory {
            let oldest = (0..running.len()).min_by_key(|at| running[*at].used).expect("without models there is memory");
            ended.push(running.swap_remove(oldest));
        }
        let started = self.start(model, ended.into_iter().map(|Running { thread, .. }| thread).collect());
        let tickets = started.tickets.clone();
        running.push(started);
        Ok(tickets)
    }

    /// Starts a thread for `model`, which loads the model after the threads of the replaced models have ended.
    fn start(&self, model: AddedModel, replaced: Vec<JoinHandle<()>>) -> Running {
        let AddedModel { ref name, .. } = model;
        let (tickets, inbox) = mpsc::channel();
        let status = Arc::new(Status::of_added());
        status.announce(&name.to_string(), model.card.conventions.size, WeightsInfo::default());
        let (models, wanted, threads) = (self.models.clone(), name.clone(), self.config.workers());
        let factory: SegmenterFactory = Arc::new(move || models.load(&wanted, threads));
        let device = Device {
            inbox,
            factory,
            threads: device_thread::one_thread(),
            status: Arc::clone(&status),
            admission: self.admission.clone(),
            buffers: self.buffers.clone(),
            max_batch: self.config.max_batch,
            idle_unload: self.config.idle_unload,
            is_built_in: false,
        };
        let run = move || {
            for thread in replaced {
                if thread.join().is_err() {
                    tracing::error!("the thread of an added model panicked");
                }
            }
            device.run();
        };
        let thread = std::thread::Builder::new().name(name.name().chars().take(15).collect()).spawn(run);
        let thread = thread.expect("the system has threads left");
        Running { name: name.clone(), memory: model.memory(), used: Instant::now(), tickets, status, thread }
    }

    /// Takes the threads of all models; each ends after the pictures in its queue.
    pub(super) fn end(&self) -> Vec<JoinHandle<()>> {
        self.running().drain(..).map(|Running { thread, .. }| thread).collect()
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
