//! Why weights cannot be used.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Files above this size are refused unread; the largest network needs four megabytes, a checkpoint with optimiser
/// state a few times that.
pub(super) const MAX_FILE_BYTES: u64 = 256 << 20;

/// Longest name or version.
pub(super) const MAX_LABEL_BYTES: usize = 64;

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
        "metadata field `{0}` is missing or malformed: not a Backdrop weights file (`backdrop models import` makes one)"
    )]
    Metadata(&'static str),
    /// A name or a version that replies cannot carry in a header.
    #[error(
        "`{field}` of the weights is {found:?}, expected 1 to {MAX_LABEL_BYTES} characters of printable ASCII \
         (`backdrop models import --{field}` sets another)"
    )]
    Label {
        /// `name` or `version`.
        field: &'static str,
        /// The beginning of the text.
        found: String,
    },
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

/// A system error at `path`.
pub(super) fn io_error(path: &Path, source: io::Error) -> WeightsError {
    WeightsError::Io { path: path.display().to_string(), source }
}
