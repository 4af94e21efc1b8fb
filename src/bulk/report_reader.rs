//! Reads the rows of a report, one JSON line at a time, and tolerates a last line that a crash truncated.

use super::report_row::ReportRow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest row in bytes: two keys of 1024 bytes, a message, and some numbers.
const MAX_LINE_BYTES: u64 = 1 << 16;

/// The beginning of every row.
const ROW_START: &[u8] = b"{\"source\":";

/// Why a report cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
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
    /// The file is not a report.
    #[error("{} is not a report of a bulk run (line {line})", path.display())]
    NotAReport {
        /// The file.
        path: PathBuf,
        /// The first line that is not a row, from 1.
        line: u64,
    },
}

impl ReportError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }
}

/// Iterates over the rows of a report.
pub(super) struct ReportReader<R = File> {
    path: PathBuf,
    reader: BufReader<R>,
    line: u64,
    valid_bytes: u64,
}

impl ReportReader {
    pub(super) fn open(path: &Path) -> Result<Self, ReportError> {
        Ok(Self::new(path, File::open(path).map_err(ReportError::io(path))?))
    }
}

impl<R: Read> ReportReader<R> {
    /// A reader of the bytes of the file at `path`.
    pub(super) fn new(path: &Path, bytes: R) -> Self {
        Self { path: path.to_owned(), reader: BufReader::new(bytes), line: 0, valid_bytes: 0 }
    }

    /// The next row; `None` at the end and at a truncated last line.
    pub(super) fn next(&mut self) -> Result<Option<ReportRow>, ReportError> {
        let mut line = Vec::new();
        self.line += 1;
        let read = self.reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        read.map_err(ReportError::io(&self.path))?;
        let row = line.strip_suffix(b"\n").and_then(|line| serde_json::from_slice(line).ok());
        if row.is_some() {
            self.valid_bytes += line.len() as u64;
            return Ok(row);
        }
        let at_end = self.reader.fill_buf().map_err(ReportError::io(&self.path))?.is_empty();
        // A crash leaves the beginning of a row. The first line must match the start of a row, because the file may be no report.
        let starts_like_a_row = line.starts_with(ROW_START) || ROW_START.starts_with(&line);
        let is_truncated = at_end && !line.ends_with(b"\n") && (starts_like_a_row || self.line > 1);
        if line.is_empty() || is_truncated {
            Ok(None)
        } else {
            Err(ReportError::NotAReport { path: self.path.clone(), line: self.line })
        }
    }

    /// Bytes of the rows that were read.
    pub(super) const fn valid_bytes(&self) -> u64 {
        self.valid_bytes
    }
}
