//! Reads tensors from safetensors files and PyTorch checkpoints.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

#[cfg(feature = "pytorch")]
use burn_store::pytorch_reader;
use half::f16;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use sha2::{Digest, Sha256};

use super::error::{MAX_FILE_BYTES, WeightsError, io_error};

/// Reads the bytes of a weights file, without parsing.
///
/// # Errors
/// When the file cannot be read, or is larger than any weights file.
pub fn read(path: &Path) -> Result<Vec<u8>, WeightsError> {
    let bytes = fs::metadata(path).map_err(|source| io_error(path, source))?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(WeightsError::TooLarge { bytes });
    }
    fs::read(path).map_err(|source| io_error(path, source))
}

/// The tensors and the metadata of a safetensors file.
pub(super) fn open(bytes: &[u8]) -> Result<(SafeTensors<'_>, HashMap<String, String>), WeightsError> {
    let malformed = |error: safetensors::SafeTensorError| WeightsError::Container {
        format: "safetensors",
        reason: error.to_string(),
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(malformed)?;
    let container = SafeTensors::deserialize(bytes).map_err(malformed)?;
    Ok((container, metadata.metadata().clone().unwrap_or_default()))
}

pub(super) fn decode(name: &str, dtype: Dtype, bytes: &[u8]) -> Result<Vec<f32>, WeightsError> {
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
pub(in crate::model) fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Bytes in lower-case hexadecimal.
pub(in crate::model) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A tensor whose values are not read yet.
pub(super) enum RawTensor<'a> {
    Safetensors(TensorView<'a>),
    /// In a PyTorch checkpoint.
    #[cfg(feature = "pytorch")]
    Pytorch(pytorch_reader::Tensor),
}

impl RawTensor<'_> {
    fn shape(&self) -> &[usize] {
        match self {
            Self::Safetensors(view) => view.shape(),
            #[cfg(feature = "pytorch")]
            Self::Pytorch(tensor) => tensor.shape(),
        }
    }

    /// The values. The shape is checked first, so that nothing of a wrong shape is read or allocated.
    pub(super) fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, WeightsError> {
        if self.shape() != shape {
            return Err(WeightsError::Shape {
                name: name.to_owned(),
                found: self.shape().to_vec(),
                expected: shape.to_vec(),
            });
        }
        let values = match self {
            Self::Safetensors(view) => decode(name, view.dtype(), view.data())?,
            #[cfg(feature = "pytorch")]
            Self::Pytorch(tensor) => checkpoint_values(name, tensor)?,
        };
        match values.iter().find(|value| !value.is_finite()) {
            Some(value) => Err(WeightsError::Value { name: name.to_owned(), value: f64::from(*value) }),
            None => Ok(values),
        }
    }
}

#[cfg(feature = "pytorch")]
fn checkpoint_values(name: &str, tensor: &pytorch_reader::Tensor) -> Result<Vec<f32>, WeightsError> {
    use pytorch_reader::DType;
    use safetensors::Dtype;
    let dtype = match tensor.dtype() {
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        other @ (DType::I64
        | DType::I32
        | DType::I16
        | DType::I8
        | DType::U64
        | DType::U32
        | DType::U16
        | DType::U8
        | DType::Bool) => {
            return Err(WeightsError::Type { name: name.to_owned(), dtype: format!("{other:?}") });
        }
    };
    decode(name, dtype, &tensor.read().map_err(|error| checkpoint_error(&error))?)
}

#[cfg(feature = "pytorch")]
pub(super) fn checkpoint_error(error: &dyn std::error::Error) -> WeightsError {
    WeightsError::Container { format: "PyTorch checkpoint", reason: error.to_string() }
}
