//! Fuzz target of a bulk run's report: any file is read to its end or refused, and what was read stays readable.

use super::report_reader::ReportReader;
use super::report_row::ReportRow;
use std::path::Path;

/// Reads a report. The bytes up to the last row are the whole report of the same rows, each of which survives being written.
///
/// # Panics
/// When that is not so.
pub fn report(bytes: &[u8]) {
    let (rows, valid_bytes, _) = read(bytes);
    let valid = usize::try_from(valid_bytes).ok().and_then(|end| bytes.get(..end)).expect("within the file");
    let (again, _, is_report) = read(valid);
    assert!(is_report, "the rows that were read are refused");
    assert_eq!(again.len(), rows.len());
    for row in rows {
        // serde_json reads fractions to the last bit but one.
        let row = ReportRow { milliseconds: None, uncertainty: None, ..row };
        let text = serde_json::to_vec(&row).expect("a row is plain data");
        let read: ReportRow = serde_json::from_slice(&text).expect("a written row is read");
        assert_eq!(serde_json::to_vec(&read).expect("a row is plain data"), text);
        let _ = (read.fingerprint(), read.cells());
    }
}

/// The rows up to the end or the first line that is refused, the bytes of them, and whether the end was reached.
fn read(bytes: &[u8]) -> (Vec<ReportRow>, u64, bool) {
    let mut reader = ReportReader::new(Path::new("report"), bytes);
    let mut rows = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(row)) => rows.push(row),
            Ok(None) => return (rows, reader.valid_bytes(), true),
            Err(_) => return (rows, reader.valid_bytes(), false),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_pass() {
        crate::fuzzing::replay("report", super::report);
    }
}
