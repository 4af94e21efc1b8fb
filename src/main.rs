//! The binary: parses the arguments and runs the subcommand.

use clap::Parser;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Large buffers are allocated for every picture; mimalloc returns them to the system sooner than glibc does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, which the bindings lack.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// How long freed pages are kept for the next picture: a page that is fresh from the system costs a fault and is cleared.
const KEPT: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    // SAFETY: stores an integer; the option exists in all versions of mimalloc that the bindings build.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, KEPT.as_millis() as std::ffi::c_long) };
    // mimalloc asks for huge pages, of which each small area of its memory then takes one: 85 MB in an idle daemon. Where a
    // sandbox forbids the call, they stay.
    #[cfg(target_os = "linux")]
    let _: std::io::Result<()> = rustix::thread::disable_transparent_huge_pages(true).map_err(Into::into);
    let command = backdrop::cli::Cli::parse();
    if !command.is_decode_worker() {
        thread::Builder::new().name("purge".to_owned()).spawn(purge).expect("the system has threads left at the start");
    }
    command.run()
}

/// Returns pages that were freed longer ago than [`KEPT`] to the system. Allocations do that in passing, but an idle daemon
/// makes none.
fn purge() {
    loop {
        thread::sleep(KEPT);
        // SAFETY: may be called at any time from any thread.
        unsafe { libmimalloc_sys::mi_collect(false) };
    }
}
