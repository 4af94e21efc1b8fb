//! Prints results on standard output and marks its errors, so that a closed pipe is no failure.

use serde::Serialize;
use std::io::{self, Write};

/// Standard output was closed or full. Wrapped in an [`io::Error`], to distinguish it from a broken connection.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the result")]
pub(super) struct StdoutError(#[source] io::Error);

/// Prints a line.
///
/// # Errors
/// An [`io::Error`] that wraps a [`StdoutError`].
pub(super) fn print_line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(stdout_error)
}

/// Marks an error of standard output.
pub(super) fn stdout_error(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), StdoutError(error))
}

/// Prints a value as indented JSON.
pub(super) fn print_json(value: &impl Serialize) -> io::Result<()> {
    print_line(&serde_json::to_string_pretty(value)?)
}

/// Prints `value` as indented JSON with `json`, else `text`.
pub(super) fn print_result(json: bool, value: &impl Serialize, text: impl FnOnce() -> String) -> io::Result<()> {
    if json { print_json(value) } else { print_line(&text()) }
}
