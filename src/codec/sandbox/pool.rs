//! The pool of decode workers of a process: started on demand or ahead of it, replaced after a number of requests.

use super::MAX_WORKERS;
use super::lockdown::Protections;
use super::process::{Failure, Program, Worker};
use super::protocol::{Answer, Request};
use crate::codec::decoders::Probed;
use crate::codec::error::{DecodeError, corrupt, not_as_probed};
use crate::codec::limits::{MAX_TIME, check_size, time_limit};
use crate::codec::{Container, Header, Limits};
use crate::image::shared_memory::{ReceivedMemory, sealed_copy};
use crate::image::{BufferPool, Frame, Size};
use crate::telemetry::metrics::{self, WorkerEnd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Bounds of the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    /// Maximum of workers at once.
    pub(super) most: usize,
    /// Requests after which a worker is replaced. A picture is two requests: probe, then decode.
    pub(super) requests: u32,
    /// Time limit of a decode, given the picture's size; of a probe, given `None`.
    pub(super) time_limit: fn(Option<Size>) -> Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            most: workers_on(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
            requests: 128,
            time_limit: |size| size.map_or(MAX_TIME, time_limit),
        }
    }
}

/// The number of workers for this number of processors: at least two, so that one that hangs does not stop other pictures.
fn workers_on(processors: usize) -> usize {
    processors.clamp(2, MAX_WORKERS)
}

/// The pool.
#[derive(Debug)]
pub struct Workers {
    program: Program,
    tuning: Tuning,
    state: Mutex<PoolState>,
    /// Notified when a worker becomes idle or may be started.
    freed: Condvar,
    protections: OnceLock<Protections>,
    /// Passed to the threads that start workers.
    this: Weak<Self>,
}

#[derive(Debug, Default)]
struct PoolState {
    /// Longest idle first, so that workers are used in turn: one that ended while idle is found and replaced within as
    /// many requests as there are workers.
    idle: VecDeque<Worker>,
    /// Number of idle, busy and starting workers.
    started: usize,
    ready: usize,
    /// Why the last start failed.
    failure: Option<String>,
}

impl Workers {
    /// A pool without running workers.
    #[must_use]
    pub fn new(program: Program) -> Arc<Self> {
        Self::with(program, Tuning::default())
    }

    pub(super) fn with(program: Program, tuning: Tuning) -> Arc<Self> {
        let (state, freed, protections) = (Mutex::default(), Condvar::new(), OnceLock::new());
        Arc::new_cyclic(|this| Self { program, tuning, state, freed, protections, this: this.clone() })
    }

