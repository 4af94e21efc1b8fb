//! Streams the reply to a batch: one JSON document, or a ZIP archive of the pictures and that document.
//!
//! Rows are written in order as they finish. In JSON a picture is encoded as base64 piece by piece; in an archive its pieces
//! are slices of its file, and the document, without the pictures, is the last file.

use super::archive::StoredZip;
use super::file_names::FileNames;
use super::row::{Label, Row};
use crate::account::price::in_dollars;
use crate::http::reply::picture_reply::rounded_uncertainty;
use crate::http::reply::{ApiError, ErrorCode};
use crate::image::Rect;
use crate::pipeline::Output;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde::Serialize;
use std::pin::pin;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

/// Bytes of a picture that are sent at once; a multiple of three, so that pieces of base64 join without padding.
const PIECE: usize = 48 * 1024;

/// The file of the archive that holds the rows.
const RESULTS: &str = "results.json";

/// The members before the rows.
#[derive(Serialize)]
pub(super) struct Head {
    pub(super) count: usize,
    pub(super) format: &'static str,
    /// Only if no picture could be fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<RowError>,
}

/// The members after the rows.
#[derive(Serialize)]
struct Tail<'a> {
    succeeded: usize,
    failed: usize,
    request_id: &'a str,
}

/// A successful row up to its picture.
#[derive(Serialize)]
struct SucceededRow<'a> {
    index: usize,
    #[serde(flatten)]
    label: &'a Label,
    success: bool,
    status: u16,
    /// The picture's name in the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    format: &'static str,
    width: u32,
    height: u32,
    size_bytes: usize,
    /// Dollars.
    cost: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncertainty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    foreground: Option<String>,
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    subject: Option<SubjectBox>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Bounds of the subject in the result, in pixels.
#[derive(Serialize)]
struct SubjectBox {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
}

impl From<Rect> for SubjectBox {
    fn from(Rect { left, top, width, height }: Rect) -> Self {
        Self { left, top, width, height }
    }
}

/// A failed row.
#[derive(Serialize)]
struct FailedRow<'a> {
    index: usize,
    #[serde(flatten)]
    label: &'a Label,
    success: bool,
    status: u16,
    /// 0: a failed row is not billed.
    cost: f64,
    error: RowError,
}

/// The error of a row.
#[derive(Serialize)]
pub(super) struct RowError {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl RowError {
    fn of(error: &ApiError) -> Self {
        Self { code: error.code.name(), message: error.message.clone(), reason: error.reason }
    }

    /// The error of a batch of which no picture could be fetched, from the errors of its rows.
    pub(super) fn of_all<T>(rows: &[Row<T>]) -> Self {
        let mut reasons = rows.iter().map(|row| row.outcome.as_ref().err().and_then(|error| error.reason));
        let first = reasons.next().flatten();
        let shared = first.filter(|_| reasons.all(|reason| reason == first));
        let message = "no picture of the batch could be fetched".to_owned();
        Self { code: ErrorCode::FetchFailed.name(), message, reason: shared }
    }
}

/// The client disconnected or does not read.
pub(super) struct Disconnected;

/// Writes one reply.
pub(super) struct Writer {
    pieces: mpsc::Sender<Bytes>,
    /// `None` where the reply is the document alone.
    archive: Option<Archive>,
    succeeded: usize,
    failed: usize,
}

/// A partly written archive.
#[derive(Default)]
struct Archive {
    zip: StoredZip,
    names: FileNames,
    /// The document so far: a row has a kilobyte or so.
    document: Vec<u8>,
}

impl Writer {
    /// A writer of an archive, or of the document alone.
    pub(super) fn new(pieces: mpsc::Sender<Bytes>, is_archive: bool) -> Self {
        Self { pieces, archive: is_archive.then(Archive::default), succeeded: 0, failed: 0 }
    }

