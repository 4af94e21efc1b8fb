//! Merges reports into one, with the newest row of each object, and writes it as JSON Lines and CSV.

use super::hash::Hash;
use super::report_reader::{ReportError, ReportReader};
use super::report_row::{ReportRow, Status};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Totals of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportTotals {
    /// Objects with a result.
    pub done: u64,
    /// Objects without a result.
    pub failed: u64,
    /// Failed objects by code.
    pub failures: BTreeMap<String, u64>,
}

/// Path of a report's CSV: the same name with the extension `.csv`.
#[must_use]
pub fn csv_path(report: &Path) -> PathBuf {
    report.with_extension("csv")
}

/// Writes the latest row of each object of all `inputs` to `jsonl` and `csv`. Both files are renamed into place when complete.
/// `jsonl` may be one of the inputs; any other existing file is replaced only if it is a report.
///
/// # Errors
/// When a file cannot be read or written, or is not a report.
pub fn merge_reports(inputs: &[PathBuf], jsonl: &Path, csv: &Path) -> Result<ReportTotals, ReportError> {
    let mut kept = newest_rows(inputs)?.into_iter().peekable();
    // A file of that name may be no report; a run that continues a report checks this too.
    if jsonl.exists() && !inputs.iter().any(|input| input == jsonl) {
        newest_rows(&[jsonl.to_owned()])?;
    }
    let mut totals = ReportTotals::default();
    let jsonl_file = PartialFile::create(jsonl)?;
    let csv_file = PartialFile::create(csv)?;
    let mut writer = csv::Writer::from_writer(BufWriter::new(&csv_file.file));
    let mut text = BufWriter::new(&jsonl_file.file);
    let csv_error = |error: csv::Error| ReportError::io(csv)(error.into());
    writer.write_record(ReportRow::COLUMNS).map_err(csv_error)?;
    let mut order = 0_u64;
    for input in inputs {
        let mut rows = ReportReader::open(input)?;
        while let Some(row) = rows.next()? {
            if kept.next_if_eq(&order).is_some() {
                totals.add(&row);
                let line = serde_json::to_string(&row).expect("a row is plain data");
                writeln!(text, "{line}").map_err(ReportError::io(jsonl))?;
                writer.write_record(row.cells()).map_err(csv_error)?;
            }
            order += 1;
        }
    }
    text.flush().map_err(ReportError::io(jsonl))?;
    writer.flush().map_err(ReportError::io(csv))?;
    drop((text, writer));
    csv_file.persist()?;
    jsonl_file.persist()?;
    Ok(totals)
}

/// Indices of the newest row of each object, counted through all files, ascending.
fn newest_rows(inputs: &[PathBuf]) -> Result<Vec<u64>, ReportError> {
    let mut rows: Vec<(Hash, i64, u64)> = Vec::new();
    for input in inputs {
        let mut reader = ReportReader::open(input)?;
        while let Some(row) = reader.next()? {
            // Of rows with equal times the later one in the file is newer.
            let at = row.finished_at.parse().map_or(i64::MIN, jiff::Timestamp::as_millisecond);
            rows.push((row.source_hash(), at, rows.len() as u64));
        }
    }
    rows.sort_unstable();
    let mut newest: Vec<u64> =
        rows.chunk_by(|a, b| a.0 == b.0).filter_map(|same| same.last().map(|&(.., order)| order)).collect();
    newest.sort_unstable();
    Ok(newest)
}

impl ReportTotals {
    fn add(&mut self, row: &ReportRow) {
        match row.status {
            Status::Done => self.done += 1,
            Status::Failed => {
                self.failed += 1;
                *self.failures.entry(row.code.clone().unwrap_or_default()).or_default() += 1;
            }
        }
    }
}

/// A file with a temporary name until it is complete.
struct PartialFile {
    file: File,
    partial: PathBuf,
    name: PathBuf,
}

impl PartialFile {
    fn create(name: &Path) -> Result<Self, ReportError> {
        let mut partial = name.as_os_str().to_owned();
        partial.push(".part");
        let partial = PathBuf::from(partial);
        let file = File::create(&partial).map_err(ReportError::io(&partial))?;
        Ok(Self { file, partial, name: name.to_owned() })
    }

    fn persist(&self) -> Result<(), ReportError> {
        let done = self.file.sync_data().and_then(|()| fs::rename(&self.partial, &self.name));
        done.map_err(ReportError::io(&self.name))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After the rename there is nothing to remove.
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
                let row = ReportRow { source: source.into(), status, code, finished_at, ..ReportRow::default() };
                serde_json::to_string(&row).unwrap() + "\n"
            })
            .collect();
        fs::write(path, lines).unwrap();
    }

    #[test]
    fn the_newest_row_of_all_files_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        write(&path("0"), &[("a", Status::Done, "05"), ("b", Status::Failed, "01")]);
        write(&path("1"), &[("c", Status::Failed, "03"), ("a", Status::Failed, "02"), ("b", Status::Done, "04")]);
        let totals = merge_reports(&[path("0"), path("1")], &path("all.jsonl"), &path("all.csv")).unwrap();
        assert_eq!((totals.done, totals.failed), (2, 1));
        assert_eq!(totals.failures, [("not_found".to_owned(), 1)].into());
        // Merging again changes nothing.
        let all = fs::read(path("all.jsonl")).unwrap();
        let again =
            merge_reports(&[path("all.jsonl"), path("1"), path("0")], &path("all.jsonl"), &path("all.csv")).unwrap();
        assert_eq!(again, totals);
        assert_eq!(fs::read(path("all.jsonl")).unwrap().len(), all.len());
        assert!(merge_reports(&[path("none")], &path("x"), &path("y")).is_err());
        assert!(!path("x").exists() && !path("x.part").exists());
    }

    #[test]
    fn only_a_report_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        write(&path("0"), &[("a", Status::Done, "05")]);
        write(&path("old"), &[("b", Status::Failed, "01")]);
        assert_eq!(merge_reports(&[path("0")], &path("old"), &path("old.csv")).unwrap().done, 1);
        fs::write(path("notes"), "one\ntwo\n").unwrap();
        let refused = merge_reports(&[path("0")], &path("notes"), &path("notes.csv"));
        assert!(matches!(refused, Err(ReportError::NotAReport { line: 1, .. })), "{refused:?}");
        assert_eq!(fs::read_to_string(path("notes")).unwrap(), "one\ntwo\n");
        assert!(!path("notes.csv").exists());
    }
}