    /// Size of the upright picture, checked against the limits, and the file's flaw.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn probe(&self, container: Container, bytes: &[u8], limits: &Limits) -> Result<Probed, DecodeError> {
        // The size does not depend on the profile.
        let request = Request { container, limits: *limits, len: bytes.len(), decode: None, applies_profile: true };
        let time = (self.tuning.time_limit)(None);
        self.run(request, bytes, time, |probed, _| {
            check_size(probed.0, limits)?;
            Ok(probed)
        })
    }

    /// Pixels of a probed file, in the memory that the worker decoded them to.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(&self, bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
        let request = Request { len: bytes.len(), ..Request::from(header) };
        let time = (self.tuning.time_limit)(Some(header.size));
        self.run(request, bytes, time, |(size, _), descriptor| {
            if size != header.size {
                return Err(not_as_probed());
            }
            let memory = descriptor.ok_or(io::ErrorKind::InvalidData.into());
            let memory = memory.and_then(|descriptor| ReceivedMemory::seal(&descriptor, size.area() * 4));
            // Only a worker under an attacker's control sends other memory.
            Ok(Frame::new(size, pool.received(memory.map_err(|error| broken(header.container, &error.to_string()))?)))
        })
    }

    #[cfg(test)]
    pub(super) fn started(&self) -> usize {
        self.lock().started
    }

    #[cfg(test)]
    pub(super) fn idle(&self) -> Vec<u32> {
        self.lock().idle.iter().map(Worker::id).collect()
    }

    /// The protections of a worker; `None` before the first worker has started.
    pub(super) fn protections(&self) -> Option<Protections> {
        self.protections.get().copied()
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// From now on keeps two workers ready, started on separate threads.
    pub(super) fn start_early(&self) {
        self.lock().ready = self.tuning.most.min(2);
        self.refill();
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `request` to a worker and reads its answer with `accepted`.
    fn run<T>(
        &self,
        request: Request,
        bytes: &[u8],
        time: Duration,
        accepted: impl FnOnce(Probed, Option<OwnedFd>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let container = request.container;
        let file = sealed_copy(bytes).map_err(|error| DecodeError::Worker(error.to_string()))?;
        let (mut attempts, mut was_killed) = (0, false);
        loop {
            let mut lease = self.lease().map_err(|error| DecodeError::Worker(error.to_string()))?;
            let failure = match lease.worker().answer(request, &file, time) {
                Ok((Answer::Refused(refusal), _)) => {
                    lease.give_back();
                    return Err(refusal.error(container, &request.limits));
                }
                Ok((Answer::Done(probed), descriptor)) => {
                    let result = accepted(probed, descriptor);
                    if result.is_ok() {
                        lease.give_back();
                    } else {
                        lease.discard(WorkerEnd::Broken);
                    }
                    return result;
                }
                Err(failure) => failure,
            };
            match failure {
                // It ended while idle, by the system or an operator. The number of such workers is bounded.
                Failure::Gone if attempts < self.tuning.most => {
                    lease.discard(WorkerEnd::Gone);
                    attempts += 1;
                }
                Failure::Gone => {
                    lease.discard(WorkerEnd::Gone);
                    return Err(DecodeError::Worker("each ended before it was sent a file".to_owned()));
                }
                // The file did not cause it: a second try on another worker.
                Failure::Killed(how) => {
                    lease.discard(WorkerEnd::Gone);
                    tracing::warn!(
                        format = container.name(),
                        how,
                        "a decode worker was ended from outside on a picture"
                    );
                    if was_killed {
                        return Err(DecodeError::Worker("two were ended from outside".to_owned()));
                    }
                    was_killed = true;
                }
                Failure::Crashed(how) => {
                    lease.discard(WorkerEnd::Crashed);
                    tracing::warn!(format = container.name(), how, "a decode worker ended on a picture");
                    return Err(corrupt(format_args!("the {} decoder failed", container.name())));
                }
                Failure::Late(after) => {
                    lease.discard(WorkerEnd::Late);
                    tracing::warn!(format = container.name(), ?after, "a decode worker was killed at its deadline");
                    return Err(corrupt(format_args!("it takes more than {time:?} to decode")));
                }
                Failure::Broken(what) => {
                    lease.discard(WorkerEnd::Broken);
                    return Err(broken(container, &what));
                }
            }
        }
    }

    /// Takes an idle worker, starts one, or waits until a busy one is free; each is busy for a bounded time.
    fn lease(&self) -> io::Result<BusyWorker<'_>> {
        let mut state = self.lock();
        loop {
            if let Some(worker) = state.idle.pop_front() {
                metrics::decode_workers_busy(1.0);
                return Ok(BusyWorker { workers: self, worker: Some(worker) });
            }
            if state.started < self.tuning.most {
                state.started += 1;
                drop(state);
                let worker = self.start()?;
                metrics::decode_workers_busy(1.0);
                return Ok(BusyWorker { workers: self, worker: Some(worker) });
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Starts a worker that `started` already counts.
    fn start(&self) -> io::Result<Worker> {
        let started = Worker::start(&self.program);
        let mut state = self.lock();
        match started {
            Ok(worker) => {
                state.failure = None;
                drop(state);
                let protections = *self.protections.get_or_init(|| {
                    let missing = worker.protections().missing();
                    if !missing.is_empty() {
                        tracing::warn!(?missing, "this system cannot confine decode workers completely");
                    }
                    worker.protections()
                });
                debug_assert_eq!(protections, worker.protections(), "one system, one answer");
                Ok(worker)
            }
            Err(error) => {
                state.started -= 1;
                state.failure = Some(error.to_string());
                drop(state);
                self.freed.notify_one();
                tracing::error!(%error, "a decode worker could not be started");
                Err(error)
            }
        }
    }

    /// Starts missing workers up to `ready`, without waiting for them.
    fn refill(&self) {
        while let Some(workers) = self.this.upgrade() {
            let mut state = self.lock();
            if state.started >= state.ready {
                return;
            }
            state.started += 1;
            drop(state);
            let starting = std::thread::Builder::new().name("decode-starter".to_owned()).spawn(move || {
                if let Ok(worker) = workers.start() {
                    workers.lock().idle.push_back(worker);
                    workers.freed.notify_one();
                }
            });
            if let Err(error) = starting {
                self.lock().started -= 1;
                tracing::warn!(%error, "decode workers are started when they are needed");
                return;
            }
        }
    }
}

/// A worker in use, returned to the pool or ended.
#[derive(Debug)]
struct BusyWorker<'a> {
    workers: &'a Workers,
    /// `Some` until it is returned or ended.
    worker: Option<Worker>,
}

impl BusyWorker<'_> {
    fn worker(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("it is there until the end")
    }

    /// Returns the worker to the pool, or ends it after its maximum of requests.
    fn give_back(mut self) {
        if self.worker().served() >= self.workers.tuning.requests {
            return self.discard(WorkerEnd::Replaced);
        }
        let worker = self.worker.take();
        self.workers.lock().idle.extend(worker);
    }

    fn discard(mut self, end: WorkerEnd) {
        metrics::decode_worker_ended(end);
        drop(self.worker.take());
        self.workers.lock().started -= 1;
        self.workers.refill();
    }
}

impl Drop for BusyWorker<'_> {
    fn drop(&mut self) {
        metrics::decode_workers_busy(-1.0);
        // Neither returned nor ended: the caller panicked.
        if self.worker.take().is_some() {
            self.workers.lock().started -= 1;
        }
        self.workers.freed.notify_one();
    }
}

fn broken(container: Container, what: &str) -> DecodeError {
    tracing::error!(format = container.name(), what, "a decode worker answered what none of ours does; it was killed");
    corrupt(format_args!("the {} decoder failed", container.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_two_to_four_workers() {
        let workers = [1, 2, 3, 4, 5, 128].map(workers_on);
        assert_eq!(workers, [2, 2, 3, 4, 4, 4]);
        assert!((2..=4).contains(&Tuning::default().most));
    }
}
