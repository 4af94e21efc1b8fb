//! A row of the report: what became of one object.

use super::{Failure, Hash, hash};
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};

/// What became of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Address of the source, nothing escaped.
    pub source: String,
    /// Address of its result.
    pub output: String,
    /// How it went.
    pub status: Status,
    /// One of the API's error codes, when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The source's ETag; of a file its size and time.
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
    /// How unsure the mask is, 0 to 1; nothing where no subject was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<f32>,
    /// Milliseconds of each stage. Nothing for an object that was found done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<Stages>,
    /// Hash of the endpoint, its parameters and the model.
    pub parameters: String,
    /// Name and version of the weights.
    pub model: String,
    /// When, as RFC 3339 in UTC with milliseconds.
    pub finished_at: String,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The result is stored.
    Done,
    /// There is none.
    #[default]
    Failed,
}

/// Milliseconds of each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stages {
    /// Getting the source.
    pub download: f64,
    /// Waiting inside the engine.
    pub queue: f64,
    /// Reading the picture.
    pub decode: f64,
    /// The network.
    pub segment: f64,
    /// Finding and restoring faces, and enlarging.
    pub retouch: f64,
    /// From mask to cutout.
    pub matte: f64,
    /// From cutout to finished picture.
    pub compose: f64,
    /// Writing the picture.
    pub encode: f64,
    /// Storing the result.
    pub upload: f64,
}

impl Row {
    /// What says that exactly this was done: source, its version, parameters, and where the result is.
    pub(super) fn mark(&self) -> Hash {
        hash(&[&self.source, &self.source_etag, &self.parameters, &self.output])
    }

    /// The same row with a failure.
    pub(super) fn failed(self, failure: Failure) -> Self {
        Self {
            status: Status::Failed,
            code: Some(failure.code.to_owned()),
            message: Some(failure.message),
            finished_at: now(),
            ..self
        }
    }

    /// The row for people.
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

    /// Names of the columns of [`Row::cells`].
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

    /// The row of a table; empty where there is nothing to say.
    pub(super) fn cells(&self) -> [String; 23] {
        fn cell<T: ToString>(value: &Option<T>) -> String {
            value.as_ref().map(T::to_string).unwrap_or_default()
        }
        let stage = |of: fn(&Stages) -> f64| cell(&self.milliseconds.as_ref().map(of));
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

/// What tells one content of an object from another: its ETag, or size and time where there is none.
#[must_use]
pub fn version(meta: &ObjectMeta) -> String {
    match &meta.e_tag {
        // Azure quotes it in an answer and not in a listing.
        Some(etag) => etag.trim_start_matches("W/").trim_matches('"').to_owned(),
        None => format!("{}-{}", meta.size, meta.last_modified.timestamp_micros()),
    }
}

/// Now, in the one form that sorts as text.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_back_and_leaves_out_what_it_does_not_know() {
        let row = Row { source: "s3://a/b \"ü\".jpg".into(), finished_at: now(), ..Row::default() };
        let failed = row.failed(Failure { code: "not_found", message: "gone".into() });
        let text = serde_json::to_string(&failed).unwrap();
        assert!(text.contains(r#""code":"not_found""#) && !text.contains("width"), "{text}");
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), failed);
        assert_eq!(failed.line(), "s3://a/b \"ü\".jpg  failed: gone (not_found)");
        assert_eq!(failed.finished_at.len(), "2026-01-01T00:00:00.000Z".len());
    }

    #[test]
    fn a_listing_and_an_answer_agree_on_the_version() {
        let meta = |etag: Option<&str>, size| ObjectMeta {
            location: object_store::path::Path::from("a"),
            last_modified: std::time::UNIX_EPOCH.into(),
            size,
            e_tag: etag.map(str::to_owned),
            version: None,
        };
        assert_eq!(version(&meta(Some("\"0x8D\""), 1)), version(&meta(Some("0x8D"), 1)));
        assert_eq!(version(&meta(Some("W/\"x\""), 1)), "x");
        assert_ne!(version(&meta(None, 1)), version(&meta(None, 2)));
    }
}
