//! Limits the time of calls into a device's driver, which may never return.
//!
//! A call runs on another thread, and the caller waits at most for the limit. The thread of a late call is abandoned,
//! because nothing can end it. Threads of calls that returned are reused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// Stack of a call's thread, on which drivers compile shaders. Address space only, until it is used.
const STACK_BYTES: usize = 8 << 20;

/// Why a call gave no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The call, or an earlier one, did not return in time.
    Late(Duration),
    /// The call panicked with this message: a driver's error may be a panic.
    Panicked(String),
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Late(limit) => write!(f, "a call did not return within {limit:?}"),
            Self::Panicked(message) => write!(f, "it panicked: {message}"),
        }
    }
}

/// The calls to one device. After a late call the device counts as lost, and no more calls are made.
#[derive(Debug)]
pub struct Watchdog {
    limit: Duration,
    is_lost: AtomicBool,
    idle: Mutex<Vec<mpsc::Sender<Job>>>,
}

impl Watchdog {
    /// Limits calls to `limit`.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit, is_lost: AtomicBool::new(false), idle: Mutex::new(Vec::new()) }
    }

    /// Whether a call was late.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Calls `work`, and returns its result.
    ///
    /// # Errors
    /// [`CallError`] when the call is late or panics; immediately after an earlier late call.
    ///
    /// # Panics
    /// When the system has no thread left.
    pub fn call<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, CallError> {
        if self.is_lost() {
            return Err(CallError::Late(self.limit));
        }
        let (reply, answer) = mpsc::channel();
        let job: Job = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(&*panic));
            // On an error the caller no longer waits.
            let _ = reply.send(outcome);
        });
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let worker = idle.unwrap_or_else(worker);
        worker.send(job).expect("a worker ends with its sender");
        match answer.recv_timeout(self.limit) {
            Ok(outcome) => {
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
                outcome.map_err(CallError::Panicked)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                self.is_lost.store(true, Ordering::Relaxed);
                Err(CallError::Late(self.limit))
            }
        }
    }
}

/// A thread that runs jobs until its sender is dropped.
fn worker() -> mpsc::Sender<Job> {
    let (jobs, inbox) = mpsc::channel::<Job>();
    let run = move || inbox.into_iter().for_each(|job| job());
    let thread = std::thread::Builder::new().name("device-call".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(run).expect("the system has threads left");
    jobs
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{current, sleep};
    use std::time::Instant;

    #[test]
    fn a_call_returns_its_result_and_its_thread_is_used_again() {
        let watchdog = Watchdog::new(Duration::from_secs(60));
        let threads = [(); 2].map(|()| watchdog.call(|| current().id()).expect("it returns"));
        assert_eq!(threads[0], threads[1]);
        assert_eq!(watchdog.call(|| panic!("lost")), Err::<(), _>(CallError::Panicked("lost".to_owned())));
        assert_eq!(watchdog.call(|| 7), Ok(7), "a panic is not a late call");
        assert!(!watchdog.is_lost());
    }

    #[test]
    fn a_hanging_call_is_abandoned_and_no_other_call_is_made() {
        let limit = Duration::from_millis(50);
        let watchdog = Watchdog::new(limit);
        let began = Instant::now();
        assert_eq!(watchdog.call(|| sleep(Duration::from_secs(60))), Err(CallError::Late(limit)));
        assert_eq!(watchdog.call(|| 7), Err(CallError::Late(limit)));
        assert!(began.elapsed() < Duration::from_secs(30));
        assert!(watchdog.is_lost());
    }
}
