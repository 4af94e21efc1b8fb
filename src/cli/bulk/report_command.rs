//! `backdrop bulk report`: merges reports, such as those of a run's shards.

use super::report_file::{ReportFile, require_report_name};
use crate::bulk::{ReportTotals, csv_path, merge_reports};
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::{local_engine, stdout};
use crate::source::StorageLocation;
use clap::Args;
use futures_util::{StreamExt, TryStreamExt};
use object_store::ObjectStore;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(super) struct MergeCommand {
    /// Reports: files, objects, or storage folders (ending in a slash) that contain reports
    #[arg(required = true, value_name = "FILE")]
    reports: Vec<String>,
    /// The report to write; a .csv is written next to it
    #[arg(short, long, value_name = "FILE", default_value = "backdrop-bulk.jsonl")]
    output: PathBuf,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

impl MergeCommand {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        require_report_name(&self.output.to_string_lossy())?;
        let totals = local_engine::block_on(async {
            let mut files = Vec::new();
            for name in &self.reports {
                files.extend(find_reports(name).await?);
            }
            let mut paths = Vec::new();
            for file in &files {
                paths.push(file.download().await?);
            }
            let output = self.output.clone();
            let merge = move || merge_reports(&paths, &output, &csv_path(&output));
            Ok::<_, Failure>(tokio::task::spawn_blocking(merge).await??)
        })??;
        let ReportTotals { done, failed, failures } = &totals;
        print_stderr!("{}: {done} done, {failed} failed", self.output.display());
        if self.json {
            stdout::print_json(
                &json!({ "done": done, "failed": failed, "failures": failures, "report": self.output }),
            )?;
        }
        Ok(Outcome::of(*failed > 0))
    }
}

/// The reports of an argument.
async fn find_reports(name: &str) -> Result<Vec<ReportFile>, Failure> {
    if !name.contains("://") || !name.ends_with('/') {
        return Ok(vec![ReportFile::at(name)?]);
    }
    let location = StorageLocation::open(name.trim_end_matches('/'), false)?;
    let listed: Vec<_> = location
        .store
        .list(Some(&location.prefix))
        .map(|listed| listed.map(|meta| meta.location))
        .try_collect()
        .await?;
    let reports = listed.into_iter().filter(|key| key.as_ref().ends_with(".jsonl"));
    let found: Vec<_> = reports
        .map(|key| Ok(ReportFile::Object { location: location.clone(), key, folder: tempfile::tempdir()? }))
        .collect::<Result<_, Failure>>()?;
    if found.is_empty() { Err(format!("there is no report in {name}").into()) } else { Ok(found) }
}