    /// Writes the reply up to the last row; an error where the client no longer reads it.
    pub(super) async fn rows(
        &mut self,
        head: Head,
        rows: impl Stream<Item = Row<u64>> + Send,
    ) -> Result<(), Disconnected> {
        let mut rows = pin!(rows);
        self.document(format!("{},\"results\":[", json_prefix(&head))).await?;
        loop {
            let row = tokio::select! {
                row = rows.next() => row,
                () = self.pieces.closed() => return Err(Disconnected),
            };
            let Some(Row { index, label, outcome }) = row else { return Ok(()) };
            if index > 0 {
                self.document(",").await?;
            }
            match outcome {
                Ok((output, cost)) => {
                    self.succeeded += 1;
                    self.picture(index, &label, output, cost).await?;
                }
                Err(error) => {
                    self.failed += 1;
                    let status = error.code.status().as_u16();
                    let error_of_row = RowError::of(&error);
                    let row =
                        FailedRow { index, label: &label, success: false, status, cost: 0.0, error: error_of_row };
                    self.document(json_prefix(&row) + "}").await?;
                    error.log();
                }
            }
        }
    }

    async fn picture(&mut self, index: usize, label: &Label, output: Output, cost: u64) -> Result<(), Disconnected> {
        let Output { image, subject, uncertainty, warnings, .. } = output;
        let format = image.format.name();
        let file = self.archive.as_mut().map(|archive| archive.names.name(index, label.name().as_deref(), format));
        let row = SucceededRow {
            index,
            label,
            success: true,
            status: 200,
            file: file.as_deref(),
            format,
            width: image.size.width,
            height: image.size.height,
            size_bytes: image.bytes.len(),
            cost: in_dollars(cost),
            uncertainty: uncertainty.map(rounded_uncertainty),
            foreground: subject.map(|subject| subject.to_string()),
            subject: subject.map(SubjectBox::from),
            warnings: warnings.iter().map(ToString::to_string).collect(),
        };
        let row = json_prefix(&row);
        if let Some(file) = file {
            self.entry(&file, image.bytes).await?;
            return self.document(row + "}").await;
        }
        self.document(row + ",\"data_base64\":\"").await?;
        for piece in image.bytes.chunks(PIECE) {
            self.send(STANDARD.encode(piece)).await?;
        }
        self.document("\"}").await
    }

    /// Writes a part of the document.
    async fn document(&mut self, text: impl Into<String> + Send) -> Result<(), Disconnected> {
        let text = text.into();
        match &mut self.archive {
            Some(archive) => {
                archive.document.extend_from_slice(text.as_bytes());
                Ok(())
            }
            None => self.send(text).await,
        }
    }

    /// Writes a file of the archive.
    async fn entry(&mut self, name: &str, mut bytes: Bytes) -> Result<(), Disconnected> {
        let Some(archive) = &mut self.archive else { return Ok(()) };
        let content = bytes.clone();
        // A large picture takes too long for an async thread.
        let Ok(crc) = spawn_blocking(move || crc32fast::hash(&content)).await else { return Err(Disconnected) };
        // Beyond the largest archive the reply is cut off, because its directory could not be written.
        let header = archive.zip.entry(name, bytes.len(), crc).ok_or(Disconnected)?;
        self.send(header).await?;
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            self.send(piece).await?;
        }
        Ok(())
    }

    /// Writes what is behind the last row.
    pub(super) async fn finish(mut self, request_id: &str) -> Result<(), Disconnected> {
        let tail = json_prefix(&Tail { succeeded: self.succeeded, failed: self.failed, request_id });
        self.document(format!("],{}}}", &tail[1..])).await?;
        let Some(archive) = &mut self.archive else { return Ok(()) };
        let document = std::mem::take(&mut archive.document);
        self.entry(RESULTS, document.into()).await?;
        let end = self.archive.take().map(|archive| archive.zip.finish());
        self.send(end.unwrap_or_default()).await
    }

    async fn send(&self, piece: impl Into<Bytes> + Send) -> Result<(), Disconnected> {
        self.pieces.send(piece.into()).await.map_err(|_| Disconnected)
    }
}

/// An object as JSON without its closing brace, so that members can follow.
fn json_prefix(object: &impl Serialize) -> String {
    let mut json = serde_json::to_string(object).expect("plain data");
    json.pop();
    json
}
