//! The list of shipped weights: `weights/manifest.toml`, part of the binary.

use serde::Deserialize;

use super::{EMBEDDED, Weights, WeightsError, architecture};

static MANIFEST: &str = include_str!("../../../weights/manifest.toml");

/// One shipped weights file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The file, beside the manifest.
    pub file: String,
    /// Name of the model, as told to callers.
    pub name: String,
    /// Counts up with every change of the numbers.
    pub version: String,
    /// The network the weights are for.
    pub architecture: String,
    /// Side of the square input they were trained for.
    pub input_side: usize,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Under which terms the numbers may be used.
    pub licence: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    weights: Vec<Entry>,
}

/// The shipped weights files, the default one first.
///
/// # Panics
/// Never: a test reads the manifest.
#[must_use]
pub fn entries() -> Vec<Entry> {
    toml::from_str::<Manifest>(MANIFEST).expect("the manifest was checked when the program was built").weights
}

/// Checks the embedded weights against the manifest: size, digest, and every field of the card.
///
/// # Errors
/// When the file is not what the manifest says, or not complete weights.
pub fn verify() -> Result<(), WeightsError> {
    entries().iter().try_for_each(|entry| entry.check(EMBEDDED))
}

impl Entry {
    /// Checks the bytes of a file against this entry.
    ///
    /// # Errors
    /// When the bytes are not what the entry says, or not complete weights.
    pub fn check(&self, bytes: &[u8]) -> Result<(), WeightsError> {
        let differs = |field, found: &str, expected: &str| {
            if found == expected {
                return Ok(());
            }
            Err(WeightsError::Manifest {
                file: self.file.clone(),
                field,
                found: found.to_owned(),
                expected: expected.to_owned(),
            })
        };
        differs("size", &bytes.len().to_string(), &self.bytes.to_string())?;
        differs("sha256", &super::digest(bytes), &self.sha256)?;
        let weights = Weights::from_bytes(bytes)?;
        let card = weights.card();
        differs("name", &card.name, &self.name)?;
        differs("version", &card.version, &self.version)?;
        differs("architecture", architecture::NAME, &self.architecture)?;
        differs("input side", &card.input_side.to_string(), &self.input_side.to_string())?;
        differs("licence", &card.licence, &self.licence)
    }
}
