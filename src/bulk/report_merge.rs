//! Reports put together: each object once, with its newest row.

use super::Hash;
use super::ledger::{LedgerError, source_of};
use super::row::{Row, Status};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// No row is longer: two keys of 1024 bytes, a message, and some numbers.
const LONGEST: u64 = 1 << 16;

/// What every row begins with.
const BEGIN: &[u8] = b"{\"source\":";

/// What a report tells, in sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Objects with a result.
    pub done: u64,
    /// Objects without.
    pub failed: u64,
    /// How many failed for each code.
    pub failures: BTreeMap<String, u64>,
}

/// Where the table beside a report is: the same name, ending in `.csv`.
#[must_use]
pub fn csv_beside(report: &Path) -> PathBuf {
    report.with_extension("csv")
}

/// Writes the rows of all `inputs` into `into`, and as a table into `table`: of each object the row that was finished
/// last. Both files take their names when they are whole; `into` may be one of the inputs.
///
/// # Errors
/// When a file cannot be read or written, or is no report.
pub fn merge(inputs: &[PathBuf], into: &Path, table: &Path) -> Result<Merged, LedgerError> {
    let winners = winners(inputs)?;
    let mut next = winners.into_iter().peekable();
    let mut merged = Merged::default();
    let lines = Partial::create(into)?;
    let cells = Partial::create(table)?;
    let mut writer = csv::Writer::from_writer(BufWriter::new(&cells.file));
    let mut text = BufWriter::new(&lines.file);
    let csv_error = |error: csv::Error| LedgerError::io(table)(error.into());
    writer.write_record(Row::COLUMNS).map_err(csv_error)?;
    let mut order = 0_u64;
    for input in inputs {
        let mut rows = Lines::open(input)?;
        while let Some(row) = rows.next()? {
            if next.next_if_eq(&order).is_some() {
                merged.add(&row);
                let line = serde_json::to_string(&row).expect("a row is plain data");
                writeln!(text, "{line}").map_err(LedgerError::io(into))?;
                writer.write_record(row.cells()).map_err(csv_error)?;
            }
            order += 1;
        }
    }
    text.flush().map_err(LedgerError::io(into))?;
    writer.flush().map_err(LedgerError::io(table))?;
    drop((text, writer));
    cells.take_name()?;
    lines.take_name()?;
    Ok(merged)
}

/// The places of the rows that stay, counted through all files, in order.
fn winners(inputs: &[PathBuf]) -> Result<Vec<u64>, LedgerError> {
    let mut rows: Vec<(Hash, i64, u64)> = Vec::new();
    for input in inputs {
        let mut lines = Lines::open(input)?;
        while let Some(row) = lines.next()? {
            // Of rows of one moment the one that was written later is newer.
            let at = row.finished_at.parse().map_or(i64::MIN, jiff::Timestamp::as_millisecond);
            rows.push((source_of(&row), at, rows.len() as u64));
        }
    }
    rows.sort_unstable();
    let mut winners: Vec<u64> =
        rows.chunk_by(|a, b| a.0 == b.0).filter_map(|same| same.last().map(|&(.., order)| order)).collect();
    winners.sort_unstable();
    Ok(winners)
}

impl Merged {
    fn add(&mut self, row: &Row) {
        match row.status {
            Status::Done => self.done += 1,
            Status::Failed => {
                self.failed += 1;
                *self.failures.entry(row.code.clone().unwrap_or_default()).or_default() += 1;
            }
        }
    }
}

/// The rows of a report, one at a time.
pub(super) struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    line: u64,
    good: u64,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, LedgerError> {
        let file = File::open(path).map_err(LedgerError::io(path))?;
        Ok(Self { path: path.to_owned(), reader: BufReader::new(file), line: 0, good: 0 })
    }

    /// The next row; nothing at the end, also when the last line is one that a crash cut.
    pub(super) fn next(&mut self) -> Result<Option<Row>, LedgerError> {
        let mut line = Vec::new();
        self.line += 1;
        let read = self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        read.map_err(LedgerError::io(&self.path))?;
        let row = line.strip_suffix(b"\n").and_then(|line| serde_json::from_slice(line).ok());
        if row.is_some() {
            self.good += line.len() as u64;
            return Ok(row);
        }
        let at_end = self.reader.fill_buf().map_err(LedgerError::io(&self.path))?.is_empty();
        // A crash leaves the beginning of a row. Where no row came before, it has to look like one: the file may be
        // something else altogether.
        let begins = line.starts_with(BEGIN) || BEGIN.starts_with(&line);
        let is_cut = line.is_empty() || at_end && !line.ends_with(b"\n") && (begins || self.line > 1);
        if is_cut { Ok(None) } else { Err(LedgerError::NotAReport { path: self.path.clone(), line: self.line }) }
    }

    /// Bytes of the rows that were read.
    pub(super) const fn good_bytes(&self) -> u64 {
        self.good
    }
}

/// A file under a name of its own until it is whole.
struct Partial {
    file: File,
    partial: PathBuf,
    name: PathBuf,
}

impl Partial {
    fn create(name: &Path) -> Result<Self, LedgerError> {
        let mut partial = name.as_os_str().to_owned();
        partial.push(".part");
        let partial = PathBuf::from(partial);
        let file = File::create(&partial).map_err(LedgerError::io(&partial))?;
        Ok(Self { file, partial, name: name.to_owned() })
    }

    fn take_name(&self) -> Result<(), LedgerError> {
        let done = self.file.sync_data().and_then(|()| fs::rename(&self.partial, &self.name));
        done.map_err(LedgerError::io(&self.name))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After it took its name there is nothing left to remove.
        let _ = fs::remove_file(&self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, rows: &[(&str, Status, &str)]) {
        let lines: String = rows
            .iter()
            .map(|&(source, status, second)| {
                let code = (status == Status::Failed).then(|| "not_found".to_owned());
                let finished_at = format!("2026-01-01T00:00:{second}.000Z");
                let row = Row { source: source.into(), status, code, finished_at, ..Row::default() };
                serde_json::to_string(&row).unwrap() + "\n"
            })
            .collect();
        fs::write(path, lines).unwrap();
    }

    #[test]
    fn the_newest_row_wins_whatever_file_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        write(&path("0"), &[("a", Status::Done, "05"), ("b", Status::Failed, "01")]);
        write(&path("1"), &[("c", Status::Failed, "03"), ("a", Status::Failed, "02"), ("b", Status::Done, "04")]);
        let merged = merge(&[path("0"), path("1")], &path("all.jsonl"), &path("all.csv")).unwrap();
        assert_eq!((merged.done, merged.failed), (2, 1));
        assert_eq!(merged.failures, [("not_found".to_owned(), 1)].into());
        // A second time changes nothing.
        let all = fs::read(path("all.jsonl")).unwrap();
        let again = merge(&[path("all.jsonl"), path("1"), path("0")], &path("all.jsonl"), &path("all.csv")).unwrap();
        assert_eq!(again, merged);
        assert_eq!(fs::read(path("all.jsonl")).unwrap().len(), all.len());
        assert!(merge(&[path("none")], &path("x"), &path("y")).is_err());
        assert!(!path("x").exists() && !path("x.part").exists());
    }

    #[test]
    fn a_line_in_the_middle_that_is_none_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.jsonl");
        write(&path, &[("a", Status::Done, "01")]);
        let good = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{good}nonsense\n{good}")).unwrap();
        let mut lines = Lines::open(&path).unwrap();
        assert!(lines.next().unwrap().is_some());
        assert!(matches!(lines.next(), Err(LedgerError::NotAReport { line: 2, .. })));
    }
}
