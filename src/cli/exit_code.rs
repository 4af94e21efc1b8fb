//! Maps a command's result to its exit code: 0 all done, 1 some inputs failed, 2 could not run.

use crate::telemetry::with_causes;
use std::error::Error;
use std::io;
use std::process::ExitCode;

use super::stdout::StdoutError;

/// Why a command could not run.
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// The outcome of a command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Everything is done.
    Done,
    /// Some inputs failed and were reported.
    SomeFailed,
}

impl Outcome {
    /// [`Outcome::SomeFailed`] if any input failed.
    pub(super) const fn of(any_failed: bool) -> Self {
        if any_failed { Self::SomeFailed } else { Self::Done }
    }
}

/// The exit code; a failure is printed with its causes.
pub(super) fn exit_code(result: Result<Outcome, Failure>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::SomeFailed) => ExitCode::from(1),
        // The reader of our output closed the pipe, such as `head`.
        Err(failure) if is_closed_stdout(failure.as_ref()) => ExitCode::SUCCESS,
        Err(failure) => {
            print_stderr!("backdrop: {}", with_causes(failure.as_ref()));
            ExitCode::from(2)
        }
    }
}

/// Whether standard output was closed; a broken connection is a failure.
fn is_closed_stdout(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| {
        error.kind() == io::ErrorKind::BrokenPipe && error.get_ref().is_some_and(|inner| inner.is::<StdoutError>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::stdout::stdout_error;

    #[test]
    fn a_closed_standard_output_is_no_failure_and_a_broken_connection_is_one() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(exit_code(Err(stdout_error(broken()).into())), ExitCode::SUCCESS);
        assert_eq!(exit_code(Err(broken().into())), ExitCode::from(2));
        assert_eq!(exit_code(Err(stdout_error(io::ErrorKind::StorageFull.into()).into())), ExitCode::from(2));
        assert_eq!(exit_code(Err("no such device".into())), ExitCode::from(2));
        assert_eq!(exit_code(Ok(Outcome::of(true))), ExitCode::from(1));
        assert_eq!(exit_code(Ok(Outcome::of(false))), ExitCode::SUCCESS);
    }
}
