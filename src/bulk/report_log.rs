//! The report while it is being written: a line for each object, appended when its result is stored.

use super::known::{Gather, Known};
use super::merge::{Lines, Merged, csv_beside, merge};
use super::row::{Row, Status};
use super::{Hash, hash};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Between rows of one run pass at most so many milliseconds; a longer pause lies between two runs.
const PAUSE: i64 = 60_000;

/// The open report of a run.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    /// Gone after a failed write: a line may be half written, and nothing may follow it.
    file: Arc<Mutex<Option<File>>>,
    known: Known,
    pace: Pace,
}

/// How fast earlier runs with the same parameters went.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    rows: u32,
    milliseconds: i64,
}

/// Why a report cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It cannot be read or written.
    #[error("cannot use the report {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Another run writes it.
    #[error("the report {} is in use by another run", .0.display())]
    InUse(PathBuf),
    /// Something else than a report has its name.
    #[error("{} is not a report of a bulk run (line {line})", path.display())]
    NotAReport {
        /// The file.
        path: PathBuf,
        /// The first line that is none of a report, from 1.
        line: u64,
    },
}

impl LedgerError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }
}

impl Ledger {
    /// Opens the report at `path` and reads what it tells, or begins one. A last line that a crash cut is taken away.
    ///
    /// # Errors
    /// When the file cannot be used, is in use, or is no report.
    pub fn open(path: &Path, parameters: &str) -> Result<Self, LedgerError> {
        let io = |error| LedgerError::io(path)(error);
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LedgerError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        let mut lines = Lines::open(path)?;
        let (mut gather, mut pace, mut before) = (Gather::default(), Pace::default(), None);
        while let Some(row) = lines.next()? {
            let done = row.status == Status::Done;
            gather.row(source_of(&row), done.then(|| row.mark()));
            if done && row.parameters == parameters && row.milliseconds.is_some() {
                let at = row.finished_at.parse().ok().map(jiff::Timestamp::as_millisecond);
                if let (Some(before), Some(at)) = (before, at) {
                    pace.add(at - before);
                }
                before = at;
            }
        }
        file.set_len(lines.good_bytes()).map_err(io)?;
        Ok(Self { path: path.to_owned(), file: Arc::new(Mutex::new(Some(file))), known: gather.finish(), pace })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many objects were done when it was opened.
    #[must_use]
    pub fn done_before(&self) -> usize {
        self.known.len()
    }

    /// Seconds that a picture took in earlier runs with the same parameters, when there are enough to tell.
    #[must_use]
    pub fn seconds_per_picture(&self) -> Option<f64> {
        (self.pace.rows >= 8).then(|| self.pace.milliseconds as f64 / 1000.0 / f64::from(self.pace.rows))
    }

    pub(super) const fn known(&self) -> &Known {
        &self.known
    }

    /// Adds a row. It is with the operating system when this returns, so that no kill of this process loses it.
    pub(super) async fn append(&self, row: &Row) -> Result<(), LedgerError> {
        let mut line = serde_json::to_vec(row).expect("a row is plain data");
        line.push(b'\n');
        let file = Arc::clone(&self.file);
        let write = move || {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let mut open = file.take().ok_or_else(|| io::Error::other("an earlier row could not be written"))?;
            open.write_all(&line)?;
            *file = Some(open);
            Ok(())
        };
        let written = tokio::task::spawn_blocking(write).await.map_err(io::Error::other);
        written.and_then(|written| written).map_err(LedgerError::io(&self.path))
    }

    /// Ends the report: each object once, and a table beside it.
    ///
    /// # Errors
    /// When it cannot be written; the lines that are there stay.
    pub fn finish(self) -> Result<Merged, LedgerError> {
        let merged = merge(std::slice::from_ref(&self.path), &self.path, &csv_beside(&self.path));
        // The lock goes only now.
        drop(self.file);
        merged
    }
}

/// Which object a row is about.
pub(super) fn source_of(row: &Row) -> Hash {
    hash(&[&row.source])
}

impl Pace {
    fn add(&mut self, milliseconds: i64) {
        if (0..PAUSE).contains(&milliseconds) {
            self.rows += 1;
            self.milliseconds += milliseconds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::Stages;
    use std::fs;

    fn row(source: &str, etag: &str, status: Status) -> Row {
        Row {
            source: source.into(),
            output: format!("{source}.png"),
            status,
            source_etag: etag.into(),
            parameters: "p".into(),
            milliseconds: Some(Stages::default()),
            finished_at: super::super::row::now(),
            ..Row::default()
        }
    }

    #[tokio::test]
    async fn what_is_done_is_known_when_the_report_is_opened_again_and_a_cut_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.jsonl");
        let ledger = Ledger::open(&path, "p").unwrap();
        let (a, b) = (row("a", "1", Status::Done), row("b", "1", Status::Failed));
        ledger.append(&a).await.unwrap();
        ledger.append(&b).await.unwrap();
        assert!(matches!(Ledger::open(&path, "p"), Err(LedgerError::InUse(_))));
        drop(ledger);
        let whole = fs::read(&path).unwrap();
        let line = serde_json::to_vec(&row("c", "1", Status::Done)).unwrap();
        for cut in 1..=line.len() {
            fs::write(&path, [&whole[..], &line[..cut]].concat()).unwrap();
            let ledger = Ledger::open(&path, "p").unwrap();
            assert_eq!(ledger.done_before(), 1, "{cut}");
            assert!(ledger.known().has(a.mark()) && !ledger.known().has(b.mark()));
            assert!(!ledger.known().has(row("a", "2", Status::Done).mark()), "its source has changed");
            drop(ledger);
            assert_eq!(fs::read(&path).unwrap(), whole, "{cut}");
        }
    }

    #[tokio::test]
    async fn a_finished_report_has_each_object_once_and_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.jsonl");
        let ledger = Ledger::open(&path, "p").unwrap();
        for row in [
            row("a", "1", Status::Failed),
            row("b, \"c\"", "1", Status::Done),
            row("a", "1", Status::Done),
            row("d", "1", Status::Failed),
        ] {
            ledger.append(&row).await.unwrap();
        }
        let merged = ledger.finish().unwrap();
        assert_eq!((merged.done, merged.failed), (2, 1));
        let rows: Vec<Row> =
            fs::read_to_string(&path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.iter().map(|row| row.source.as_str()).collect::<Vec<_>>(), ["b, \"c\"", "a", "d"]);
        let table = fs::read_to_string(folder.path().join("report.csv")).unwrap();
        assert_eq!(table.lines().count(), 4);
        assert!(table.contains("\n\"b, \"\"c\"\"\",\"b, \"\"c\"\".png\",done,"), "{table}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn another_file_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("photo.jpg");
        for text in [&b"\xff\xd8\xff\n\n\n"[..], b"{}\n{}\n", b"one\ntwo\n"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(Ledger::open(&path, "p"), Err(LedgerError::NotAReport { line: 1, .. })));
            assert_eq!(fs::read(&path).unwrap(), text);
        }
    }
}
