//! [`Card`]: what `model.toml` says of an added model.

use super::name::{AddedName, VERSION};
use crate::model::onnx::{Conventions, ModelType};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
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

impl Card {
    /// `name` with its version, which another file or other conventions change.
    pub(super) fn versioned(&self, name: &AddedName) -> AddedName {
        let conventions = toml::to_string(&self.conventions).expect("conventions are plain data");
        let mut hasher = Sha256::new();
        for part in [&self.sha256, &conventions].into_iter().chain(self.data.values()) {
            hasher.update(part);
        }
        name.with_version(&hexadecimal(&hasher.finalize())[..VERSION])
    }
}

/// SHA-256 of a file, in hexadecimal digits.
pub(super) fn sha256_of(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hexadecimal(&hasher.finalize()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes all");
        text
    })
}
