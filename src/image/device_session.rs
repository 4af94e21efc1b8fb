//! A GPU in use: reservations of its memory by pictures in flight, calls with a time limit, transferred bytes.

use backdrop_kernels::watchdog::{CallError, Watchdog};
use burn::tensor::Device;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Limits of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Bytes that all pictures in flight may reserve together.
    pub memory: u64,
    /// Bytes of the largest buffer that a kernel can read.
    pub largest_buffer: u64,
    /// Duration of a call after which the GPU counts as lost.
    pub call: Duration,
}

/// A GPU that was opened and tested. Clones share it.
#[derive(Clone)]
pub struct DeviceSession(Arc<Inner>);

struct Inner {
    device: Device,
    limits: DeviceLimits,
    report: fn(u64, u64),
    watchdog: Watchdog,
    queue: Mutex<Queue>,
    moved: Condvar,
}

/// Pictures get memory in the order of their arrival, so that no picture waits forever.
#[derive(Default)]
struct Queue {
    taken: u64,
    came: u64,
    served: u64,
}

/// Memory reserved by a picture; released on drop.
#[derive(Debug)]
pub struct Reservation {
    session: DeviceSession,
    bytes: u64,
}

impl DeviceSession {
    /// A session of `device` with `limits`; transferred bytes (up, down) are passed to `report`.
    #[must_use]
    pub fn new(device: Device, limits: DeviceLimits, report: fn(u64, u64)) -> Self {
        let watchdog = Watchdog::new(limits.call);
        Self(Arc::new(Inner { device, limits, report, watchdog, queue: Mutex::default(), moved: Condvar::new() }))
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Whether `bytes` in all, in buffers of up to `largest` bytes, can ever be reserved.
    #[must_use]
    pub fn can_hold(&self, bytes: u64, largest: u64) -> bool {
        bytes <= self.0.limits.memory && largest <= self.0.limits.largest_buffer
    }

    /// Waits until `bytes` are free. `None` when the GPU is lost, or no memory becomes free in a call's time limit.
    #[must_use]
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let inner = &*self.0;
        let deadline = Instant::now() + inner.limits.call;
        let mut queue = inner.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = queue.came;
        queue.came += 1;
        loop {
            let is_late = self.is_lost() || Instant::now() >= deadline;
            if queue.served == turn {
                let has_room = queue.taken + bytes <= inner.limits.memory;
                if has_room || is_late {
                    queue.served += 1;
                    inner.moved.notify_all();
                    if is_late {
                        return None;
                    }
                    queue.taken += bytes;
                    return Some(Reservation { session: self.clone(), bytes });
                }
            }
            // The longest-waiting pictures give up first.
            let wait = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
            queue = inner.moved.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Runs `work`, which waits for the GPU, and returns its result.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn call<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, CallError> {
        let outcome = self.0.watchdog.call(work);
        if self.is_lost() {
            self.0.moved.notify_all();
        }
        outcome
    }

    /// Whether a call did not return in time.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.watchdog.is_lost()
    }

    /// Reports transferred bytes.
    pub fn report(&self, up: u64, down: u64) {
        (self.0.report)(up, down);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let inner = &*self.session.0;
        inner.queue.lock().unwrap_or_else(PoisonError::into_inner).taken -= self.bytes;
        inner.moved.notify_all();
    }
}

impl fmt::Debug for DeviceSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSession({:?})", self.0.limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LIMITS: DeviceLimits = DeviceLimits { memory: 100, largest_buffer: 40, call: Duration::from_secs(60) };

    fn session(limits: DeviceLimits) -> DeviceSession {
        DeviceSession::new(Device::flex(), limits, |_, _| {})
    }

    #[test]
    fn impossible_reservations_are_known_in_advance() {
        let session = session(LIMITS);
        assert!(session.can_hold(100, 40));
        assert!(!session.can_hold(101, 40));
        assert!(!session.can_hold(100, 41));
    }

    #[test]
    fn memory_is_waited_for_in_order() {
        let session = session(LIMITS);
        let first = session.reserve(60).expect("it is free");
        let (order, done) = mpsc::channel();
        std::thread::scope(|scope| {
            let waiting = |bytes: u64| {
                let (session, order) = (session.clone(), order.clone());
                let came = session.0.queue.lock().expect("no panic").came;
                let thread = session.clone();
                scope.spawn(move || {
                    let room = thread.reserve(bytes).expect("it becomes free");
                    order.send(bytes).expect("it is read");
                    drop(room);
                });
                let began = Instant::now();
                while session.0.queue.lock().expect("no panic").came == came {
                    assert!(began.elapsed() < Duration::from_secs(60), "it does not wait");
                    std::thread::yield_now();
                }
            };
            waiting(90);
            waiting(20);
            let taken = session.0.queue.lock().expect("no panic").taken;
            assert_eq!(taken, 60, "one waits for memory, one for its turn");
            drop(first);
        });
        assert_eq!(done.try_iter().collect::<Vec<_>>(), [90, 20]);
        assert_eq!(session.0.queue.lock().expect("no panic").taken, 0);
    }

    #[test]
    fn reservations_on_a_lost_device_fail_at_once() {
        let session = session(DeviceLimits { call: Duration::from_millis(30), ..LIMITS });
        let _all = session.reserve(100).expect("it is free");
        assert!(session.reserve(1).is_none(), "no memory becomes free");
        assert!(session.call(|| std::thread::sleep(Duration::from_secs(60))).is_err());
        assert!(session.is_lost() && session.reserve(0).is_none());
    }
}
