//! Added models: published segmentation networks, which the operator adds as ONNX files.
//!
//! Each lies in a folder `models/NAME` of the data folder, with a `model.toml` ([`Card`]); a read-only deployment lists
//! its models in the configuration. Folders are read for each request that names a model, so that an added model is
//! available at once.

mod card;
mod config;
mod folder;
mod name;

pub use card::Card;
pub use config::{ModelFile, ModelsConfig};
pub use name::{AddedName, InvalidName};

use crate::model::onnx::{self, Conventions, FileError, GraphFile, ModelType, Runtime, RuntimeError};
use crate::model::{SegmentError, Segmenter};
use card::{Said, sha256_of};
use folder::{Found, USUAL_FILE};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FOLDER: &str = "models";
const CARD: &str = "model.toml";
/// Source of a model of the configuration.
const CONFIGURED: &str = "configuration";
/// Sides of a network's input in pixels.
const SIDES: std::ops::RangeInclusive<u32> = 32..=4096;

/// An added model.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedModel {
    /// Name, with the version.
    pub name: AddedName,
    /// Its files and conventions.
    pub card: Card,
    folder: PathBuf,
}

/// Why a model cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No model has this name.
    #[error("unknown model {name}; added models: {}", listed(known))]
    Unknown {
        /// The name.
        name: AddedName,
        /// The names of all added models.
        known: Vec<String>,
    },
    /// The model has another version.
    #[error("model {wanted} is not installed; the installed version is {found}")]
    OtherVersion {
        /// The requested version.
        wanted: AddedName,
        /// The available version.
        found: AddedName,
    },
    /// The model's card cannot be read.
    #[error("the model {name} is damaged: {reason}")]
    Damaged {
        /// The name.
        name: AddedName,
        /// The card's defect.
        reason: String,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none (`backdrop models add`)".to_owned() } else { names.join(", ") }
}

