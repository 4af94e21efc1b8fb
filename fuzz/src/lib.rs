//! Runs a fuzz target. Ends the process when an input panics or exceeds its bounds on CPU time and allocated bytes.

use backdrop::fuzzing::{CountingAllocator, TimeLimit, within_bounds, work_on_this_thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Defines a target: a function of bytes. One that returns a duration replaces the usual bound on CPU time by it.
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

/// Replaces libFuzzer's panic hook, which ends the process, because the program catches panics of third-party decoders;
/// [`run`] ends the process on the others. Parallel work runs on this thread, because only its allocated bytes are counted.
pub fn set_up() {
    std::panic::set_hook(Box::new(|panic| *last_panic() = panic.to_string()));
    work_on_this_thread();
}

/// Location and message of the last panic.
fn last_panic() -> MutexGuard<'static, String> {
    static LAST: Mutex<String> = Mutex::new(String::new());
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a target on one input. Ends the process when it panics or exceeds its CPU time or memory.
pub fn run<L: TimeLimit>(target: impl FnOnce() -> L) {
    catch_unwind(AssertUnwindSafe(|| within_bounds(target))).unwrap_or_else(|_| {
        eprintln!("{}", last_panic());
        std::process::abort();
    });
}
