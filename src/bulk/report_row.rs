//! A row of the report: the outcome of one object, as a JSON line, a CSV record and a line of text.

use super::failure::Failure;
use super::hash::{Hash, hash};
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest reason of a failure in bytes: readers of reports bound a row.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The outcome of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportRow {
    /// Address of the source, unescaped.
    pub source: String,
    /// Address of its result.
    pub output: String,
    /// Whether it has a result.
    pub status: Status,
    /// The API's error code of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The reason of a failure, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The source's ETag; for a file its size and modification time.
    pub source_etag: String,
    /// Bytes of the source.
    pub source_bytes: u64,
    /// Bytes of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Width of the result in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Height of the result in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Uncertainty of the mask, 0 to 1; `None` where no mask was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<f32>,
    /// Milliseconds of each stage; `None` for an object that was already done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<StageTimes>,
    /// Hash of the endpoint, its parameters and the model.
    pub parameters: String,
    /// Name and version of the weights.
    pub model: String,
    /// Completion time, as RFC 3339 in UTC with milliseconds.
    pub finished_at: String,
}

/// Whether an object has a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The result is stored.
    Done,
    /// There is no result.
    #[default]
    Failed,
}

/// Milliseconds of each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageTimes {
    /// Downloading the source.
    pub download: f64,
    /// Waiting inside the engine.
    pub queue: f64,
    /// Decoding the picture.
    pub decode: f64,
    /// Running the network.
    pub segment: f64,
    /// Detecting and restoring faces, and upscaling.
    pub retouch: f64,
    /// From mask to cutout.
    pub matte: f64,
    /// From cutout to finished picture.
    pub compose: f64,
    /// Encoding the picture.
    pub encode: f64,
    /// Uploading the result.
    pub upload: f64,
}

impl ReportRow {
    /// Hash of the source's address.
    pub(super) fn source_hash(&self) -> Hash {
        hash(&[&self.source])
    }

    /// Identifies a result: source, its version, parameters, and output address.
    pub(super) fn fingerprint(&self) -> Hash {
        hash(&[&self.source, &self.source_etag, &self.parameters, &self.output])
    }

    /// The same row with a failure. A long message, which may be a server's, is cut.
    pub(super) fn failed(self, failure: Failure) -> Self {
        let Failure { code, mut message } = failure;
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        Self { status: Status::Failed, code: Some(code.to_owned()), message: Some(message), finished_at: now(), ..self }
    }

    /// The row as a line of the report.
    pub(super) fn json_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a row is plain data");
        line.push(b'\n');
        line
    }

    /// The row as a line of text.
    #[must_use]
    pub fn line(&self) -> String {
        match self.status {
            Status::Done => format!(
                "{} → {}  {}×{}",
                self.source,
                self.output,
                self.width.unwrap_or_default(),
                self.height.unwrap_or_default()
            ),
            Status::Failed => format!(
                "{}  failed: {} ({})",
                self.source,
                self.message.as_deref().unwrap_or_default(),
                self.code.as_deref().unwrap_or_default()
            ),
        }
    }

    /// Names of the columns of [`ReportRow::cells`].
    pub(super) const COLUMNS: [&'static str; 23] = [
        "source",
        "output",
        "status",
        "code",
        "message",
        "source_etag",
        "source_bytes",
        "output_bytes",
        "width",
        "height",
        "uncertainty",
        "download_ms",
        "queue_ms",
        "decode_ms",
        "segment_ms",
        "retouch_ms",
        "matte_ms",
        "compose_ms",
        "encode_ms",
        "upload_ms",
        "parameters",
        "model",
        "finished_at",
    ];

    /// The CSV record; missing values are empty.
    pub(super) fn cells(&self) -> [String; 23] {
        fn cell<T: ToString>(value: &Option<T>) -> String {
            value.as_ref().map(T::to_string).unwrap_or_default()
        }
        let stage = |of: fn(&StageTimes) -> f64| cell(&self.milliseconds.as_ref().map(of));
        [
            self.source.clone(),
            self.output.clone(),
            match self.status {
                Status::Done => "done".to_owned(),
                Status::Failed => "failed".to_owned(),
            },
            cell(&self.code),
            cell(&self.message),
            self.source_etag.clone(),
            self.source_bytes.to_string(),
            cell(&self.output_bytes),
            cell(&self.width),
            cell(&self.height),
            cell(&self.uncertainty),
            stage(|stages| stages.download),
            stage(|stages| stages.queue),
            stage(|stages| stages.decode),
            stage(|stages| stages.segment),
            stage(|stages| stages.retouch),
            stage(|stages| stages.matte),
            stage(|stages| stages.compose),
            stage(|stages| stages.encode),
            stage(|stages| stages.upload),
            self.parameters.clone(),
            self.model.clone(),
            self.finished_at.clone(),
        ]
    }
}

/// Version of an object's content: its ETag, else its size and modification time.
#[must_use]
pub fn object_version(meta: &ObjectMeta) -> String {
    match &meta.e_tag {
        // Azure quotes it in a response and not in a listing.
        Some(etag) => etag.trim_start_matches("W/").trim_matches('"').to_owned(),
        None => format!("{}-{}", meta.size, meta.last_modified.timestamp_micros()),
    }
}

/// Milliseconds, rounded to one decimal.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

/// The current time, in a form that sorts as text.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_round_trips_and_omits_missing_values() {
        let row = ReportRow { source: "s3://a/b \"ü\".jpg".into(), finished_at: now(), ..ReportRow::default() };
        let failed = row.failed(Failure { code: "not_found", message: "gone".into() });
        let text = serde_json::to_string(&failed).unwrap();
        assert!(text.contains(r#""code":"not_found""#) && !text.contains("width"), "{text}");
        assert_eq!(serde_json::from_str::<ReportRow>(&text).unwrap(), failed);
        assert_eq!(failed.line(), "s3://a/b \"ü\".jpg  failed: gone (not_found)");
        assert_eq!(failed.finished_at.len(), "2026-01-01T00:00:00.000Z".len());
    }

    #[test]
    fn a_listing_and_a_response_give_the_same_version() {
        let meta = |etag: Option<&str>, size| ObjectMeta {
            location: object_store::path::Path::from("a"),
            last_modified: std::time::UNIX_EPOCH.into(),
            size,
            e_tag: etag.map(str::to_owned),
            version: None,
        };
        assert_eq!(object_version(&meta(Some("\"0x8D\""), 1)), object_version(&meta(Some("0x8D"), 1)));
        assert_eq!(object_version(&meta(Some("W/\"x\""), 1)), "x");
        assert_ne!(object_version(&meta(None, 1)), object_version(&meta(None, 2)));
    }
}
