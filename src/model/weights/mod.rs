//! Trained weights: the file format, loading, checking and saving.
//!
//! A weights file is a safetensors container of half-precision tensors in PyTorch's layout (OIHW), with batch
//! normalisation folded in. Its metadata are `name`, `version`, `licence`, `architecture`, and for some networks
//! `input_side`, `factor` or `threshold`. The binary contains the files of [`BuiltIn`]. Loading checks every tensor
//! against the network's table in [`architecture`], so that the networks' code can rely on shapes.

pub mod architecture;
mod built_in;
mod card;
mod container;
mod error;
mod import;
pub mod manifest;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use half::f16;

use architecture::{Architecture, Network};
pub use built_in::BuiltIn;
pub use card::Card;
pub use container::read;
use container::{RawTensor, open};
pub(in crate::model) use container::{digest, hexadecimal};
pub use error::WeightsError;
use error::io_error;
pub use import::import;

/// One tensor, in PyTorch's layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Values in row-major order, rounded to half precision.
    pub values: Vec<f32>,
}

/// Complete weights of a network, checked against its [`architecture`].
#[derive(Clone, Debug)]
pub struct Weights {
    card: Card,
    tensors: HashMap<String, Tensor>,
    sha256: String,
    bytes: u64,
}

impl Weights {
    /// The embedded segmentation weights.
    ///
    /// # Panics
    /// Never: a test loads them.
    #[must_use]
    pub fn embedded() -> Self {
        Self::built_in(BuiltIn::Fgnet)
    }

    /// Embedded weights.
    ///
    /// # Panics
    /// Never: a test loads them all.
    #[must_use]
    pub fn built_in(which: BuiltIn) -> Self {
        Self::from_bytes(which.bytes()).expect("the embedded weights were checked when the program was built")
    }

