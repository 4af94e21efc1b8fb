//! Pictures and reports for the tests of `backdrop bulk`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backdrop::image::Size;
use backdrop::source::StorageLocation;
use serde_json::Value;

use crate::support::command::{backdrop, stderr};
use crate::support::pictures::png;

/// A small PNG that is a cutout already, so that the network is not run. Each `seed` has other colours.
pub(crate) fn picture(seed: u32) -> Vec<u8> {
    cutout(24, seed)
}

/// A PNG whose middle, a quarter of it, is opaque.
pub(crate) fn cutout(side: u32, seed: u32) -> Vec<u8> {
    let middle = side / 4..side * 3 / 4;
    let file = png(Size::new(side, side), |x, y| {
        let shade = |factor: u32| ((x * factor + y * 5 + seed * 7) % 256) as u8;
        let alpha = if middle.contains(&x) && middle.contains(&y) { 255 } else { 0 };
        [shade(3), shade(7), (seed % 256) as u8, alpha]
    });
    file.into()
}

/// Writes so many pictures into subfolders of `folder`.
pub(crate) fn fill(folder: &Path, pictures: u32) {
    for seed in 0..pictures {
        let below = folder.join(format!("set {}", seed % 3));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(format!("{seed:04}.png")), picture(seed)).unwrap();
    }
}

/// `file://` of a folder.
pub(crate) fn url(folder: &Path) -> String {
    url::Url::from_file_path(folder).unwrap().into()
}

/// `backdrop bulk` from one folder to another.
pub(crate) fn bulk(from: &Path, to: &Path, report: &Path, arguments: &[&str]) -> Output {
    bulk_command(from, to, report).args(arguments).output().expect("the binary runs")
}

fn bulk_command(from: &Path, to: &Path, report: &Path) -> Command {
    let mut command = backdrop();
    command.arg("bulk").args([url(from), url(to)]).arg("--report").arg(report);
    command
}

/// Folders with pictures in `in`, and runs from it to `out` with `report.jsonl`.
pub(crate) struct Folders {
    pub(crate) folder: tempfile::TempDir,
}

impl Folders {
    pub(crate) fn new(pictures: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        fill(&folder.path().join("in"), pictures);
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self) -> Command {
        bulk_command(&self.path("in"), &self.path("out"), &self.path("report.jsonl"))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().expect("the binary runs")
    }

    /// The rows of a report by their sources below `in`.
    pub(crate) fn rows(&self, report: &str) -> BTreeMap<String, Value> {
        rows_below(&self.path(report), &self.path("in"))
    }

    pub(crate) fn outputs(&self) -> Vec<String> {
        tree(&self.path("out")).into_keys().collect()
    }
}

/// The rows of a report by their sources below a folder.
pub(crate) fn rows_below(report: &Path, folder: &Path) -> BTreeMap<String, Value> {
    rows(report, &StorageLocation::open(&url(folder), false).unwrap().address_prefix())
}

/// Every file below a folder, hidden ones too, but for those of writes that a kill interrupted.
pub(crate) fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(folder: &Path, root: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, root, into);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                let is_staged = path.file_name().unwrap().to_str().unwrap().starts_with(".backdrop-");
                if !is_staged {
                    into.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    let mut files = BTreeMap::new();
    if folder.exists() {
        walk(folder, folder, &mut files);
    }
    files
}

/// The rows of a report by their source without `prefix`; each source has one row.
pub(crate) fn rows(report: &Path, prefix: &str) -> BTreeMap<String, Value> {
    let text = fs::read_to_string(report).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let source = row["source"].as_str().unwrap().to_owned();
        let name = source.strip_prefix(prefix).unwrap_or_else(|| panic!("{source} is not below {prefix}")).to_owned();
        assert!(rows.insert(name, row).is_none(), "{source} has two rows");
    }
    rows
}

/// The rows without the members that differ between runs.
pub(crate) fn without_times(mut rows: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for row in rows.values_mut() {
        let row = row.as_object_mut().unwrap();
        row.remove("finished_at");
        row.remove("milliseconds");
        row.remove("output");
    }
    rows
}

/// Checks the exit code.
pub(crate) fn assert_exit(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
}