/// Why a model cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// Its files cannot be read or stored.
    #[error("{0}")]
    Io(String, #[source] io::Error),
    /// A folder without a unique ONNX file.
    #[error("expected a folder with one ONNX file, or with {USUAL_FILE}; it has {}", if .0.is_empty() { "none".to_owned() } else { .0.join(", ") })]
    Folder(Vec<String>),
    /// A file of a folder is not JSON.
    #[error("{0} cannot be read")]
    Json(String, #[source] serde_json::Error),
    /// `preprocessor_config.json` has an unsupported value.
    #[error("preprocessor_config.json: `{0}` has the unsupported value {1}; set the conventions with --set")]
    Preprocessor(String, String),
    /// The ONNX file cannot be read.
    #[error("{0}")]
    File(String, #[source] FileError),
    /// The type cannot be derived from the name.
    #[error("cannot tell the type of {file}; set --type {types}. Its graph has {graph}", types = ModelType::ALL.map(ModelType::name).join(", "))]
    UnknownType {
        /// The file.
        file: String,
        /// Inputs and outputs of its graph.
        graph: String,
    },
    /// The conventions are incomplete or impossible.
    #[error("the conventions are wrong: {0}")]
    Conventions(String),
    /// A model of this name exists.
    #[error("there is a model {0} already; remove it first, or choose another --name")]
    Exists(AddedName),
    /// ONNX Runtime cannot run the network.
    #[error("{file} cannot be used: {reason}")]
    Graph {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// The name is invalid.
    #[error("{0:?} is not a valid model name")]
    Name(String, #[source] InvalidName),
}

impl AddError {
    fn read(path: &Path, error: io::Error) -> Self {
        Self::Io(format!("{} cannot be read", path.display()), error)
    }
}

/// The operator's statements about a model to add.
#[derive(Clone, Debug, Default)]
pub struct Adding {
    /// Name; by default the file's.
    pub name: Option<String>,
    /// Type; by default the usual type of files with this name.
    pub kind: Option<ModelType>,
    /// Conventions that replace the type's, as in `model.toml`.
    pub conventions: toml::Table,
    /// Licence; by default the licence of the type's published weights.
    pub licence: Option<String>,
}

/// The models of a data folder and a configuration. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct AddedModels(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    folder: Option<PathBuf>,
    configured: Vec<AddedModel>,
    config: ModelsConfig,
}

impl AddedModels {
    /// The models of `data_dir`, which may not exist, and of `config`.
    ///
    /// # Errors
    /// [`AddError`] for a file of the configuration.
    pub fn open(data_dir: &Path, config: &ModelsConfig) -> Result<Self, AddError> {
        let configured = config.files.iter().map(configured).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Inner { folder: Some(data_dir.join(FOLDER)), configured, config: config.clone() })))
    }

    /// The configuration of added models.
    #[must_use]
    pub fn config(&self) -> &ModelsConfig {
        &self.0.config
    }

    /// All models by name; a damaged one is an error.
    #[must_use]
    pub fn list(&self) -> Vec<Result<AddedModel, FindError>> {
        self.names().iter().map(|name| self.find(name)).collect()
    }

    fn names(&self) -> Vec<AddedName> {
        let entries = self.0.folder.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let mut names: Vec<AddedName> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        names.extend(self.0.configured.iter().map(|model| model.name.without_version()));
        names.sort();
        names.dedup();
        names
    }

    /// The model of this name; of this version, if the name has one.
    ///
    /// # Errors
    /// [`FindError`].
    pub fn find(&self, name: &AddedName) -> Result<AddedModel, FindError> {
        let model = match self.0.configured.iter().find(|model| model.name.name() == name.name()) {
            Some(model) => model.clone(),
            None => self.read(name)?,
        };
        match name.version() {
            Some(_) if *name != model.name => Err(FindError::OtherVersion { wanted: name.clone(), found: model.name }),
            _ => Ok(model),
        }
    }

    fn read(&self, name: &AddedName) -> Result<AddedModel, FindError> {
        let folder = self.0.folder.as_ref().map(|folder| folder.join(name.name()));
        let text = folder.as_ref().map(|folder| fs::read_to_string(folder.join(CARD)));
        let (Some(folder), Some(text)) = (folder, text) else { return Err(self.unknown(name)) };
        let damaged = |reason: String| FindError::Damaged { name: name.clone(), reason };
        let text = match text {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(self.unknown(name)),
            Err(error) => return Err(damaged(format!("{CARD}: {error}"))),
        };
        let card: Card = toml::from_str(&text).map_err(|error| damaged(format!("{CARD}: {}", error.message())))?;
        let is_name = |file: &String| Path::new(file).file_name() == Some(file.as_ref());
        if !std::iter::once(&card.file).chain(card.data.keys()).all(is_name) {
            return Err(damaged(format!("{CARD}: `file` is no file name")));
        }
        check(&card.conventions).map_err(|error| damaged(format!("{CARD}: {error}")))?;
        Ok(AddedModel { name: card.versioned(name), card, folder })
    }

    fn unknown(&self, name: &AddedName) -> FindError {
        FindError::Unknown { name: name.clone(), known: self.names().iter().map(AddedName::to_string).collect() }
    }

    /// Adds the ONNX file or Hugging Face folder at `path`. If ONNX Runtime is installed, the network is loaded once;
    /// else the result holds the runtime's error.
    ///
    /// # Errors
    /// [`AddError`].
    pub fn add(&self, path: &Path, adding: Adding) -> Result<(AddedModel, Option<RuntimeError>), AddError> {
        let io = |what: &str, path: &Path| {
            let what = format!("{} cannot be {what}", path.display());
            move |error| AddError::Io(what, error)
        };
        let found = Found::at(path)?;
        let shown = found.file.display().to_string();
        let graph = GraphFile::read(&found.file).map_err(|error| AddError::File(shown.clone(), error))?;
        let kind = adding.kind.or_else(|| found.kind(path));
        let unknown = || AddError::UnknownType { file: shown.clone(), graph: graph.to_string() };
        let kind = kind.ok_or_else(unknown)?;
        let name = adding.name.unwrap_or_else(|| suggested(path));
        let name: AddedName = name.parse().map_err(|error| AddError::Name(name.clone(), error))?;
        if name.version().is_some() {
            return Err(AddError::Name(name.to_string(), InvalidName));
        }
        if !matches!(self.find(&name), Err(FindError::Unknown { .. })) {
            return Err(AddError::Exists(name));
        }
        let bytes = bytes_of(&found.file, &graph)?;
        let of_type = kind.conventions(bytes).map(|of_type| found.conventions(of_type)).transpose()?;
        let conventions = completed(of_type, adding.conventions)?;
        let runtime = match Runtime::load(self.0.config.onnxruntime.as_deref()) {
            Ok(runtime) => {
                let tried =
                    onnx::open(&runtime, &found.file, conventions.clone(), name.to_string(), self.0.config.device, 1);
                tried.map_err(|error| AddError::Graph { file: shown, reason: error.to_string() })?;
                None
            }
            Err(error) => Some(error),
        };
        let folder = self
            .0
            .folder
            .as_ref()
            .ok_or_else(|| AddError::Io("there is no data folder".to_owned(), io::ErrorKind::NotFound.into()))?;
        // The folder gets its name when it is complete.
        let (target, unfinished) = (folder.join(name.name()), folder.join(format!(".{}", name.name())));
        let _: io::Result<()> = fs::remove_dir_all(&unfinished);
        fs::create_dir_all(&unfinished).map_err(io("created", &unfinished))?;
        let beside = graph.data.iter().map(|name| found.file.with_file_name(name));
        for file in std::iter::once(found.file.clone()).chain(beside) {
            let to = unfinished.join(file.file_name().unwrap_or_default());
            let from = fs::canonicalize(&file).map_err(io("read", &file))?;
            if fs::hard_link(&from, &to).is_err() {
                fs::copy(&from, &to).map_err(io("copied", &file))?;
            }
        }
        let source = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
        let said = Said { kind, conventions, licence: adding.licence.as_deref(), source };
        let placed = unfinished.join(found.file.file_name().unwrap_or_default());
        let card = Card::of(&placed, &graph, bytes, None, said)?;
        let text = toml::to_string(&card).expect("a card is plain data");
        fs::write(unfinished.join(CARD), text).map_err(io("written", &unfinished))?;
        fs::rename(&unfinished, &target).map_err(io("created", &target))?;
        Ok((AddedModel { name: card.versioned(&name), card, folder: target }, runtime))
    }

    /// Deletes a model's folder.
    ///
    /// # Errors
    /// [`FindError::Unknown`], also for a model of the configuration; else the file system's error.
    pub fn remove(&self, name: &AddedName) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let folder = self.0.folder.as_ref().map(|folder| folder.join(name.name())).filter(|folder| folder.is_dir());
        let folder = folder.ok_or_else(|| self.unknown(name))?;
        Ok(fs::remove_dir_all(folder)?)
    }

    /// Loads a model. Each run uses `threads`.
    ///
    /// # Errors
    /// [`SegmentError::Unusable`] when it does not exist, its files have changed, or ONNX Runtime cannot run it.
    pub fn load(&self, name: &AddedName, threads: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
        let unusable = |error: &dyn std::fmt::Display| SegmentError::Unusable(error.to_string());
        let model = self.find(name).map_err(|error| unusable(&error))?;
        model.verify().map_err(|error| unusable(&error))?;
        let runtime = Runtime::load(self.0.config.onnxruntime.as_deref()).map_err(|error| unusable(&error))?;
        let AddedModel { name, card, folder } = model;
        let file = folder.join(&card.file);
        let device = self.0.config.device;
        let opened = onnx::open(&runtime, &file, card.conventions, name.to_string(), device, threads);
        opened.map_err(|error| unusable(&format_args!("{}: {error}", file.display())))
    }
}