    /// Reads a weights file.
    ///
    /// # Errors
    /// As [`Self::from_bytes`], and when the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self, WeightsError> {
        Self::from_bytes(&read(path)?)
    }

    /// Reads a weights file from memory.
    ///
    /// # Errors
    /// When it is not a Backdrop weights file, its name or version cannot be carried by a header, or it lacks a tensor.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WeightsError> {
        let weights = Self::with_any_label(bytes)?;
        weights.card.validate()?;
        Ok(weights)
    }

    /// Reads a weights file without checking name and version.
    fn with_any_label(bytes: &[u8]) -> Result<Self, WeightsError> {
        let (container, metadata) = open(bytes)?;
        let field = |name: &'static str| metadata.get(name).cloned().ok_or(WeightsError::Metadata(name));
        let card = Card {
            name: field("name")?,
            version: field("version")?,
            network: Network::from_metadata(&metadata)?,
            licence: field("licence")?,
        };
        let source = container.iter().map(|(name, view)| (name.to_owned(), RawTensor::Safetensors(view))).collect();
        let tensors = halved(exactly(card.network, &source)?)?;
        Ok(Self { card, tensors, sha256: digest(bytes), bytes: bytes.len() as u64 })
    }

    /// Weights without a file.
    fn from_tensors(card: Card, tensors: HashMap<String, Tensor>) -> Result<Self, WeightsError> {
        let weights = Self { card, tensors: halved(tensors)?, sha256: String::new(), bytes: 0 };
        Ok(weights.described())
    }

    /// Sets the size and digest of the file that [`Weights::save`] writes.
    fn described(mut self) -> Self {
        let file = self.to_bytes();
        self.sha256 = digest(&file);
        self.bytes = file.len() as u64;
        self
    }

    /// The metadata.
    #[must_use]
    pub const fn card(&self) -> &Card {
        &self.card
    }

    /// Checks that the weights are for `wanted`, and returns them.
    ///
    /// # Errors
    /// When they are for another network.
    pub fn require(self, wanted: Architecture) -> Result<Self, WeightsError> {
        self.card.require(wanted)?;
        Ok(self)
    }

    /// Replaces the card by another one of the same network.
    ///
    /// # Panics
    /// When the card's network has other tensors.
    #[must_use]
    pub fn with_card(mut self, card: Card) -> Self {
        assert_eq!(card.network.tensors(), self.card.network.tensors(), "a card of another network");
        self.card = card;
        self.described()
    }

    /// Name and version, as reported to callers: `fgnet-384/1`.
    #[must_use]
    pub fn model(&self) -> String {
        format!("{}/{}", self.card.name, self.card.version)
    }

    /// SHA-256 of the file, in hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Size of the file in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of values.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.tensors.values().map(|tensor| tensor.values.len() as u64).sum()
    }

    /// The tensor `name`.
    ///
    /// # Errors
    /// When the network has no such tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, WeightsError> {
        self.tensors.get(name).ok_or_else(|| WeightsError::Missing { name: name.to_owned(), shape: Vec::new() })
    }

    /// Adds `by` to all values of a tensor, for tests of comparisons.
    #[cfg(all(test, feature = "gpu"))]
    pub(in crate::model) fn perturb(&mut self, name: &str, by: f32) {
        let tensor = self.tensors.get_mut(name).expect("a tensor of the network");
        tensor.values.iter_mut().for_each(|value| *value += by);
    }

    /// The content of the file. Equal weights always give equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // The `safetensors` crate writes metadata in the order of a hash map: another digest every time. The container
        // is a length, a JSON header and the values, so it is written here.
        let mut metadata: BTreeMap<&str, String> = BTreeMap::from([
            ("architecture", self.card.network.architecture().to_string()),
            ("licence", self.card.licence.clone()),
            ("name", self.card.name.clone()),
            ("version", self.card.version.clone()),
        ]);
        metadata.extend(self.card.network.own_field());
        let mut header = serde_json::Map::new();
        header.insert("__metadata__".to_owned(), serde_json::json!(metadata));
        let mut values = Vec::new();
        for architecture::Expected { name, shape } in self.card.network.tensors() {
            let start = values.len();
            for value in &self.tensors[&name].values {
                values.extend_from_slice(&f16::from_f32(*value).to_le_bytes());
            }
            let entry = serde_json::json!({ "dtype": "F16", "shape": shape, "data_offsets": [start, values.len()] });
            header.insert(name, entry);
        }
        let mut header = serde_json::Value::Object(header).to_string().into_bytes();
        // The format requires that the header ends at a multiple of eight bytes.
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.append(&mut header);
        file.append(&mut values);
        file
    }

    /// Writes the weights file.
    ///
    /// # Errors
    /// When no header can carry its name or version, or the system refuses.
    pub fn save(&self, path: &Path) -> Result<(), WeightsError> {
        self.card.validate()?;
        fs::write(path, self.to_bytes()).map_err(|source| io_error(path, source))
    }
}

/// Takes exactly the network's tensors. The error is the first missing one, in the order of the network.
fn exactly(network: Network, source: &HashMap<String, RawTensor<'_>>) -> Result<HashMap<String, Tensor>, WeightsError> {
    let mut tensors = HashMap::new();
    for architecture::Expected { name, shape } in network.tensors() {
        let Some(entry) = source.get(&name) else { return Err(WeightsError::Missing { name, shape }) };
        let values = entry.values(&name, &shape)?;
        tensors.insert(name, Tensor { shape, values });
    }
    let mut surplus: Vec<String> = source.keys().filter(|name| !tensors.contains_key(*name)).cloned().collect();
    surplus.sort();
    if surplus.is_empty() { Ok(tensors) } else { Err(WeightsError::Surplus(surplus)) }
}

/// Rounds the tensors to half precision, as files store them.
fn halved(mut tensors: HashMap<String, Tensor>) -> Result<HashMap<String, Tensor>, WeightsError> {
    for (name, tensor) in &mut tensors {
        for value in &mut tensor.values {
            let rounded = f16::from_f32(*value);
            if !rounded.is_finite() {
                return Err(WeightsError::Value { name: name.clone(), value: f64::from(*value) });
            }
            *value = rounded.to_f32();
        }
    }
    Ok(tensors)
}

#[cfg(test)]
mod tests;
