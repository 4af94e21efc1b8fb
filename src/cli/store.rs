//! `backdrop store`: checks, exports and imports the database of accounts, keys, presets and usage.
//!
//! These commands need exclusive access to the store: while a daemon runs they are refused, except for the export of a
//! PostgreSQL database.

use super::config_args::ConfigArgs;
use super::exit_code::{Failure, Outcome};
use super::{local_engine, stdout};
use crate::account::admin::StorePlace;
use crate::config::Config;
use crate::store::{self, ExportError, ImportError, IntegrityReport, OpenError, PostgresServer, RedbStore, RowCounts};
use clap::{Args, Subcommand};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// PostgreSQL has checksums and tools for this.
const NOT_CHECKED: &str = "store.url names a PostgreSQL database, which this command does not check; use pg_amcheck";

/// The location of the configured store.
pub(super) fn place(config: Config) -> Result<StorePlace, Failure> {
    let server = PostgresServer::configured(&config.store)?;
    Ok(StorePlace { data_dir: config.data_dir, server })
}

#[derive(Args, Debug)]
pub(super) struct Store {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read every row and index of the store and report what is inconsistent
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the store as JSON Lines (keys as their SHA-256, which cannot be used as keys)
    Export {
        /// The file to create [default: standard output]
        file: Option<PathBuf>,
        /// Only this account and what belongs to it; may be repeated
        #[arg(long = "account", value_name = "NAME")]
        accounts: Vec<String>,
    },
    /// Import an export into a missing or empty store, atomically
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
        let config = self.config.load(&[])?;
        let path = store::file_in(&config.data_dir);
        match (self.command, PostgresServer::configured(&config.store)?) {
            (Command::Check { .. }, Some(_)) => Err(NOT_CHECKED.into()),
            (Command::Check { json }, None) => check(&open_existing(&path)?, &path, json),
            (Command::Export { file, accounts }, server) => {
                let (accounts, file) = (accounts.into_iter().collect(), file.as_deref());
                if let Some(server) = server {
                    let from = |output: &mut dyn Write| {
                        local_engine::block_on(server.export(output, &accounts)).map_err(ExportError::Output)?
                    };
                    return export(&from, file);
                }
                let store = open_existing(&path)?;
                export(&|output| store.export(output, &accounts), file)
            }
            (Command::Import { file }, Some(server)) => {
                let into = |input: &mut dyn BufRead| {
                    local_engine::block_on(server.import(input)).map_err(ImportError::Input)?
                };
                import(&into, server.name(), file.as_deref())
            }
            (Command::Import { file }, None) => {
                let store = open(&path)?;
                import(&|input| store.import(input), &path.display().to_string(), file.as_deref())
            }
        }
    }
}

/// Opens a store, and creates none: the directory may be mistyped.
fn open_existing(path: &Path) -> Result<RedbStore, CannotOpen> {
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
    let as_json =
        json!({ "file": path, "sound": report.is_sound(), "rows": rows, "wrong": wrong, "findings": findings });
    stdout::print_result(json, &as_json, || {
        let verdict = if report.is_sound() { "sound".to_owned() } else { format!("{wrong} inconsistencies") };
        let findings: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
        format!("{findings}{}: {verdict} ({})", path.display(), describe(*rows))
    })?;
    Ok(Outcome::of(*wrong > 0))
}

type Export<'a> = dyn Fn(&mut dyn Write) -> Result<RowCounts, ExportError> + 'a;

fn export(export: &Export<'_>, file: Option<&Path>) -> Result<Outcome, Failure> {
    let Some(file) = file else {
        export(&mut BufWriter::new(io::stdout().lock()))?;
        return Ok(Outcome::Done);
    };
    // Readable by its owner only, like the store, and renamed into place when complete.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |error: io::Error| Failure::from(format!("cannot write {}: {error}", file.display()));
    let partial = tempfile::Builder::new().prefix(".export").tempfile_in(folder).map_err(failed)?;
    let rows = export(&mut BufWriter::new(partial.as_file()))?;
    partial.as_file().sync_all().map_err(failed)?;
    partial.persist_noclobber(file).map_err(|error| failed(error.error))?;
    print_stderr!("backdrop: exported {} to {}", describe(rows), file.display());
    Ok(Outcome::Done)
}

type Import<'a> = dyn Fn(&mut dyn BufRead) -> Result<RowCounts, ImportError> + 'a;

/// `place` is the name of the store for messages.
fn import(import: &Import<'_>, place: &str, file: Option<&Path>) -> Result<Outcome, Failure> {
    let rows = match file {
        Some(file) => {
            let input = File::open(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            import(&mut BufReader::new(input))?
        }
        None => import(&mut io::stdin().lock())?,
    };
    print_stderr!("backdrop: imported {} into {}", describe(rows), place);
    Ok(Outcome::Done)
}

fn describe(RowCounts { accounts, keys, presets, usage, key_days, requests, jobs }: RowCounts) -> String {
    format!(
        "{accounts} accounts, {keys} keys, {presets} presets, {usage} months of use, {key_days} days of use by key, \
         {requests} billed requests and {jobs} jobs"
    )
}
