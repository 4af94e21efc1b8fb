//! Configuration section `[models]`: the execution device of added models, and the models of a read-only deployment.

use super::name::AddedName;
use crate::model::onnx::{Conventions, Device, ModelType};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Added models: execution device, memory, and models outside of the data folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelsConfig {
    /// The library of ONNX Runtime; by default it is searched.
    pub onnxruntime: Option<PathBuf>,
    /// What runs them: `cpu` or `cuda`; `tensorrt`, `coreml`, `directml` and `openvino` were never tried.
    pub device: Device,
    /// Memory for loaded models in megabytes, each with twice the size of its files; beyond it, the one that was used least recently is
    /// unloaded. 0 is a quarter of the machine's.
    pub memory: u64,
    /// Names of models that are loaded at the start; the others are with their first picture.
    pub at_start: Vec<AddedName>,
    /// Models outside of the data folder.
    pub files: Vec<ModelFile>,
}

/// A model by its file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Its name.
    pub name: AddedName,
    /// The file.
    pub file: PathBuf,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ModelType,
    /// Conventions that differ from the type's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conventions: Option<Conventions>,
    /// SHA-256 of the file. By default it is computed at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Licence; by default the licence of the type's published weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
}

impl ModelsConfig {
    /// Every mistake in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            if file.name.version().is_some() {
                mistakes.push(format!("models.files: expected a name without a version, not {}", file.name));
            }
            if self.files[..at].iter().any(|other| other.name == file.name) {
                mistakes.push(format!("models.files: expected other names, because {} is there twice", file.name));
            }
            if file.kind == ModelType::Custom && file.conventions.is_none() {
                mistakes.push(format!("models.files: expected conventions for {}, which is custom", file.name));
            }
        }
        mistakes
    }
}
