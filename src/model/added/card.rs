//! [`Card`]: the content of an added model's `model.toml`.

use super::AddError;
use super::name::{AddedName, VERSION};
use crate::model::onnx::{Conventions, GraphFile, ModelType};
use crate::model::weights::{digest, hexadecimal};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

/// An added model's files, provenance, and conventions for pictures and masks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The model's type.
    #[serde(rename = "type")]
    pub kind: ModelType,
    /// Name of its main file in the model's folder.
    pub file: String,
    /// SHA-256 of that file.
    pub sha256: String,
    /// Size of all files in bytes.
    pub bytes: u64,
    /// Number of weights.
    pub parameters: u64,
    /// Licence.
    pub licence: String,
    /// Whether the licence allows commercial use; `None` where that is disputed or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commercial: Option<bool>,
    /// The path or configuration from which it was added.
    pub source: String,
    /// Conventions of input and output.
    pub conventions: Conventions,
    /// SHA-256 of each other file with weights, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
}

/// The operator's statements about a model.
pub(super) struct Said<'a> {
    pub(super) kind: ModelType,
    pub(super) conventions: Conventions,
    /// `None` for the licence of the type's published weights.
    pub(super) licence: Option<&'a str>,
    pub(super) source: String,
}

impl Card {
    /// The card of `file` with its `graph`; `bytes` is the size of all files. `sha256`: of `file`, if known.
    pub(super) fn of(
        file: &Path,
        graph: &GraphFile,
        bytes: u64,
        sha256: Option<&str>,
        said: Said<'_>,
    ) -> Result<Self, AddError> {
        let digest = |path: &Path| sha256_of(path).map_err(|error| AddError::read(path, error));
        let Said { kind, conventions, licence, source } = said;
        let (usual, allowed) = kind.licence(bytes);
        Ok(Self {
            kind,
            file: file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            sha256: sha256.map_or_else(|| digest(file), |sha256| Ok(sha256.to_owned()))?,
            bytes,
            parameters: graph.parameters,
            licence: licence.unwrap_or(usual).to_owned(),
            commercial: allowed.filter(|_| licence.is_none()),
            source,
            conventions,
            data: graph
                .data
                .iter()
                .map(|name| Ok((name.clone(), digest(&file.with_file_name(name))?)))
                .collect::<Result<_, _>>()?,
        })
    }

    /// `name` with a version derived from file and conventions.
    pub(super) fn versioned(&self, name: &AddedName) -> AddedName {
        let conventions = toml::to_string(&self.conventions).expect("conventions are plain data");
        let parts: String =
            [&self.sha256, &conventions].into_iter().chain(self.data.values()).map(String::as_str).collect();
        name.with_version(&digest(parts.as_bytes())[..VERSION])
    }
}

pub(super) fn sha256_of(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hexadecimal(&hasher.finalize()))
}
