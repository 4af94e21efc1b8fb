//! How a command ends: 0 all done, 1 some inputs failed, 2 could not run.

use crate::telemetry::with_causes;
use std::error::Error;
use std::io;
use std::process::ExitCode;

use super::print::Unwritten;

/// Why a command could not run.
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// How a command that ran has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Everything is done.
    Done,
    /// Some inputs failed, each told where it happened.
    SomeFailed,
}

impl Outcome {
    /// [`Outcome::Done`] when nothing failed.
    pub(super) const fn of(failed: usize) -> Self {
        if failed == 0 { Self::Done } else { Self::SomeFailed }
    }
}

/// The exit code; a failure is printed with its causes.
pub(super) fn code(result: Result<Outcome, Failure>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::SomeFailed) => ExitCode::from(1),
        // Whoever reads our output has seen enough.
        Err(failure) if is_broken_pipe(failure.as_ref()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("backdrop: {}", with_causes(failure.as_ref()));
            ExitCode::from(2)
        }
    }
}

/// Of our output; a connection that breaks is a failure.
fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| {
        error.kind() == io::ErrorKind::BrokenPipe && error.get_ref().is_some_and(|inner| inner.is::<Unwritten>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::print::unwritten;

    #[test]
    fn a_reader_that_went_away_is_no_failure_and_a_connection_is_one() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(code(Err(unwritten(broken()).into())), ExitCode::SUCCESS);
        assert_eq!(code(Err(broken().into())), ExitCode::from(2));
        assert_eq!(code(Err(unwritten(io::ErrorKind::StorageFull.into()).into())), ExitCode::from(2));
        assert_eq!(code(Err("no such device".into())), ExitCode::from(2));
        assert_eq!(code(Ok(Outcome::of(1))), ExitCode::from(1));
        assert_eq!(code(Ok(Outcome::of(0))), ExitCode::SUCCESS);
    }
}
