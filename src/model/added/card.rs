//! [`Card`]: what `model.toml` says of an added model.

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

/// What is known of an added model: its files, and how it takes a picture and returns a mask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ModelType,
    /// Name of the file in the model's folder.
    pub file: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// Size of all its files.
    pub bytes: u64,
    /// Numbers of its weights.
    pub parameters: u64,
    /// Its licence.
    pub licence: String,
    /// Whether that allows commercial use; nothing where it is disputed or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commercial: Option<bool>,
    /// Where it was added from.
    pub source: String,
    /// How it takes a picture and returns a mask.
    pub conventions: Conventions,
    /// SHA-256 of each file with weights beside it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
}

/// What the operator says of a model beside its file.
pub(super) struct Said<'a> {
    pub(super) kind: ModelType,
    pub(super) conventions: Conventions,
    /// Nothing for the licence of the type's published weights.
    pub(super) licence: Option<&'a str>,
    pub(super) source: String,
}

impl Card {
    /// The card of `file` with its `graph`, of which all files have `bytes`. `sha256` is the file's, where it is known.
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

    /// `name` with its version, which another file or other conventions change.
    pub(super) fn versioned(&self, name: &AddedName) -> AddedName {
        let conventions = toml::to_string(&self.conventions).expect("conventions are plain data");
        let parts: String =
            [&self.sha256, &conventions].into_iter().chain(self.data.values()).map(String::as_str).collect();
        name.with_version(&digest(parts.as_bytes())[..VERSION])
    }
}

/// SHA-256 of a file, in hexadecimal digits.
pub(super) fn sha256_of(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hexadecimal(&hasher.finalize()))
}
