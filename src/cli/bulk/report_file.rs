//! The report's place, its sum, and `backdrop bulk report`.

use crate::bulk::{Merged, Places, Shard, Summary, csv_beside, merge};
use crate::cli::exit::{Failure, Outcome};
use crate::cli::{print, runtime};
use crate::source::Objects;
use bytes::Bytes;
use clap::Args;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{Attribute, Attributes, Error as StoreError, ObjectStore, ObjectStoreExt, WriteMultipart};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes of a report that are sent at once; as much as a part of an upload has at least.
const CHUNK: usize = 8 << 20;

/// Where the report of a run is.
pub(super) enum ReportFile {
    /// A file.
    File(PathBuf),
    /// An object. It is a file while the run lasts.
    Object { place: Objects, key: Key, folder: TempDir },
}

impl ReportFile {
    /// `said` is what was asked for. Machines that share a run get a report each.
    pub(super) fn new(said: Option<&str>, places: &Places, shard: Option<Shard>) -> Result<Self, Failure> {
        let name = match said {
            Some(name) => name.to_owned(),
            None => {
                let hash = Sha256::digest(format!("{}\n{}", places.from.place(), places.to.place()));
                let hash: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
                format!("backdrop-bulk-{hash}.jsonl")
            }
        };
        let name = match shard {
            None => name,
            Some(shard) => match name.rsplit_once('.').filter(|(_, extension)| !extension.contains('/')) {
                Some((stem, extension)) => format!("{stem}.{}.{extension}", shard.name()),
                None => format!("{name}.{}", shard.name()),
            },
        };
        if name.ends_with(".csv") || name.ends_with('/') {
            return Err(
                format!("{name}: the report is JSON Lines, such as report.jsonl; a .csv comes beside it").into()
            );
        }
        Self::at(&name)
    }

    /// A report by its path or address.
    fn at(name: &str) -> Result<Self, Failure> {
        if !name.contains("://") {
            return Ok(Self::File(name.into()));
        }
        let place = Objects::open(name.rsplit_once('/').map_or(name, |(folder, _)| folder), true)?;
        let last = name.rsplit('/').next().unwrap_or_default();
        let key = Key::parse(format!("{}/{}", place.prefix, Key::from_url_path(last)?))?;
        Ok(Self::Object { place, key, folder: tempfile::tempdir()? })
    }

    /// The file to write, with what an earlier run left.
    pub(super) async fn open(&self) -> Result<PathBuf, Failure> {
        if let Self::File(path) = self
            && let Some(folder) = path.parent()
        {
            tokio::fs::create_dir_all(folder).await?;
        }
        self.there().await
    }

    /// The file that an earlier run left, where one did; nothing is made for it.
    pub(super) async fn there(&self) -> Result<PathBuf, Failure> {
        let path = self.path();
        let Self::Object { place, key, .. } = self else { return Ok(path) };
        match place.store.get(key).await {
            Ok(got) => {
                let mut file = tokio::fs::File::create(&path).await?;
                let mut body = got.into_stream();
                while let Some(chunk) = body.try_next().await? {
                    file.write_all(&chunk).await?;
                }
                file.flush().await?;
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(path)
    }

    /// Where it is as a file.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Object { folder, .. } => folder.path().join("report.jsonl"),
        }
    }

    /// Stores a report that is an object, and its table.
    pub(super) async fn close(&self) -> Result<(), Failure> {
        let Self::Object { place, key, .. } = self else { return Ok(()) };
        let path = self.path();
        send(place, key, &path, "application/x-ndjson").await?;
        let table = csv_beside(Path::new(key.as_ref()));
        send(place, &Key::parse(table.to_string_lossy())?, &csv_beside(&path), "text/csv").await
    }
}

