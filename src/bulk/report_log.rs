//! The report of a run in progress: one JSON line per object, appended when its result is stored, under a file lock.

use super::previous_runs::{PreviousRuns, PreviousRunsBuilder};
use super::report_merge::{ReportTotals, csv_path, merge_reports};
use super::report_reader::{ReportError, ReportReader};
use super::report_row::{ReportRow, Status};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Longest time between two rows of one run, in milliseconds; a longer gap is between two runs.
const MAX_GAP_MS: i64 = 60_000;

/// The open report of a run.
#[derive(Debug)]
pub struct ReportLog {
    path: PathBuf,
    /// `None` after a failed write: the last line may be incomplete, and nothing may be appended to it.
    file: Arc<Mutex<Option<File>>>,
    previous_runs: PreviousRuns,
    throughput: Throughput,
}

/// Throughput of earlier runs with the same parameters.
#[derive(Clone, Copy, Debug, Default)]
struct Throughput {
    rows: u32,
    milliseconds: i64,
}

impl ReportLog {
    /// Opens the report at `path` and reads its rows, or creates it. A last line that a crash truncated is removed.
    ///
    /// # Errors
    /// When the file cannot be used, is in use, or is no report.
    pub fn open(path: &Path, parameters: &str) -> Result<Self, ReportError> {
        let io = |error| ReportError::io(path)(error);
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ReportError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        let mut rows = ReportReader::open(path)?;
        let (mut builder, mut throughput) = (PreviousRunsBuilder::default(), Throughput::default());
        let mut before = None;
        while let Some(row) = rows.next()? {
            let done = row.status == Status::Done;
            builder.add(row.source_hash(), done.then(|| row.fingerprint()));
            if done && row.parameters == parameters && row.milliseconds.is_some() {
                let at = row.finished_at.parse().ok().map(jiff::Timestamp::as_millisecond);
                if let (Some(before), Some(at)) = (before, at) {
                    throughput.add(at - before);
                }
                before = at;
            }
        }
        file.set_len(rows.valid_bytes()).map_err(io)?;
        let file = Arc::new(Mutex::new(Some(file)));
        Ok(Self { path: path.to_owned(), file, previous_runs: builder.build(), throughput })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of objects that were done when it was opened.
    #[must_use]
    pub fn done_before(&self) -> usize {
        self.previous_runs.len()
    }

    /// Seconds per picture in earlier runs with the same parameters; `None` with fewer than eight.
    #[must_use]
    pub fn seconds_per_picture(&self) -> Option<f64> {
        (self.throughput.rows >= 8)
            .then(|| self.throughput.milliseconds as f64 / 1000.0 / f64::from(self.throughput.rows))
    }

    pub(super) const fn previous_runs(&self) -> &PreviousRuns {
        &self.previous_runs
    }

    /// Appends a row. The operating system has it when this returns, so that killing this process does not lose it.
    pub(super) async fn append(&self, row: &ReportRow) -> Result<(), ReportError> {
        let line = row.json_line();
        let file = Arc::clone(&self.file);
        let write = move || {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let mut open = file.take().ok_or_else(|| io::Error::other("an earlier row could not be written"))?;
            open.write_all(&line)?;
            *file = Some(open);
            Ok(())
        };
        let written = tokio::task::spawn_blocking(write).await.map_err(io::Error::other);
        written.and_then(|written| written).map_err(ReportError::io(&self.path))
    }

    /// Closes the report: keeps one row per object and writes the CSV next to it.
    ///
    /// # Errors
    /// When it cannot be written; the existing lines are kept.
    pub fn finish(self) -> Result<ReportTotals, ReportError> {
        let totals = merge_reports(std::slice::from_ref(&self.path), &self.path, &csv_path(&self.path));
        // Releases the lock.
        drop(self.file);
        totals
    }
}

impl Throughput {
    fn add(&mut self, milliseconds: i64) {
        if (0..MAX_GAP_MS).contains(&milliseconds) {
            self.rows += 1;
            self.milliseconds += milliseconds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::StageTimes;
    use crate::bulk::report_row::now;
    use std::fs;

    fn row(source: &str, etag: &str, status: Status) -> ReportRow {
        ReportRow {
            source: source.into(),
            output: format!("{source}.png"),
            status,
            source_etag: etag.into(),
            parameters: "p".into(),
            milliseconds: Some(StageTimes::default()),
            finished_at: now(),
            ..ReportRow::default()
        }
    }

    #[tokio::test]
    async fn a_reopened_report_lists_finished_objects_and_drops_a_truncated_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.jsonl");
        let log = ReportLog::open(&path, "p").unwrap();
        let (a, b) = (row("a", "1", Status::Done), row("b", "1", Status::Failed));
        log.append(&a).await.unwrap();
        log.append(&b).await.unwrap();
        assert!(matches!(ReportLog::open(&path, "p"), Err(ReportError::InUse(_))));
        drop(log);
        let whole = fs::read(&path).unwrap();
        let line = serde_json::to_vec(&row("c", "1", Status::Done)).unwrap();
        for cut in 1..=line.len() {
            fs::write(&path, [&whole[..], &line[..cut]].concat()).unwrap();
            let log = ReportLog::open(&path, "p").unwrap();
            assert_eq!(log.done_before(), 1, "{cut}");
            assert!(log.previous_runs().contains(a.fingerprint()) && !log.previous_runs().contains(b.fingerprint()));
            assert!(!log.previous_runs().contains(row("a", "2", Status::Done).fingerprint()), "the source has changed");
            drop(log);
            assert_eq!(fs::read(&path).unwrap(), whole, "{cut}");
        }
    }

    #[tokio::test]
    async fn a_finished_report_has_one_row_per_object_and_a_csv() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.jsonl");
        let log = ReportLog::open(&path, "p").unwrap();
        for row in [
            row("a", "1", Status::Failed),
            row("b, \"c\"", "1", Status::Done),
            row("a", "1", Status::Done),
            row("d", "1", Status::Failed),
        ] {
            log.append(&row).await.unwrap();
        }
        let totals = log.finish().unwrap();
        assert_eq!((totals.done, totals.failed), (2, 1));
        let rows: Vec<ReportRow> =
            fs::read_to_string(&path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.iter().map(|row| row.source.as_str()).collect::<Vec<_>>(), ["b, \"c\"", "a", "d"]);
        let table = fs::read_to_string(folder.path().join("report.csv")).unwrap();
        assert_eq!(table.lines().count(), 4);
        assert!(table.contains("\n\"b, \"\"c\"\"\",\"b, \"\"c\"\".png\",done,"), "{table}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_is_not_a_report_is_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("photo.jpg");
        let row = serde_json::to_string(&row("a", "1", Status::Done)).unwrap();
        let damaged = format!("{row}\nnonsense\n{row}\n");
        for (text, wrong_line) in
            [(&b"\xff\xd8\xff\n\n\n"[..], 1), (b"{}\n{}\n", 1), (b"one\ntwo\n", 1), (damaged.as_bytes(), 2)]
        {
            fs::write(&path, text).unwrap();
            let refused = ReportLog::open(&path, "p");
            assert!(
                matches!(&refused, Err(ReportError::NotAReport { line, .. }) if *line == wrong_line),
                "{refused:?}"
            );
            assert_eq!(fs::read(&path).unwrap(), text);
        }
    }
}
