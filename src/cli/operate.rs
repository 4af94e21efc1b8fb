//! What `keys` and `accounts` share: the way to the admin interface, printing, and exit codes.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use http::{Method, StatusCode};
use serde_json::Value;

use super::print;
use crate::account::AccountName;
use crate::account::admin::{Link, LinkError};

/// Why a command is not simply done.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// The store or the daemon cannot be reached.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The interface said no.
    #[error("{message}")]
    Refused {
        /// Its status.
        status: StatusCode,
        /// Its reason.
        message: String,
    },
    /// The result could not be written.
    #[error("cannot write the result")]
    Output(#[source] io::Error),
    /// Part of the inputs failed, each reported where it happened.
    #[error("{0}")]
    Some(Failed),
}

/// How many of the inputs failed.
#[derive(Debug)]
pub(super) struct Failed {
    /// Failed ones.
    pub(super) failed: usize,
    /// All of them.
    pub(super) of: usize,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} failed", self.failed, self.of)
    }
}

/// Runs a command to its exit code: 0 done, 1 some inputs failed, 2 could not run. Errors go to stderr, with causes.
pub(super) fn run(command: impl Future<Output = Result<(), CommandError>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    match runtime.block_on(command) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough.
        Err(CommandError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(CommandError::Some(failed)) => {
            eprintln!("backdrop: {failed}");
            ExitCode::from(1)
        }
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn Error) -> ExitCode {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    eprintln!("backdrop: {}", causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}")));
    ExitCode::from(2)
}

pub(super) async fn open(data_dir: &Path) -> Result<Link, CommandError> {
    Ok(Link::open(data_dir).await?)
}

pub(super) async fn open_or_create(data_dir: &Path) -> Result<Link, CommandError> {
    Ok(Link::open_or_create(data_dir).await?)
}

/// Calls the interface; any status but a success is its refusal.
pub(super) async fn call(
    link: &Link,
    method: Method,
    target: &str,
    body: Option<&Value>,
) -> Result<Value, CommandError> {
    let (status, answer) = link.call(method, target, body).await?;
    if status.is_success() {
        return Ok(answer);
    }
    let message =
        answer["error"]["message"].as_str().map_or_else(|| format!("the daemon answered {status}"), Into::into);
    Err(CommandError::Refused { status, message })
}

/// A name that may go into an address.
pub(super) fn account_name(name: &str) -> Result<AccountName, CommandError> {
    AccountName::try_from(name).map_err(|error| CommandError::Refused {
        status: StatusCode::BAD_REQUEST,
        message: format!("invalid account name `{name}` ({error})"),
    })
}

/// The rows of a listing.
pub(super) fn items<'a>(listing: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    listing[field].as_array().into_iter().flatten()
}

/// Prints one line on stdout.
pub(super) fn print(line: &str) -> Result<(), CommandError> {
    print::line(line).map_err(CommandError::Output)
}

/// Prints rows under a heading, each column as wide as its widest cell.
pub(super) fn print_table<const N: usize>(
    heading: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Result<(), CommandError> {
    print(&table(heading, rows))
}

fn table<const N: usize>(heading: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(heading.map(String::from)).chain(rows).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_lines_its_columns_up_and_leaves_no_blanks_at_the_end() {
        let rows = [["a".into(), "größer".into()], ["long cell".into(), String::new()]];
        assert_eq!(table(["X", "Y"], rows.into_iter()), "X          Y\na          größer\nlong cell");
    }
}
