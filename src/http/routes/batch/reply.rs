//! The reply to a batch, piece by piece: one JSON document, or a ZIP archive of the pictures and that document.
//!
//! Rows are written in order as they come. In JSON a picture turns into base64 only piece by piece on its way out; in an
//! archive its pieces are slices of its file, and the document, without the pictures, is the last file.

use super::archive::StoredZip;
use super::file_names::{self, FileNames};
use super::{Label, Row};
use crate::account::price::in_dollars;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::response::rounded_uncertainty;
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

/// The file of the archive that has the rows.
const RESULTS: &str = "results.json";

/// What is known before the first row.
#[derive(Serialize)]
pub(super) struct Head {
    pub(super) count: usize,
    pub(super) format: &'static str,
    /// Where no picture could be fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Reason>,
}

/// What is known after the last.
#[derive(Serialize)]
struct Tail<'a> {
    succeeded: usize,
    failed: usize,
    request_id: &'a str,
}

/// A row up to its picture.
#[derive(Serialize)]
struct Done<'a> {
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

#[derive(Serialize)]
struct Failed<'a> {
    index: usize,
    #[serde(flatten)]
    label: &'a Label,
    success: bool,
    status: u16,
    /// Dollars: what failed is not billed.
    cost: f64,
    error: Reason,
}

/// An error as rows have it.
#[derive(Serialize)]
pub(super) struct Reason {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl Reason {
    fn of(error: &ApiError) -> Self {
        Self { code: error.code.name(), message: error.message().to_owned(), reason: error.given_reason() }
    }

    /// The error of a batch of which no picture could be fetched, from those of its rows.
    pub(super) fn of_all(rows: &[Row]) -> Self {
        let mut reasons = rows.iter().map(|row| row.outcome.as_ref().err().and_then(ApiError::given_reason));
        let first = reasons.next().flatten();
        let shared = first.filter(|_| reasons.all(|reason| reason == first));
        let message = "no picture of the batch could be fetched".to_owned();
        Self { code: ErrorCode::FetchFailed.name(), message, reason: shared }
    }
}

/// The caller went away, or does not read.
pub(super) struct Gone;

/// Writes one reply.
pub(super) struct Writer {
    pieces: mpsc::Sender<Bytes>,
    /// None where the reply is the document alone.
    archive: Option<Archive>,
    /// What each picture costs once it is made, in microdollars.
    costs: Vec<u64>,
}

/// An archive under way.
#[derive(Default)]
struct Archive {
    zip: StoredZip,
    names: FileNames,
    /// The document so far: a row has a kilobyte or so.
    document: Vec<u8>,
}

impl Writer {
    /// A writer of the document alone.
    pub(super) const fn json(pieces: mpsc::Sender<Bytes>, costs: Vec<u64>) -> Self {
        Self { pieces, archive: None, costs }
    }

    /// A writer of an archive.
    pub(super) fn zip(pieces: mpsc::Sender<Bytes>, costs: Vec<u64>) -> Self {
        Self { pieces, archive: Some(Archive::default()), costs }
    }

    /// Writes all of it. An error means that nobody reads it any more.
    pub(super) async fn write(
        mut self,
        head: Head,
        rows: impl Stream<Item = Row> + Send,
        request_id: &str,
    ) -> Result<(), Gone> {
        let mut rows = pin!(rows);
        self.document(format!("{},\"results\":[", open(&head))).await?;
        let (mut succeeded, mut failed) = (0, 0);
        loop {
            let row = tokio::select! {
                row = rows.next() => row,
                () = self.pieces.closed() => return Err(Gone),
            };
            let Some(Row { index, label, outcome }) = row else { break };
            if index > 0 {
                self.document(",").await?;
            }
            match outcome {
                Ok((output, _)) => {
                    succeeded += 1;
                    self.picture(index, &label, output).await?;
                }
                Err(error) => {
                    failed += 1;
                    let status = error.code.status().as_u16();
                    let error_of_row = Reason::of(&error);
                    let row = Failed { index, label: &label, success: false, status, cost: 0.0, error: error_of_row };
                    self.document(open(&row) + "}").await?;
                    error.log();
                }
            }
        }
        let tail = open(&Tail { succeeded, failed, request_id });
        self.document(format!("],{}}}", &tail[1..])).await?;
        self.finish().await
    }

    async fn picture(&mut self, index: usize, label: &Label, output: Output) -> Result<(), Gone> {
        let Output { image, subject, uncertainty, .. } = output;
        let format = image.format.name();
        let file = self.archive.as_mut().map(|archive| archive.names.name(index, label.called().as_deref(), format));
        let row = Done {
            index,
            label,
            success: true,
            status: 200,
            file: file.as_deref(),
            format,
            width: image.size.width,
            height: image.size.height,
            size_bytes: image.bytes.len(),
            cost: in_dollars(self.costs.get(index).copied().unwrap_or_default()),
            uncertainty: uncertainty.map(rounded_uncertainty),
            foreground: subject.map(|subject| subject.to_string()),
            subject: subject.map(SubjectBox::from),
        };
        let row = open(&row);
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
    async fn document(&mut self, text: impl Into<String> + Send) -> Result<(), Gone> {
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
    async fn entry(&mut self, name: &str, mut bytes: Bytes) -> Result<(), Gone> {
        let Some(archive) = &mut self.archive else { return Ok(()) };
        let content = bytes.clone();
        // A large picture takes too long for a thread that others wait for.
        let Ok(crc) = spawn_blocking(move || crc32fast::hash(&content)).await else { return Err(Gone) };
        // Cut off, as for a caller that left: its directory could not be written.
        let header = archive.zip.entry(name, bytes.len(), crc).ok_or(Gone)?;
        self.send(header).await?;
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            self.send(piece).await?;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<(), Gone> {
        let Some(archive) = &mut self.archive else { return Ok(()) };
        let document = std::mem::take(&mut archive.document);
        self.entry(RESULTS, document.into()).await?;
        let end = self.archive.take().map(|archive| archive.zip.finish());
        self.send(end.unwrap_or_default()).await
    }

    async fn send(&self, piece: impl Into<Bytes> + Send) -> Result<(), Gone> {
        self.pieces.send(piece.into()).await.map_err(|_| Gone)
    }
}

impl Label {
    /// The name that the caller has for the picture, where there is one.
    fn called(&self) -> Option<String> {
        match self {
            Self::Filename(name) => name.clone(),
            Self::Url(url) => file_names::last_part(url),
        }
    }
}

/// An object as JSON, without its last brace, so that it can go on.
fn open(object: &impl Serialize) -> String {
    let mut json = serde_json::to_string(object).expect("plain data");
    json.pop();
    json
}