impl AddedModel {
    /// Approximate memory of the loaded model in bytes: ONNX Runtime keeps the weights both as they are and packed.
    #[must_use]
    pub const fn memory(&self) -> u64 {
        2 * self.card.bytes
    }

    /// Checks that the files are unchanged since they were added.
    ///
    /// # Errors
    /// The file and its defect.
    pub fn verify(&self) -> Result<(), String> {
        let files = std::iter::once((&self.card.file, &self.card.sha256)).chain(&self.card.data);
        for (file, sha256) in files {
            let path = self.folder.join(file);
            let found = sha256_of(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if found != *sha256 {
                return Err(format!("{} has changed since it was added: its SHA-256 is {found}", path.display()));
            }
        }
        Ok(())
    }
}

fn configured(model: &ModelFile) -> Result<AddedModel, AddError> {
    let ModelFile { name, file, kind, conventions, sha256, licence } = model;
    let graph =
        GraphFile::read(file).map_err(|error| AddError::File(format!("models.files: {}", file.display()), error))?;
    let bytes = bytes_of(file, &graph)?;
    let conventions = conventions.clone().or_else(|| kind.conventions(bytes));
    let conventions = conventions.ok_or_else(|| AddError::Conventions("custom has no conventions".to_owned()))?;
    check(&conventions)?;
    let said = Said { kind: *kind, conventions, licence: licence.as_deref(), source: CONFIGURED.to_owned() };
    let card = Card::of(file, &graph, bytes, sha256.as_deref(), said)?;
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    Ok(AddedModel { name: card.versioned(name), card, folder })
}

/// Size in bytes of a model's file and its other files with weights.
fn bytes_of(file: &Path, graph: &GraphFile) -> Result<u64, AddError> {
    let beside = graph.data.iter().map(|name| file.with_file_name(name));
    let size = |path: PathBuf| fs::metadata(&path).map(|file| file.len()).map_err(|error| AddError::read(&path, error));
    std::iter::once(file.to_owned()).chain(beside).map(size).sum()
}

/// A model name derived from the name of a file or folder.
fn suggested(path: &Path) -> String {
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let stem = if absolute.is_dir() { absolute.file_name() } else { absolute.file_stem() };
    let stem = stem.map(|stem| stem.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    stem.chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' })
        .collect()
}

/// The conventions of a type, overridden by the operator's.
fn completed(of_type: Option<Conventions>, given: toml::Table) -> Result<Conventions, AddError> {
    let wrong = |error: &dyn std::fmt::Display| AddError::Conventions(error.to_string().trim().to_owned());
    let mut table = match of_type {
        Some(of_type) => toml::Table::try_from(of_type).map_err(|error| wrong(&error))?,
        None => toml::Table::new(),
    };
    table.extend(given);
    let conventions = table.try_into::<Conventions>().map_err(|error| wrong(&error.message()))?;
    check(&conventions)?;
    Ok(conventions)
}

/// Refuses conventions that fit no picture.
fn check(conventions: &Conventions) -> Result<(), AddError> {
    let Conventions { size, range, mean, deviation, .. } = conventions;
    let is_number = |value: &f32| value.is_finite();
    let wrong = |what: String| Err(AddError::Conventions(what));
    if !SIDES.contains(size) {
        return wrong(format!("`size` is {size}; expected {} to {}", SIDES.start(), SIDES.end()));
    }
    if !mean.iter().all(is_number) || !deviation.iter().all(|value| value.is_finite() && *value != 0.0) {
        return wrong("`mean` and `deviation` are three numbers each, and no deviation is 0".to_owned());
    }
    match range {
        onnx::Range::Fixed(range) if !(range.is_finite() && *range > 0.0) => wrong("`range` is above 0".to_owned()),
        onnx::Range::Fixed(_) | onnx::Range::Maximum => Ok(()),
    }
}
