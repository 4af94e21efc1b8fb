//! Runs a fuzz target: ends the process where an input panics or exceeds its bounds on CPU time and allocated bytes.

use backdrop::fuzzing::{CountingAllocator, TimeLimit, within_bounds, work_on_this_thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Defines a target: a function of bytes that returns the CPU time that they may take, where it is not that of every target.
#[macro_export]
macro_rules! target {
    ($body:expr) => {
        ::libfuzzer_sys::fuzz_target!(init: $crate::set_up(), |bytes: &[u8]| {
            $crate::run(|| $body(bytes));
        });
    };
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Replaces libFuzzer's panic hook, which ends the process: the program catches panics of third-party decoders. Those that
/// it does not catch end the process in [`run`]. Parallel work is done on this thread, whose bytes are counted.
pub fn set_up() {
    std::panic::set_hook(Box::new(|panic| *last_panic() = panic.to_string()));
    work_on_this_thread();
}

/// Where and why something panicked last.
fn last_panic() -> MutexGuard<'static, String> {
    static LAST: Mutex<String> = Mutex::new(String::new());
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a target on one input. Ends the process when it panics or takes more CPU time or memory than it may.
pub fn run<L: TimeLimit>(target: impl FnOnce() -> L) {
    catch_unwind(AssertUnwindSafe(|| within_bounds(target))).unwrap_or_else(|_| {
        eprintln!("{}", last_panic());
        std::process::abort();
    });
}
