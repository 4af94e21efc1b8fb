//! Why weights cannot be used.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Larger files are refused unread. The largest network has four megabytes, a checkpoint a few times that.
pub(super) const MAX_FILE_BYTES: u64 = 256 << 20;

/// Maximum bytes of a name or version.
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
    /// The file is larger than any file of Backdrop's networks.
    #[error("{bytes} bytes are beyond the limit of weights files ({MAX_FILE_BYTES})")]
    TooLarge {
        /// The file's size.
        bytes: u64,
    },
    /// The file is not valid in its format.
    #[error("not a readable {format} file: {reason}")]
    Container {
        /// safetensors or PyTorch checkpoint.
        format: &'static str,
        /// The reader's message.
        reason: String,
    },
    /// The file lacks Backdrop's metadata.
    #[error(
        "metadata field `{0}` is missing or malformed: not a Backdrop weights file (`backdrop models import` makes one)"
    )]
    Metadata(&'static str),
    /// A name or version that no header can carry.
    #[error(
        "`{field}` of the weights is {found:?}, expected 1 to {MAX_LABEL_BYTES} characters of printable ASCII \
         (`backdrop models import --{field}` sets another)"
    )]
    Label {
        /// `name` or `version`.
        field: &'static str,
        /// The beginning of the value.
        found: String,
    },
    /// The weights are for another network.
    #[error("weights for the network `{found}`, expected `{expected}`")]
    Architecture {
        /// The file's network.
        found: String,
        /// The network that was expected.
        expected: String,
    },
    /// A tensor is missing: the first one in the order of the network.
    #[error("tensor {name:?} (shape {shape:?}) is missing")]
    Missing {
        /// Its name.
        name: String,
        /// The shape it should have.
        shape: Vec<usize>,
    },
    /// A tensor has another shape: the first one in the order of the network.
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
    /// A tensor has integers, booleans or eight-bit floats.
    #[error("tensor {name:?} holds {dtype}, expected floating-point values of 16, 32 or 64 bits")]
    Type {
        /// Its name.
        name: String,
        /// Its element type.
        dtype: String,
    },
    /// A value is not a number, infinite, or too large for half precision.
    #[error("tensor {name:?} holds {value}, which half precision cannot represent")]
    Value {
        /// Its name.
        name: String,
        /// The first such value.
        value: f64,
    },
    /// A file differs from the manifest.
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

/// The first few names, and the number of others.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        let _ = write!(text, " and {} more", names.len() - SHOWN);
    }
    text
}

pub(super) fn io_error(path: &Path, source: io::Error) -> WeightsError {
    WeightsError::Io { path: path.display().to_string(), source }
}
