//! What the fuzz targets share: the CPU time and the memory of an input, and the panics that end a run.

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The CPU time that every input may take, on this instrumented build.
const BASE: Duration = Duration::from_secs(1);

/// Defines a target: a function of bytes that returns how many units of work it did, and the CPU time of each.
#[macro_export]
macro_rules! target {
    ($body:expr) => {
        $crate::target!($body, ::std::time::Duration::ZERO);
    };
    ($body:expr, $each:expr) => {
        ::libfuzzer_sys::fuzz_target!(init: $crate::set_up(), |bytes: &[u8]| {
            $crate::timed($each, || $crate::Units::units($body(bytes)));
        });
    };
}

/// The units of work of an input.
pub trait Units {
    /// Their number.
    fn units(self) -> usize;
}

impl Units for usize {
    fn units(self) -> usize {
        self
    }
}

impl Units for () {
    fn units(self) -> usize {
        0
    }
}

/// Replaces libFuzzer's panic hook, which ends the process: the program catches panics of third-party decoders. Those that
/// it does not catch end the process in [`timed`].
pub fn set_up() {
    std::panic::set_hook(Box::new(|panic| *last_panic() = panic.to_string()));
}

/// Where and why something panicked last.
fn last_panic() -> MutexGuard<'static, String> {
    static LAST: Mutex<String> = Mutex::new(String::new());
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a target on one input.
///
/// Ends the process when the target panics or takes more CPU time than it may.
pub fn timed(each: Duration, work: impl FnOnce() -> usize) {
    let before = cpu_time();
    let units = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        eprintln!("{}", last_panic());
        std::process::abort();
    });
    let (took, limit) = (cpu_time() - before, BASE + each * u32::try_from(units).unwrap_or(u32::MAX));
    if took > limit {
        eprintln!("{units} units took {took:?} of CPU time, more than {limit:?}");
        std::process::abort();
    }
}

/// CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Runs work and returns its peak of allocated bytes over those before: the `Meter` of the targets.
pub fn peak_of(work: &mut dyn FnMut()) -> usize {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    PEAK.load(Ordering::Relaxed).saturating_sub(before)
}

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of the bytes in use and of their peak.
struct Counting;

impl Counting {
    fn add(bytes: usize) {
        let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    // Zeroed pages cost nothing until they are written, but they are reserved: they count.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::add(size);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
