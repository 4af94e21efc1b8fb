//! The manifest of the shipped weights, `weights/manifest.toml`, and the check of the embedded files against it.

use serde::{Deserialize, Serialize};

use super::{BuiltIn, Weights, WeightsError};

static MANIFEST: &str = include_str!("../../../weights/manifest.toml");

/// One shipped weights file.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The file name, in the manifest's folder.
    pub file: String,
    /// Name of the model, as reported to callers.
    pub name: String,
    /// Increases with every change of the values.
    pub version: String,
    /// The weights' network.
    pub architecture: String,
    /// Side of the square input in training, if the network has one.
    pub input_side: Option<usize>,
    /// The factor of an upscaling network.
    pub factor: Option<u32>,
    /// The minimum score of a face, for face detection.
    pub threshold: Option<f32>,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Licence of the values.
    pub licence: String,
}

/// A collection of pictures that shipped weights were trained on.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingData {
    /// Name of the collection.
    pub source: String,
    /// Names of the networks.
    pub networks: Vec<String>,
    /// Licence or conditions of its publishers.
    pub terms: String,
    /// Whether the terms allow commercial use; `None` where they do not settle it.
    pub commercial: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    weights: Vec<Entry>,
    training_data: Vec<TrainingData>,
}

fn read() -> Manifest {
    toml::from_str(MANIFEST).expect("the manifest was checked when the program was built")
}

/// The shipped weights files, in the order of [`BuiltIn::ALL`].
///
/// # Panics
/// Never: a test reads the manifest.
#[must_use]
pub fn entries() -> Vec<Entry> {
    read().weights
}

/// The collections that the shipped weights were trained on.
///
/// # Panics
/// Never: a test reads the manifest.
#[must_use]
pub fn training_data() -> Vec<TrainingData> {
    read().training_data
}

/// Name and version of embedded weights, as reported to callers: `restore-256/1`. Does not unpack them.
///
/// # Panics
/// Never: a test checks that the manifest lists all of them.
#[must_use]
pub fn model(which: BuiltIn) -> String {
    let entry = entries().into_iter().find(|entry| entry.file == which.file());
    entry.map(|entry| format!("{}/{}", entry.name, entry.version)).expect("every built-in file is in the manifest")
}

/// Checks size, digest and card of each embedded weights file against the manifest. Returns the results by file name.
#[must_use]
pub fn verify() -> Vec<(&'static str, Result<(), WeightsError>)> {
    let entries = entries();
    let check = |built_in: BuiltIn| {
        let entry = entries.iter().find(|entry| entry.file == built_in.file());
        entry.map_or_else(
            || {
                let (file, found) = (built_in.file().to_owned(), "embedded".to_owned());
                Err(WeightsError::Manifest { file, field: "file", found, expected: "no such file".to_owned() })
            },
            |entry| entry.check(built_in.bytes()),
        )
    };
    BuiltIn::ALL.into_iter().map(|built_in| (built_in.file(), check(built_in))).collect()
}

impl Entry {
    /// The fields of single networks, with their values. A valid entry has its network's.
    #[must_use]
    pub fn own_fields(&self) -> Vec<(&'static str, String)> {
        let input_side = self.input_side.map(|side| ("input_side", side.to_string()));
        let factor = self.factor.map(|factor| ("factor", factor.to_string()));
        let threshold = self.threshold.map(|threshold| ("threshold", threshold.to_string()));
        input_side.into_iter().chain(factor).chain(threshold).collect()
    }

    /// Checks the bytes of a file against this entry.
    ///
    /// # Errors
    /// When the bytes differ from the entry, or are not complete weights.
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
        differs("sha256", &super::container::digest(bytes), &self.sha256)?;
        let weights = Weights::from_bytes(bytes)?;
        let card = weights.card();
        differs("name", &card.name, &self.name)?;
        differs("version", &card.version, &self.version)?;
        differs("architecture", card.network.architecture().name(), &self.architecture)?;
        let listed = |fields: Vec<(&str, String)>| {
            let fields: Vec<String> = fields.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
            if fields.is_empty() { "none".to_owned() } else { fields.join(", ") }
        };
        let stated = card.network.own_field().into_iter().collect();
        differs("network metadata", &listed(stated), &listed(self.own_fields()))?;
        differs("licence", &card.licence, &self.licence)
    }
}
