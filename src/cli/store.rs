//! `backdrop store`: checking the file of accounts and presets, and carrying its content elsewhere.
//!
//! These commands want the file for themselves: while a daemon has it they are refused.

use super::exit::{Failure, Outcome};
use super::print;
use super::settings::Places;
use crate::store::{self, IntegrityReport, OpenError, RedbStore, RowCounts};
use clap::{Args, Subcommand};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(super) struct Store {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    places: Places,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read every row and every index of the store, and say what is wrong
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write everything in the store as lines of JSON (keys as their SHA-256: nobody can use them)
    Export {
        /// The file to write, which must not be there [default: standard output]
        file: Option<PathBuf>,
    },
    /// Read an export into a store that is empty or not there: all of it, or nothing
    Import {
        /// The file to read [default: standard input]
        file: Option<PathBuf>,
    },
}

/// Why the store was not opened.
#[derive(Debug, thiserror::Error)]
enum CannotOpen {
    #[error("no store at {}: check the data directory", .0.display())]
    Missing(PathBuf),
    #[error("{0}; stop it first")]
    Locked(OpenError),
    #[error(transparent)]
    Other(OpenError),
}

impl Store {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let path = store::file_in(&self.places.load(&[])?.data_dir);
        match self.command {
            Command::Check { json } => check(&open_present(&path)?, &path, json),
            Command::Export { file } => export(&open_present(&path)?, file.as_deref()),
            Command::Import { file } => import(&path, file.as_deref()),
        }
    }
}

/// A mistyped directory must not become an empty store.
fn open_present(path: &Path) -> Result<RedbStore, CannotOpen> {
    if path.exists() { open(path) } else { Err(CannotOpen::Missing(path.into())) }
}

fn open(path: &Path) -> Result<RedbStore, CannotOpen> {
    RedbStore::open(path).map_err(|error| {
        if matches!(error, OpenError::Locked { .. }) { CannotOpen::Locked(error) } else { CannotOpen::Other(error) }
    })
}

fn check(store: &RedbStore, path: &Path, json: bool) -> Result<Outcome, Failure> {
    let report = store.check()?;
    let IntegrityReport { rows, findings, wrong } = &report;
    if json {
        print::json(
            &json!({ "file": path, "sound": report.is_sound(), "rows": rows, "wrong": wrong, "findings": findings }),
        )?;
    } else {
        for finding in findings {
            print::line(finding)?;
        }
        let verdict = if report.is_sound() { "sound".to_owned() } else { format!("{wrong} things are wrong") };
        print::line(&format!("{}: {verdict} ({})", path.display(), in_words(*rows)))?;
    }
    Ok(Outcome::of(*wrong))
}

fn export(store: &RedbStore, file: Option<&Path>) -> Result<Outcome, Failure> {
    let Some(file) = file else {
        store.export(BufWriter::new(io::stdout().lock()))?;
        return Ok(Outcome::Done);
    };
    // Readable by its owner only, as the store is, and not there until it is whole.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = |error: io::Error| Failure::from(format!("cannot write {}: {error}", file.display()));
    let fresh = tempfile::Builder::new().prefix(".export").tempfile_in(folder).map_err(cannot)?;
    let rows = store.export(BufWriter::new(fresh.as_file()))?;
    fresh.as_file().sync_all().map_err(cannot)?;
    fresh.persist_noclobber(file).map_err(|error| cannot(error.error))?;
    eprintln!("backdrop: exported {} to {}", in_words(rows), file.display());
    Ok(Outcome::Done)
}

fn import(path: &Path, file: Option<&Path>) -> Result<Outcome, Failure> {
    let rows = match file {
        Some(file) => {
            let input = File::open(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            open(path)?.import(BufReader::new(input))?
        }
        None => open(path)?.import(io::stdin().lock())?,
    };
    eprintln!("backdrop: imported {} into {}", in_words(rows), path.display());
    Ok(Outcome::Done)
}

fn in_words(RowCounts { accounts, keys, presets, usage, key_days, requests, jobs }: RowCounts) -> String {
    format!(
        "{accounts} accounts, {keys} keys, {presets} presets, {usage} months of use, {key_days} days of use by key, \
         {requests} billed requests and {jobs} jobs"
    )
}
