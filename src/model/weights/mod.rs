//! Trained weights: the project's file format, loading, checking and saving.
//!
//! A weights file is a safetensors container of half-precision tensors in PyTorch's layout (OIHW), batch
//! normalisation folded in, with metadata that names it (`name`, `version`, `licence`) and its network (`architecture`,
//! and `input_side`, `factor` or `threshold` where the network has one). Those of [`BuiltIn`] are part of the binary.
//! Loading checks every tensor against the network's table in [`architecture`], so the networks' code can take shapes
//! for granted.

pub mod architecture;
mod built_in;
mod import;
pub mod manifest;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use half::f16;
use safetensors::{Dtype, SafeTensors};
use sha2::{Digest, Sha256};

use super::Factor;
use architecture::{Architecture, Network};
pub use built_in::BuiltIn;
pub use import::import;

/// Files above this size are refused unread; the largest network needs four megabytes, a checkpoint with optimiser
/// state a few times that.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Why weights cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// Larger than any file of our networks.
    #[error("{bytes} bytes are more than any weights of our networks need (at most {MAX_FILE_BYTES})")]
    TooLarge {
        /// The file's size.
        bytes: u64,
    },
    /// Not a valid container of its format.
    #[error("not a readable {format} file: {reason}")]
    Container {
        /// safetensors or PyTorch checkpoint.
        format: &'static str,
        /// The reader's error.
        reason: String,
    },
    /// A container without our metadata.
    #[error(
        "metadata field `{0}` is missing or malformed: not a Backdrop weights file (`backdrop weights import` makes one)"
    )]
    Metadata(&'static str),
    /// Weights of another network.
    #[error("weights for the network `{found}`, expected `{expected}`")]
    Architecture {
        /// The file's network.
        found: String,
        /// The network that was expected.
        expected: String,
    },
    /// The first tensor, in the order of the network, that is missing.
    #[error("tensor {name:?} (shape {shape:?}) is missing")]
    Missing {
        /// Its name.
        name: String,
        /// The shape it should have.
        shape: Vec<usize>,
    },
    /// The first tensor, in the order of the network, of another shape.
    #[error("tensor {name:?} has shape {found:?}, expected {expected:?}")]
    Shape {
        /// Its name.
        name: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// The shape in the network.
        expected: Vec<usize>,
    },
    /// Tensors that the network does not have.
    #[error("tensors that the network does not have: {}", list(.0))]
    Surplus(Vec<String>),
    /// A tensor of integers, booleans or eight-bit floats.
    #[error("tensor {name:?} holds {dtype}, expected floating-point values of 16, 32 or 64 bits")]
    Type {
        /// Its name.
        name: String,
        /// Its element type.
        dtype: String,
    },
    /// Not a number, infinite, or too large for half precision.
    #[error("tensor {name:?} holds {value}, which half precision cannot")]
    Value {
        /// Its name.
        name: String,
        /// The first such value.
        value: f64,
    },
    /// A file that differs from the manifest.
    #[error("{file}: {field} is {found}, the manifest says {expected}")]
    Manifest {
        /// The file.
        file: String,
        /// The field that differs.
        field: &'static str,
        /// Its value in the file.
        found: String,
        /// Its value in the manifest.
        expected: String,
    },
}

/// The first few names, and how many more there are.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        let _ = write!(text, " and {} more", names.len() - SHOWN);
    }
    text
}

/// One tensor, in PyTorch's layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Values in row-major order; each is exactly a half-precision number.
    pub values: Vec<f32>,
}

/// The metadata of a weights file.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// Name of the model, as reported to callers.
    pub name: String,
    /// Increases with every change of the values.
    pub version: String,
    /// The network.
    pub network: Network,
    /// Licence of the values.
    pub licence: String,
}

impl Card {
    /// Side of the square input of a segmentation network.
    ///
    /// # Errors
    /// When it is another network.
    pub fn input_side(&self) -> Result<usize, WeightsError> {
        match self.network {
            Network::Fgnet { input_side } => Ok(input_side),
            Network::Upscale { .. } | Network::Restore | Network::Face { .. } => Err(self.is_not(Architecture::Fgnet)),
        }
    }

    /// The factor of an upscaling network.
    ///
    /// # Errors
    /// When it is another network.
    pub fn factor(&self) -> Result<Factor, WeightsError> {
        match self.network {
            Network::Upscale { factor } => Ok(factor),
            Network::Fgnet { .. } | Network::Restore | Network::Face { .. } => Err(self.is_not(Architecture::Upscale)),
        }
    }

    /// The score from which a face detection network's output is a face.
    ///
    /// # Errors
    /// When it is another network.
    pub fn threshold(&self) -> Result<f32, WeightsError> {
        match self.network {
            Network::Face { threshold } => Ok(threshold),
            Network::Fgnet { .. } | Network::Upscale { .. } | Network::Restore => Err(self.is_not(Architecture::Face)),
        }
    }

    /// An error unless the weights are for `wanted`.
    ///
    /// # Errors
    /// When they are for another network.
    pub fn require(&self, wanted: Architecture) -> Result<(), WeightsError> {
        if self.network.architecture() == wanted { Ok(()) } else { Err(self.is_not(wanted)) }
    }

