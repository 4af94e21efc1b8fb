//! The decode workers of a process: started when they are needed or before, replaced after a number of pictures.

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

/// Bounds of the workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    /// Workers at once.
    pub(super) most: usize,
    /// Requests of a worker, after which another one takes its place. A picture is two: probed, then decoded.
    pub(super) requests: u32,
    /// The time limit of a picture, given its size; of a probe, without one.
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

/// The number of workers at once on so many processors: two at least, so that a picture that hangs does not stop the others.
fn workers_on(processors: usize) -> usize {
    processors.clamp(2, MAX_WORKERS)
}

/// The decode workers of this process.
#[derive(Debug)]
pub struct Workers {
    program: Program,
    tuning: Tuning,
    state: Mutex<State>,
    /// A worker became idle, or one may be started.
    freed: Condvar,
    protections: OnceLock<Protections>,
    /// For the threads that start workers.
    this: Weak<Self>,
}

#[derive(Debug, Default)]
struct State {
    /// The one that has been idle longest is first, so that each is used in turn: one that ended while it was idle is replaced
    /// after as many requests as there are workers.
    idle: VecDeque<Worker>,
    /// Idle, busy and starting workers.
    started: usize,
    /// Workers to be kept ready before they are needed.
    ready: usize,
    /// Why the last one could not be started.
    failure: Option<String>,
}

impl Workers {
    /// Starts none yet.
    #[must_use]
    pub fn new(program: Program) -> Arc<Self> {
        Self::with(program, Tuning::default())
    }

    pub(super) fn with(program: Program, tuning: Tuning) -> Arc<Self> {
        let (state, freed, protections) = (Mutex::default(), Condvar::new(), OnceLock::new());
        Arc::new_cyclic(|this| Self { program, tuning, state, freed, protections, this: this.clone() })
    }

    /// The size of the upright picture, checked against the limits.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn probe(&self, container: Container, bytes: &[u8], limits: &Limits) -> Result<Probed, DecodeError> {
        // No profile matters for the size.
        let request = Request { container, limits: *limits, len: bytes.len(), decode: None, applies_profile: true };
        let time = (self.tuning.time_limit)(None);
        self.run(request, bytes, time, |probed, _| {
            check_size(probed.0, limits)?;
            Ok(probed)
        })
    }

    /// The pixels of a probed file, in memory of the worker that decoded them.
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
            // Only a worker that an attacker took over sends other memory.
            Ok(Frame::new(size, pool.received(memory.map_err(|error| broken(header.container, &error.to_string()))?)))
        })
    }

    /// Workers, idle and busy.
    #[cfg(test)]
    pub(super) fn started(&self) -> usize {
        self.lock().started
    }

    /// Processes of the idle workers.
    #[cfg(test)]
    pub(super) fn idle(&self) -> Vec<u32> {
        self.lock().idle.iter().map(Worker::id).collect()
    }

    /// What the system lacks to confine a worker; unknown before the first has started.
    pub(super) fn protections(&self) -> Option<Protections> {
        self.protections.get().copied()
    }

    /// Why the last worker could not be started.
    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Keeps two workers ready from now on, started on threads of their own.
    pub(super) fn start_early(&self) {
        self.lock().ready = self.tuning.most.min(2);
        self.refill();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a worker answer `request` and `accepted` read what it made.
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
                // Ended while it was idle, by the system or an operator. The number of such workers is bounded.
                Failure::Gone if attempts < self.tuning.most => {
                    lease.discard(WorkerEnd::Gone);
                    attempts += 1;
                }
                Failure::Gone => {
                    lease.discard(WorkerEnd::Gone);
                    return Err(DecodeError::Worker("each ended before it was sent a file".to_owned()));
                }
                // Not the file's fault: a second try, on another worker.
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

    /// An idle worker, or a new one; waits while all are busy, which each is for a bounded time.
    fn lease(&self) -> io::Result<Lease<'_>> {
        let mut state = self.lock();
        loop {
            if let Some(worker) = state.idle.pop_front() {
                metrics::decode_workers_busy(1.0);
                return Ok(Lease { workers: self, worker: Some(worker) });
            }
            if state.started < self.tuning.most {
                state.started += 1;
                drop(state);
                let worker = self.start()?;
                metrics::decode_workers_busy(1.0);
                return Ok(Lease { workers: self, worker: Some(worker) });
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Starts a worker that is counted already.
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

    /// Starts the workers that are to be ready and are not, without waiting for them.
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

/// A worker in use.
#[derive(Debug)]
struct Lease<'a> {
    workers: &'a Workers,
    /// There until the end.
    worker: Option<Worker>,
}

impl Lease<'_> {
    fn worker(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("it is there until the end")
    }

    /// Returns it for the next picture, unless it has had enough of them.
    fn give_back(mut self) {
        if self.worker().served() >= self.workers.tuning.requests {
            return self.discard(WorkerEnd::Replaced);
        }
        let worker = self.worker.take();
        self.workers.lock().idle.extend(worker);
    }

    /// Ends it.
    fn discard(mut self, end: WorkerEnd) {
        metrics::decode_worker_ended(end);
        drop(self.worker.take());
        self.workers.lock().started -= 1;
        self.workers.refill();
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        metrics::decode_workers_busy(-1.0);
        // A panic in between.
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