/// Sends a file, a large one in parts, so that it is never in memory as a whole.
async fn send(place: &Objects, key: &Key, path: &Path, media_type: &'static str) -> Result<(), Failure> {
    let attributes = Attributes::from_iter([(Attribute::ContentType, media_type)]);
    if tokio::fs::metadata(path).await?.len() <= CHUNK as u64 {
        let bytes = Bytes::from(tokio::fs::read(path).await?);
        place.store.put_opts(key, bytes.into(), attributes.into()).await?;
        return Ok(());
    }
    let mut file = tokio::fs::File::open(path).await?;
    let upload = place.store.put_multipart_opts(key, attributes.into()).await?;
    let mut upload = WriteMultipart::new_with_chunk_size(upload, CHUNK);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).await? {
            0 => break,
            read => {
                upload.wait_for_capacity(2).await?;
                upload.put(Bytes::copy_from_slice(&buffer[..read]));
            }
        }
    }
    upload.finish().await?;
    Ok(())
}

impl fmt::Display for ReportFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Object { place, key, .. } => f.write_str(&place.address(key.as_ref())),
        }
    }
}

/// The sum of a run for people.
pub(super) fn told(summary: &Summary) -> String {
    let seconds = summary.took.as_secs_f64();
    let mut told = format!("{} done in {seconds:.1} s", summary.done);
    if summary.done > 0 {
        let bytes = (summary.bytes_in + summary.bytes_out) as f64;
        told += &format!(" ({:.1} images/s, {:.1} MB/s)", summary.done as f64 / seconds, bytes / 1e6 / seconds);
    }
    for (count, what) in [(summary.skipped, "already done"), (summary.failed, "failed")] {
        if count > 0 {
            told += &format!(", {count} {what}");
        }
    }
    if !summary.failures.is_empty() {
        let kinds: Vec<_> = summary.failures.iter().map(|(code, count)| format!("{count} {code}")).collect();
        told += &format!(" ({})", kinds.join(", "));
    }
    told
}

/// The sum of a run for programs.
pub(super) fn summary(summary: &Summary, merged: &Merged, report: &ReportFile) -> Value {
    json!({
        "done": summary.done,
        "skipped": summary.skipped,
        "failed": summary.failed,
        "failures": summary.failures,
        "passed_over": summary.passed,
        "bytes_in": summary.bytes_in,
        "bytes_out": summary.bytes_out,
        "seconds": summary.took.as_secs_f64(),
        "stopped": summary.stopped,
        "report": { "path": report.to_string(), "done": merged.done, "failed": merged.failed },
    })
}

#[derive(Args, Debug)]
pub(super) struct Merge {
    /// Reports: files, objects, or folders of a store (ending in a slash) with reports in them
    #[arg(required = true, value_name = "FILE")]
    reports: Vec<String>,
    /// The report to write; a .csv comes beside it
    #[arg(short, long, value_name = "FILE", default_value = "backdrop-bulk.jsonl")]
    output: PathBuf,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

impl Merge {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let merged = runtime::block_on(async {
            let mut files = Vec::new();
            for name in &self.reports {
                files.extend(found(name).await?);
            }
            let mut paths = Vec::new();
            for file in &files {
                paths.push(file.there().await?);
            }
            let output = self.output.clone();
            let work = move || merge(&paths, &output, &csv_beside(&output));
            Ok::<_, Failure>(tokio::task::spawn_blocking(work).await??)
        })??;
        let Merged { done, failed, failures } = &merged;
        eprintln!("{}: {done} done, {failed} failed", self.output.display());
        if self.json {
            print::json(&json!({ "done": done, "failed": failed, "failures": failures, "report": self.output }))?;
        }
        Ok(Outcome::of(usize::try_from(*failed).unwrap_or(usize::MAX)))
    }
}

/// The reports that an argument names.
async fn found(name: &str) -> Result<Vec<ReportFile>, Failure> {
    if !name.contains("://") || !name.ends_with('/') {
        return Ok(vec![ReportFile::at(name)?]);
    }
    let place = Objects::open(name.trim_end_matches('/'), false)?;
    let listed: Vec<_> =
        place.store.list(Some(&place.prefix)).map(|listed| listed.map(|it| it.location)).try_collect().await?;
    let reports = listed.into_iter().filter(|key| key.as_ref().ends_with(".jsonl"));
    let found: Vec<_> = reports
        .map(|key| Ok(ReportFile::Object { place: place.clone(), key, folder: tempfile::tempdir()? }))
        .collect::<Result<_, Failure>>()?;
    if found.is_empty() { Err(format!("there is no report in {name}").into()) } else { Ok(found) }
}
