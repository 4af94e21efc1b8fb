//! The report of `remove`: the outcome of each input, as JSON and as text.

use super::inputs::Task;
use crate::pipeline::Output;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The outcome of one input.
#[derive(Clone, Debug, Default, Serialize)]
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
    /// Warnings about the result, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Paths of the input and its result, which may not be text; `None` if one of them is no file.
    #[serde(skip)]
    files: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    #[default]
    Done,
    Skipped,
    Failed,
}

impl Entry {
    /// The entry of a task with its result.
    fn finished(task: &Task, status: Status) -> Self {
        let files = task.source.file().zip(task.sink.file());
        Self {
            input: task.source.to_string(),
            status,
            output: Some(task.sink.to_string()),
            files: files.map(|(input, output)| (input.to_owned(), output.to_owned())),
            ..Self::default()
        }
    }

    pub(super) fn done(task: &Task, output: &Output, took: Duration) -> Self {
        let image = &output.image;
        Self {
            width: Some(image.size.width),
            height: Some(image.size.height),
            bytes: Some(image.bytes.len()),
            milliseconds: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            face: output.face.map(|face| face.to_string()),
            warnings: output.warnings.iter().map(ToString::to_string).collect(),
            ..Self::finished(task, Status::Done)
        }
    }

    pub(in crate::cli) fn skipped(task: &Task) -> Self {
        Self::finished(task, Status::Skipped)
    }

    /// An input that was found and is not processed, for this reason.
    pub(super) fn left_out(input: String, reason: String) -> Self {
        Self { input, status: Status::Skipped, error: Some(reason), ..Self::default() }
    }

    pub(in crate::cli) fn failed(input: String, reason: String) -> Self {
        Self { input, status: Status::Failed, error: Some(reason), ..Self::default() }
    }

    pub(in crate::cli) fn is_failure(&self) -> bool {
        self.status == Status::Failed
    }

    pub(in crate::cli) fn is_skipped(&self) -> bool {
        self.status == Status::Skipped
    }

    /// Why it failed or is left out.
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

    /// Paths of the inputs and results of which both are files.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let files = self.results.iter().filter_map(|entry| entry.files.as_ref());
        files.map(|(input, output)| (input.as_path(), output.as_path()))
    }

    /// The summary as text.
    pub(super) fn summary(&self) -> String {
        let mut summary = format!("{} done in {:.1} s", self.done, self.seconds);
        if self.done > 0 {
            summary += &format!(" ({:.1} images/s)", self.done as f64 / self.seconds.max(1e-9));
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
    use crate::image::{EncodedImage, OutputFormat, Size};
    use crate::pipeline::{Timings, Warning};

    fn task(input: &str, output: &str) -> Task {
        Task { source: Source::parse(Path::new(input)), sink: Sink::File(output.into()) }
    }

    fn done(task: &Task, warnings: Vec<Warning>) -> Entry {
        let (format, size) = (OutputFormat::Png, Size::new(3, 2));
        let output = Output {
            image: EncodedImage { format, size, bytes: vec![0; 99].into() },
            subject: None,
            uncertainty: None,
            edge: None,
            face: None,
            model: String::new(),
            understood: None,
            warnings,
            timings: Timings::default(),
        };
        Entry::done(task, &output, Duration::from_millis(12))
    }

    #[test]
    fn the_report_counts_each_kind_and_lists_by_name() {
        let mut report = Report::default();
        report.add(Entry::failed("b".into(), "it is empty".into()));
        report.add(done(&task("a", "a.png"), Vec::new()));
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
        let (warned, text) = (done(&task("d", "d.png"), vec![Warning::NoFace]), Warning::NoFace.to_string());
        assert_eq!(warned.line(), format!("d → d.png  3×2  12 ms\n  warning: {text}"));
        assert_eq!(serde_json::to_value(&warned).unwrap()["warnings"], serde_json::json!([text]));
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
