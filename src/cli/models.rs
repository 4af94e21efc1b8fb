//! `backdrop models`: adds, lists, checks and removes models, and imports weights of the built-in network.

use super::config_args::ConfigArgs;
use super::exit_code::{Failure, Outcome};
use super::text_table;
use super::{local_engine, stdout};
use crate::codec::{self, sandbox};
use crate::config::Config;
use crate::image::{BufferPool, RawMask};
use crate::model::added::{AddedModel, AddedName, Adding};
use crate::model::onnx::ModelType;
use crate::model::weights::{self, Card, Weights as Loaded, manifest};
use crate::telemetry::with_causes;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args, Debug)]
pub(super) struct Models {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    config_args: ConfigArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add an ONNX file, or a folder of Hugging Face, as a model
    Add {
        /// The file or folder
        from: PathBuf,
        /// Its name in requests [default: from the file]
        #[arg(long)]
        name: Option<String>,
        /// u2net, isnet, isnet-anime, birefnet, rmbg, ben2, modnet, withoutbg, or custom with --set for every value [default: from the
        /// file's name]
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<ModelType>,
        /// A convention of docs/models.md in place of the type's, in TOML, such as size=512 or mean=[0.5,0.5,0.5]; may be repeated
        #[arg(long = "set", value_name = "NAME=VALUE")]
        set: Vec<String>,
        /// Licence of the model [default: the licence of the type's published weights]
        #[arg(long)]
        licence: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the added models, the built-in networks, and weights files in a folder
    List {
        /// A folder with weights files
        folder: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove an added model
    Remove {
        /// Its name
        name: AddedName,
    },
    /// Run an added model on a photo: its mask, time and memory, and signs of wrong conventions
    Check {
        /// Its name
        name: AddedName,
        /// The photo
        photo: PathBuf,
        /// Write the mask as a PNG
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Verify the built-in weights against their manifest, and the files of added models; or weights files against their network
    Verify {
        /// Weights files; without any, the built-in ones and the added models
        files: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Convert a .safetensors or .pth file of the built-in network to a weights file
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

impl Models {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let config = self.config_args.load(&[])?;
        match self.command {
            Command::Add { from, name, kind, set, licence, json } => {
                let conventions = set.iter().map(|text| convention(text)).collect::<Result<_, _>>()?;
                add(&config, &from, Adding { name, kind, conventions, licence }, json)
            }
            Command::List { folder, json } => list(&config, folder.as_deref(), json),
            Command::Remove { name } => {
                local_engine::added_models(&config)?.remove(&name)?;
                Ok(Outcome::Done)
            }
            Command::Check { name, photo, output, json } => check(&config, &name, &photo, output.as_deref(), json),
            Command::Verify { files, json } => verify(&config, &files, json),
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

/// `NAME=VALUE` as an entry of `model.toml`; a value that is no TOML is text.
fn convention(text: &str) -> Result<(String, toml::Value), Failure> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("--set {text}: expected NAME=VALUE"))?;
    let parsed =
        toml::from_str::<toml::Table>(&format!("value = {value}")).ok().and_then(|mut table| table.remove("value"));
    Ok((name.trim().to_owned(), parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()))))
}

fn add(config: &Config, from: &Path, adding: Adding, json: bool) -> Result<Outcome, Failure> {
    let (model, untried) = local_engine::added_models(config)?.add(from, adding)?;
    if let Some(error) = untried {
        print_stderr!("The model was not tried: {error}");
    }
    if model.card.commercial == Some(false) {
        print_stderr!("The licence of {} does not allow commercial use: {}", model.name.name(), model.card.licence);
    }
    show(&[added_row(&model)], json)?;
    Ok(Outcome::Done)
}

fn added_row(AddedModel { name, card, .. }: &AddedModel) -> Value {
    json!({
        "file": card.file, "name": name.name(), "version": name.version(), "architecture": card.kind.name(), "bytes": card.bytes,
        "sha256": card.sha256, "licence": card.licence, "commercial": card.commercial, "parameters": card.parameters,
        "source": card.source, "conventions": card.conventions,
    })
}

/// A mask whose values differ by less is constant.
const VARIATION: f32 = 0.01;

fn check(
    config: &Config,
    name: &AddedName,
    photo: &Path,
    output: Option<&Path>,
    json: bool,
) -> Result<Outcome, Failure> {
    sandbox::install(config.decode.sandbox);
    let limits = config.limits.of_local_pictures();
    let bytes = std::fs::read(photo).map_err(|error| format!("cannot read {}: {error}", photo.display()))?;
    let header = codec::probe(&bytes, &limits)?;
    let frame = codec::decode(&bytes, &header, &BufferPool::new(0))?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let began = Instant::now();
    let mut network = local_engine::added_models(config)?.load(name, threads)?;
    let loaded = began.elapsed();
    // The first run also reserves memory.
    let mut runs = Vec::new();
    let mut masks = Vec::new();
    for _ in 0..2 {
        let began = Instant::now();
        masks = network.segment(&[&frame])?;
        runs.push(began.elapsed());
    }
    let mask = masks.first().ok_or("the network returned no mask")?;
    if let Some(path) = output {
        write_mask(mask, path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let warnings = signs_of_wrong_conventions(mask);
    let milliseconds = |time: std::time::Duration| (time.as_secs_f64() * 1e3).round();
    let report = json!({
        "model": network.model(), "device": network.device(), "mask": mask.size().to_string(), "is_matte": mask.is_matte(),
        "load_ms": milliseconds(loaded), "first_ms": milliseconds(runs[0]), "ms": milliseconds(runs[1]),
        "memory_megabytes": most_memory(), "warnings": warnings,
    });
    stdout::print_result(json, &report, || {
        let kind = if mask.is_matte() { "matte" } else { "mask" };
        let memory = report["memory_megabytes"]
            .as_u64()
            .map_or_else(String::new, |megabytes| format!(", {megabytes} MB of memory at most"));
        let line = format!(
            "{} on {}: a {kind} of {}; loaded in {} ms, run in {} ms{memory}",
            network.model(),
            network.device(),
            mask.size(),
            report["load_ms"],
            report["ms"],
        );
        warnings.iter().fold(line, |text, warning| format!("{text}\nwarning: {warning}"))
    })?;
    Ok(Outcome::of(!warnings.is_empty()))
}

/// Properties of a mask that indicate wrong conventions.
fn signs_of_wrong_conventions(mask: &RawMask) -> Vec<&'static str> {
    let [columns, rows] = [mask.size().width as usize, mask.size().height as usize];
    let values = mask.values();
    let (low, high) = values.iter().fold((f32::MAX, f32::MIN), |(low, high), &value| (low.min(value), high.max(value)));
    let mean = |values: &mut dyn Iterator<Item = f32>| {
        let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
        sum / count.max(1) as f32
    };
    let is_border = |at: usize| {
        at < columns || at >= (rows - 1) * columns || at.is_multiple_of(columns) || at % columns == columns - 1
    };
    let border = mean(&mut (0..values.len()).filter(|at| is_border(*at)).map(|at| values[at]));
    let all = mean(&mut values.iter().copied());
    let signs = [
        (
            high - low < VARIATION,
            "the mask is the same everywhere: its mean, deviation, order, output or activation may be others",
        ),
        (border > 0.5 && border > all, "the border is subject, and the middle is not: the mask may be inverted"),
        (
            low > 0.3 && high - low >= VARIATION,
            "no part is certainly background: its activation may be `none` in place of `sigmoid`",
        ),
    ];
    signs.into_iter().filter(|(holds, _)| *holds).map(|(_, sign)| sign).collect()
}

fn write_mask(mask: &RawMask, path: &Path) -> Result<(), Failure> {
    let mut encoder = png::Encoder::new(File::create(path)?, mask.size().width, mask.size().height);
    encoder.set_color(png::ColorType::Grayscale);
    let values: Vec<u8> = mask.values().iter().map(|value| (value * 255.0).round() as u8).collect();
    encoder.write_header()?.write_image_data(&values)?;
    Ok(())
}

/// Peak memory of this process in MiB; `None` if the system does not report it.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes.div_ceil(1024))
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

fn list(config: &Config, folder: Option<&Path>, json: bool) -> Result<Outcome, Failure> {
    let mut failed = 0;
    let mut rows = Vec::new();
    for model in local_engine::added_models(config)?.list() {
        match model {
            Ok(model) => rows.push(added_row(&model)),
            Err(error) => {
                failed += 1;
                print_stderr!("{error}");
            }
        }
    }
    let training_data = manifest::training_data();
    rows.extend(manifest::entries().iter().map(|entry| {
        let trained_on = training_data.iter().filter(|data| data.networks.contains(&entry.name));
        let row = json!({
            "file": "built in", "name": entry.name, "version": entry.version, "architecture": entry.architecture,
            "bytes": entry.bytes, "sha256": entry.sha256, "licence": entry.licence,
            "training_data": trained_on.collect::<Vec<_>>(),
        });
        with_fields(row, entry.own_fields())
    }));
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
    if !json {
        let cells = training_data
            .iter()
            .map(|data| [data.source.clone(), data.networks.join(", "), allowed(data.commercial), data.terms.clone()]);
        let heading = ["TRAINED ON", "NETWORKS", "COMMERCIAL", "TERMS"];
        stdout::print_line(&format!("\n{}", text_table::format_table(heading, cells)))?;
    }
    Ok(Outcome::of(failed > 0))
}

/// Whether a licence allows commercial use, as a cell.
fn allowed(commercial: Option<bool>) -> String {
    commercial.map_or("unknown", |allowed| if allowed { "yes" } else { "no" }).to_owned()
}

fn verify(config: &Config, files: &[PathBuf], json: bool) -> Result<Outcome, Failure> {
    let mut results = Vec::new();
    if files.is_empty() {
        let built_in = manifest::verify().into_iter();
        results.extend(
            built_in.map(|(file, result)| (format!("built in: {file}"), result.map_err(|error| with_causes(&error)))),
        );
        for model in local_engine::added_models(config)?.list() {
            results.push(match model {
                Ok(model) => (model.name.to_string(), model.verify()),
                Err(error) => ("models".to_owned(), Err(error.to_string())),
            });
        }
    }
    let sound = |file: &PathBuf| Loaded::from_file(file).map(drop).map_err(|error| with_causes(&error));
    results.extend(files.iter().map(|file| (file.display().to_string(), sound(file))));
    let row = |(file, result): &(String, Result<(), String>)| match result {
        Ok(()) => json!({ "file": file, "sound": true }),
        Err(error) => json!({ "file": file, "sound": false, "error": error }),
    };
    let line = |(file, result): &(String, Result<(), String>)| match result {
        Ok(()) => format!("{file}: sound"),
        Err(error) => format!("{file}: {error}"),
    };
    stdout::print_result(json, &results.iter().map(row).collect::<Value>(), || {
        results.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Outcome::of(results.iter().any(|(_, result)| result.is_err())))
}

fn show(rows: &[Value], json: bool) -> std::io::Result<()> {
    let cell = |row: &Value, key: &str| row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned);
    let cells = rows.iter().map(|row| {
        let short = cell(row, "sha256").chars().take(12).collect();
        // The program's licence applies to the built-in weights.
        let commercial = allowed(row.get("commercial").map_or(Some(true), Value::as_bool));
        let texts = ["file", "name", "version", "architecture", "bytes"].map(|key| cell(row, key));
        let [file, name, version, kind, bytes] = texts;
        [name, version, kind, bytes, short, commercial, cell(row, "licence"), file]
    });
    let heading = ["NAME", "VERSION", "TYPE", "BYTES", "SHA256", "COMMERCIAL", "LICENCE", "FILE"];
    stdout::print_result(json, &rows, || text_table::format_table(heading, cells))
}
