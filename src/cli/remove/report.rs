//! The report of `remove`: the outcome of each input, as JSON and as text.

use super::inputs::Task;
use crate::image::Size;
use crate::pipeline::{FaceFound, Warning};
use serde::Serialize;
use std::path::{Path, PathBuf};
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
    /// Input and result of a finished input, where both are files: their paths may not be text.
    #[serde(skip)]
    files: Option<(PathBuf, PathBuf)>,
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
        let (output, face, error, files) = (None, None, None, None);
        let (width, height, bytes, milliseconds) = (None, None, None, None);
        Self { input, status, output, width, height, bytes, milliseconds, face, warnings: Vec::new(), error, files }
    }

    /// With the result of a task.
    fn finished(task: &Task, status: Status) -> Self {
        let files = task.source.file().zip(task.sink.file());
        Self {
            output: Some(task.sink.to_string()),
            files: files.map(|(input, output)| (input.to_owned(), output.to_owned())),
            ..Self::new(task.source.to_string(), status)
        }
    }

    pub(super) fn done(task: &Task, size: Size, bytes: usize, took: Duration) -> Self {
        Self {
            width: Some(size.width),
            height: Some(size.height),
            bytes: Some(bytes),
            milliseconds: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            ..Self::finished(task, Status::Done)
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

    pub(in crate::cli) fn skipped(task: &Task) -> Self {
        Self::finished(task, Status::Skipped)
    }

    /// Found and not to be processed, for this reason.
    pub(super) fn left_out(input: String, reason: String) -> Self {
        Self { error: Some(reason), ..Self::new(input, Status::Skipped) }
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
            Status::Skipped => match &self.error {
                Some(reason) => format!("{}  left out: {reason}", self.input),
                None => format!("{} → {output}  already done", self.input),
            },
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

    /// Paths of input and result of finished inputs, where both are files.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let files = self.results.iter().filter_map(|entry| entry.files.as_ref());
        files.map(|(input, output)| (input.as_path(), output.as_path()))
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
    use crate::cli::remove::{Sink, Source};

    fn task(input: &str, output: &str) -> Task {
        Task { source: Source::parse(Path::new(input)), sink: Sink::File(output.into()) }
    }

    #[test]
    fn the_report_counts_each_kind_and_lists_by_name() {
        let mut report = Report::default();
        report.add(Entry::failed("b".into(), "it is empty".into()));
        report.add(Entry::done(&task("a", "a.png"), Size::new(3, 2), 99, Duration::from_millis(12)));
        report.add(Entry::skipped(&task("c", "c.png")));
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
        let warned = Entry::done(&task("d", "d.png"), Size::new(3, 2), 99, Duration::from_millis(12));
        let warned = warned.with_warnings(&[Warning::NoFace]);
        assert_eq!(warned.line(), format!("d → d.png  3×2  12 ms\n  warning: {}", Warning::NoFace));
        assert_eq!(
            serde_json::to_value(&warned).unwrap()["warnings"],
            serde_json::json!([Warning::NoFace.to_string()])
        );
    }

    #[test]
    fn pairs_are_files_by_their_own_paths() {
        let mut report = Report::default();
        let mut add = |task: &Task| report.add(Entry::skipped(task));
        add(&task("a", "a.png"));
        add(&task("-", "stdin.png"));
        add(&task("https://example.com/b.jpg", "b.png"));
        add(&Task { sink: Sink::Stdout, ..task("c", "") });
        #[cfg(unix)]
        let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"x\xff");
        #[cfg(not(unix))]
        let name = std::ffi::OsStr::new("x");
        add(&Task { source: Source::File(name.into()), ..task("", "x.png") });
        let expected = [(Path::new("a"), Path::new("a.png")), (Path::new(name), Path::new("x.png"))];
        assert_eq!(report.pairs().collect::<Vec<_>>(), expected);
    }
}
