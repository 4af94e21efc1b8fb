//! The report of `remove`: the outcome of each input, as JSON and as text.

use crate::image::Size;
use crate::pipeline::{FaceFound, Warning};
use serde::Serialize;
use std::time::Duration;

/// The outcome of one input.
#[derive(Clone, Debug, Serialize)]
pub(in crate::cli) struct Entry {
    input: String,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<u64>,
    /// The face box in the result, or `none`; only when faces were detected.
    #[serde(skip_serializing_if = "Option::is_none")]
    face: Option<String>,
    /// What may not be expected of the result, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Done,
    Skipped,
    Failed,
}

impl Entry {
    const fn new(input: String, status: Status) -> Self {
        let (output, face, error) = (None, None, None);
        let (width, height, bytes, milliseconds) = (None, None, None, None);
        Self { input, status, output, width, height, bytes, milliseconds, face, warnings: Vec::new(), error }
    }

    pub(super) fn done(input: String, output: String, size: Size, bytes: usize, took: Duration) -> Self {
        Self {
            output: Some(output),
            width: Some(size.width),
            height: Some(size.height),
            bytes: Some(bytes),
            milliseconds: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            ..Self::new(input, Status::Done)
        }
    }

    /// With the result of face detection.
    pub(super) fn with_face(self, face: Option<FaceFound>) -> Self {
        Self { face: face.map(|face| face.to_string()), ..self }
    }

    /// With the warnings about the result.
    pub(super) fn with_warnings(self, warnings: &[Warning]) -> Self {
        Self { warnings: warnings.iter().map(ToString::to_string).collect(), ..self }
    }

    pub(in crate::cli) fn skipped(input: String, output: String) -> Self {
        Self { output: Some(output), ..Self::new(input, Status::Skipped) }
    }

    pub(in crate::cli) fn failed(input: String, reason: String) -> Self {
        Self { error: Some(reason), ..Self::new(input, Status::Failed) }
    }

    pub(in crate::cli) fn is_failure(&self) -> bool {
        self.status == Status::Failed
    }

    pub(in crate::cli) fn is_skipped(&self) -> bool {
        self.status == Status::Skipped
    }

    /// Why it failed.
    pub(in crate::cli) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The entry as a line of text, and a line for each warning.
    pub(in crate::cli) fn line(&self) -> String {
        let output = self.output.as_deref().unwrap_or_default();
        match self.status {
            Status::Done => format!(
                "{} → {output}  {}×{}  {} ms{}",
                self.input,
                self.width.unwrap_or_default(),
                self.height.unwrap_or_default(),
                self.milliseconds.unwrap_or_default(),
                self.warnings.iter().map(|warning| format!("\n  warning: {warning}")).collect::<String>()
            ),
            Status::Skipped => format!("{} → {output}  already done", self.input),
            Status::Failed => format!("{}  failed: {}", self.input, self.error.as_deref().unwrap_or_default()),
        }
    }
}

/// The outcomes of all inputs.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    inputs: usize,
    done: usize,
    skipped: usize,
    /// Number of failures.
    pub(super) failed: usize,
    seconds: f64,
    results: Vec<Entry>,
}

impl Report {
    pub(super) fn add(&mut self, entry: Entry) {
        self.inputs += 1;
        *match entry.status {
            Status::Done => &mut self.done,
            Status::Skipped => &mut self.skipped,
            Status::Failed => &mut self.failed,
        } += 1;
        self.results.push(entry);
    }

    /// Sets the duration and sorts the results, which finish in any order, by name.
    pub(super) fn finish(&mut self, took: Duration) {
        self.seconds = took.as_secs_f64();
        self.results.sort_by(|a, b| a.input.cmp(&b.input));
    }

    /// Input and output files of finished inputs.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.results.iter().filter_map(|entry| Some((entry.input.as_str(), entry.output.as_deref()?)))
    }

    /// The summary as text.
    pub(super) fn summary(&self) -> String {
        let rate = self.done as f64 / self.seconds.max(1e-9);
        let mut summary = format!("{} done in {:.1} s", self.done, self.seconds);
        if self.done > 0 {
            summary += &format!(" ({rate:.1} images/s)");
        }
        for (count, what) in [(self.skipped, "already done"), (self.failed, "failed")] {
            if count > 0 {
                summary += &format!(", {count} {what}");
            }
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_counts_each_kind_and_lists_by_name() {
        let mut report = Report::default();
        report.add(Entry::failed("b".into(), "it is empty".into()));
        report.add(Entry::done("a".into(), "a.png".into(), Size::new(3, 2), 99, Duration::from_millis(12)));
        report.add(Entry::skipped("c".into(), "c.png".into()));
        report.finish(Duration::from_secs(2));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            (&json["inputs"], &json["done"], &json["skipped"], &json["failed"]),
            (&3.into(), &1.into(), &1.into(), &1.into())
        );
        assert_eq!(
            json["results"][0],
            serde_json::json!({"input": "a", "status": "done", "output": "a.png",
            "width": 3, "height": 2, "bytes": 99, "milliseconds": 12})
        );
        assert_eq!(json["results"][1], serde_json::json!({"input": "b", "status": "failed", "error": "it is empty"}));
        assert_eq!(report.summary(), "1 done in 2.0 s (0.5 images/s), 1 already done, 1 failed");
        let warned = Entry::done("d".into(), "d.png".into(), Size::new(3, 2), 99, Duration::from_millis(12));
        let warned = warned.with_warnings(&[Warning::NoFace]);
        assert_eq!(warned.line(), format!("d → d.png  3×2  12 ms\n  warning: {}", Warning::NoFace));
        assert_eq!(
            serde_json::to_value(&warned).unwrap()["warnings"],
            serde_json::json!([Warning::NoFace.to_string()])
        );
        assert_eq!(report.pairs().collect::<Vec<_>>(), [("a", "a.png"), ("c", "c.png")]);
    }
}
