//! Notices of tests that cannot run on this machine.

use std::io::Write;

/// Prints that something was not tested, also when the harness captures the output of passing tests.
pub(crate) fn notice(what: &str) {
    // Not `eprintln!`, which is captured.
    let _ = writeln!(std::io::stderr(), "\n*** SKIPPED: {what} ***\n");
}
