//! Jobs whose records cannot be read, because they are damaged or of an unknown version: lists leave them out, so that other
//! jobs go on, and each is logged once. Their rows stay as they are.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::Job;
use super::storage_fault::Fault;

/// The ids that were logged, at most one for each damaged row. Of the process: jobs are read in transactions of every kind.
static LOGGED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The job of a row; `None` where its record cannot be read.
pub(super) fn skip_unreadable(id: &str, job: Result<Job, Fault>) -> Result<Option<Job>, Fault> {
    match job {
        Ok(job) => Ok(Some(job)),
        Err(Fault::Damaged(reason)) => {
            report_unreadable(id, &reason);
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

/// Logs a job whose record cannot be read, once.
pub(super) fn report_unreadable(id: &str, reason: &str) {
    if LOGGED.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned()) {
        tracing::error!(job = id, reason, "the record of a job cannot be read; other jobs go on without it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_job_is_skipped_each_time_and_logged_once() {
        let file = tempfile::NamedTempFile::new().expect("a writable folder");
        let lines = tracing_subscriber::fmt().with_ansi(false);
        let lines = lines.with_writer(file.reopen().expect("just created")).finish();
        // Ids of this test only: others log jobs, too.
        tracing::subscriber::with_default(lines, || {
            for id in ["job_logged_once", "job_logged_too", "job_logged_once"] {
                let damaged = Err(Fault::Damaged(format!("job {id}: malformed record")));
                assert!(matches!(skip_unreadable(id, damaged), Ok(None)));
            }
        });
        let log = std::fs::read_to_string(file.path()).expect("UTF-8");
        let has = |number: usize, id: &str| log.lines().nth(number).is_some_and(|line| line.contains(id));
        assert!(log.lines().count() == 2 && has(0, "job_logged_once") && has(1, "job_logged_too"), "{log}");
        assert!(matches!(skip_unreadable("job_logged_once", Err(Fault::Closed)), Err(Fault::Closed)));
    }
}
