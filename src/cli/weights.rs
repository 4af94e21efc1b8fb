//! `backdrop weights`: lists and verifies weights files, and imports checkpoints.

use super::exit_code::{Failure, Outcome};
use super::stdout;
use super::text_table;
use crate::model::weights::{self, Card, Weights as Loaded, manifest};
use crate::telemetry::with_causes;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(super) struct Weights {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the built-in weights, and those in a folder
    List {
        /// A folder with weights files
        folder: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Verify the built-in weights against their manifest, or weights files against their network
    Verify {
        /// Weights files; without any, the built-in ones
        files: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Convert a .safetensors or .pth file of the same network to a weights file
    Import {
        /// The file to import
        from: PathBuf,
        /// The file to write
        to: PathBuf,
        /// Name in API responses [default: from the file]
        #[arg(long)]
        name: Option<String>,
        /// Version in API responses [default: from the file, else 1]
        #[arg(long)]
        version: Option<String>,
        /// Licence of the weights [default: from the file]
        #[arg(long)]
        licence: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Weights {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        match self.command {
            Command::List { folder, json } => list(folder.as_deref(), json),
            Command::Verify { files, json } => verify(&files, json),
            Command::Import { from, to, name, version, licence, json } => {
                let imported = weights::import(&from)?;
                let Card { name: own_name, version: own_version, network, licence: own_licence } =
                    imported.card().clone();
                let imported = imported.with_card(Card {
                    name: name.unwrap_or(own_name),
                    version: version.unwrap_or(own_version),
                    licence: licence.unwrap_or(own_licence),
                    network,
                });
                imported.save(&to)?;
                show(&[row(&to.display().to_string(), &imported)], json)?;
                Ok(Outcome::Done)
            }
        }
    }
}

fn row(file: &str, weights: &Loaded) -> Value {
    let card = weights.card();
    let row = json!({
        "file": file, "name": card.name, "version": card.version, "architecture": card.network.architecture().name(),
        "bytes": weights.bytes(), "sha256": weights.sha256(), "licence": card.licence,
    });
    with_fields(row, card.network.own_field())
}

/// Adds the fields that are specific to a network.
fn with_fields(mut row: Value, fields: impl IntoIterator<Item = (&'static str, String)>) -> Value {
    for (name, value) in fields {
        // All of them are numbers.
        row[name] = value.parse().unwrap_or(Value::String(value));
    }
    row
}

fn list(folder: Option<&Path>, json: bool) -> Result<Outcome, Failure> {
    let mut rows: Vec<Value> = manifest::entries()
        .iter()
        .map(|entry| {
            let row = json!({
                "file": "built in", "name": entry.name, "version": entry.version, "architecture": entry.architecture,
                "bytes": entry.bytes, "sha256": entry.sha256, "licence": entry.licence,
            });
            with_fields(row, entry.own_fields())
        })
        .collect();
    let mut failed = 0;
    if let Some(folder) = folder {
        let mut files =
            std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "safetensors")) {
            match Loaded::from_file(file) {
                Ok(weights) => rows.push(row(&file.display().to_string(), &weights)),
                Err(error) => {
                    failed += 1;
                    print_stderr!("{}: {}", file.display(), with_causes(&error));
                }
            }
        }
    }
    show(&rows, json)?;
    Ok(Outcome::of(failed))
}

fn verify(files: &[PathBuf], json: bool) -> Result<Outcome, Failure> {
    let mut results = Vec::new();
    if files.is_empty() {
        results.extend(manifest::verify().into_iter().map(|(file, result)| (format!("built in: {file}"), result)));
    }
    results.extend(files.iter().map(|file| (file.display().to_string(), Loaded::from_file(file).map(|_| ()))));
    let failed = results.iter().filter(|(_, result)| result.is_err()).count();
    let rows = results.iter().map(|(file, result)| match result {
        Ok(()) => json!({ "file": file, "sound": true }),
        Err(error) => json!({ "file": file, "sound": false, "error": with_causes(error) }),
    });
    if json {
        stdout::print_json(&rows.collect::<Vec<_>>())?;
    } else {
        for row in rows {
            let file = row["file"].as_str().unwrap_or_default();
            stdout::print_line(&match row["error"].as_str() {
                Some(error) => format!("{file}: {error}"),
                None => format!("{file}: sound"),
            })?;
        }
    }
    Ok(Outcome::of(failed))
}

fn show(rows: &[Value], json: bool) -> std::io::Result<()> {
    if json {
        return stdout::print_json(&rows);
    }
    let cell = |row: &Value, key: &str| row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned);
    let cells = rows.iter().map(|row| {
        let short = cell(row, "sha256").chars().take(12).collect();
        [cell(row, "file"), cell(row, "name"), cell(row, "version"), cell(row, "bytes"), short, cell(row, "licence")]
    });
    stdout::print_line(&text_table::format_table(
        ["FILE", "NAME", "VERSION", "BYTES", "SHA256", "LICENCE"],
        &cells.collect::<Vec<_>>(),
    ))
}