    fn is_not(&self, expected: Architecture) -> WeightsError {
        let found = self.network.architecture().to_string();
        WeightsError::Architecture { found, expected: expected.to_string() }
    }
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
    /// When it cannot be read, is not one of ours, or lacks what the network needs.
    pub fn from_file(path: &Path) -> Result<Self, WeightsError> {
        Self::from_bytes(&read(path)?)
    }

    /// Reads a weights file that is in memory.
    ///
    /// # Errors
    /// When it is not one of ours, or lacks what the network needs.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WeightsError> {
        let (container, metadata) = open(bytes)?;
        let field = |name: &'static str| metadata.get(name).cloned().ok_or(WeightsError::Metadata(name));
        let card = Card {
            name: field("name")?,
            version: field("version")?,
            network: Network::from_metadata(&metadata)?,
            licence: field("licence")?,
        };
        let source = container.iter().map(|(name, view)| (name.to_owned(), import::Entry::Safetensors(view))).collect();
        let tensors = halved(exactly(card.network, &source)?)?;
        Ok(Self { card, tensors, sha256: digest(bytes), bytes: bytes.len() as u64 })
    }

    /// Weights that are not from a file.
    fn from_tensors(card: Card, tensors: HashMap<String, Tensor>) -> Result<Self, WeightsError> {
        let weights = Self { card, tensors: halved(tensors)?, sha256: String::new(), bytes: 0 };
        Ok(weights.described())
    }

    /// Adds the size and digest of the file that [`Weights::save`] would write.
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

    /// The same weights, if they are for `wanted`.
    ///
    /// # Errors
    /// When they are for another network.
    pub fn require(self, wanted: Architecture) -> Result<Self, WeightsError> {
        self.card.require(wanted)?;
        Ok(self)
    }

    /// The same values under another card, of the same network.
    ///
    /// # Panics
    /// When the tensors of the card's network are others.
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

    /// Size of the file.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The tensor `name`.
    ///
    /// # Errors
    /// When the network has no such tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, WeightsError> {
        self.tensors.get(name).ok_or_else(|| WeightsError::Missing { name: name.to_owned(), shape: Vec::new() })
    }

    /// Adds to all values of a tensor, for tests of comparisons.
    #[cfg(all(test, feature = "gpu"))]
    pub(in crate::model) fn perturb(&mut self, name: &str, by: f32) {
        let tensor = self.tensors.get_mut(name).expect("a tensor of the network");
        tensor.values.iter_mut().for_each(|value| *value += by);
    }

    /// The file. The same weights always give the same bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // The `safetensors` crate writes metadata in the order of a hash map: another file, and another digest, every
        // time. The container is a length, a JSON header and the values, so it is written here.
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
        // The format requires a header that ends on a multiple of eight.
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.append(&mut header);
        file.append(&mut values);
        file
    }

    /// Writes the weights file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn save(&self, path: &Path) -> Result<(), WeightsError> {
        fs::write(path, self.to_bytes()).map_err(|source| io_error(path, source))
    }
}

/// Exactly the network's tensors. The error is the first that is missing, in the order of the network.
fn exactly(
    network: Network,
    source: &HashMap<String, import::Entry<'_>>,
) -> Result<HashMap<String, Tensor>, WeightsError> {
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

/// The tensors in half precision, as files store them.
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

/// The whole of a file of reasonable size.
fn read(path: &Path) -> Result<Vec<u8>, WeightsError> {
    let bytes = fs::metadata(path).map_err(|source| io_error(path, source))?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(WeightsError::TooLarge { bytes });
    }
    fs::read(path).map_err(|source| io_error(path, source))
}

fn io_error(path: &Path, source: io::Error) -> WeightsError {
    WeightsError::Io { path: path.display().to_string(), source }
}

/// The tensors and the metadata of a safetensors file.
fn open(bytes: &[u8]) -> Result<(SafeTensors<'_>, HashMap<String, String>), WeightsError> {
    let malformed = |error: safetensors::SafeTensorError| WeightsError::Container {
        format: "safetensors",
        reason: error.to_string(),
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(malformed)?;
    let container = SafeTensors::deserialize(bytes).map_err(malformed)?;
    Ok((container, metadata.metadata().clone().unwrap_or_default()))
}

/// The values of a floating-point tensor.
fn decode(name: &str, dtype: Dtype, bytes: &[u8]) -> Result<Vec<f32>, WeightsError> {
    /// One value for every `N` bytes.
    fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks::<N>().0.iter().map(|bytes| value(*bytes)).collect()
    }
    #[expect(clippy::wildcard_enum_match_arm, reason = "the format grows; what is not a float is refused")]
    Ok(match dtype {
        Dtype::F16 => each(bytes, |b| f16::from_le_bytes(b).to_f32()),
        Dtype::BF16 => each(bytes, |b| half::bf16::from_le_bytes(b).to_f32()),
        Dtype::F32 => each(bytes, f32::from_le_bytes),
        Dtype::F64 => each(bytes, |b| f64::from_le_bytes(b) as f32),
        other => return Err(WeightsError::Type { name: name.to_owned(), dtype: format!("{other:?}") }),
    })
}

/// SHA-256, in lower-case hexadecimal.
fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
