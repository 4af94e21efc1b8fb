//! Errors of decoding and encoding, and the conversion of a third-party decoder's panic to an error.

use crate::image::{OutputFormat, Size};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why an input cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// Not a supported container.
    #[error("not a JPEG, PNG, WebP or HEIC file{}", .found.map(|name| format!(" (it looks like {name})")).unwrap_or_default())]
    Unsupported {
        /// The detected format, when known.
        found: Option<&'static str>,
    },
    /// Over `max_bytes`.
    #[error("the file has more than {limit} bytes")]
    TooManyBytes {
        /// The limit.
        limit: usize,
    },
    /// Over `max_side`.
    #[error("the picture is {size}, more than {limit}×{limit} pixels")]
    TooManyPixels {
        /// Size of the picture.
        size: Size,
        /// The limit of each side.
        limit: u32,
    },
    /// Over `max_megapixels`.
    #[error("the picture is {size}, more than {limit} megapixels")]
    TooManyMegapixels {
        /// Size of the picture.
        size: Size,
        /// The limit.
        limit: u32,
    },
    /// Truncated, corrupt, or more expensive to decode than its pixels can explain.
    #[error("the file is damaged: {0}")]
    Corrupt(String),
    /// No decode worker can be started; the file was not read.
    #[error("no decode worker can be started: {0}")]
    Worker(String),
}

/// Why a picture could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The encoder failed.
    #[error("encoding {format:?} failed: {reason}")]
    Encoder {
        /// The container.
        format: OutputFormat,
        /// Its message.
        reason: String,
    },
}

pub(super) fn corrupt(reason: impl std::fmt::Display) -> DecodeError {
    DecodeError::Corrupt(reason.to_string())
}

/// The file is not the one that was probed.
pub(super) fn not_as_probed() -> DecodeError {
    DecodeError::Corrupt("its size differs from its header".to_owned())
}

/// Runs a third-party decoder; a panic becomes [`DecodeError::Corrupt`].
pub(super) fn catch_panic<T>(what: &str, work: impl FnOnce() -> Result<T, DecodeError>) -> Result<T, DecodeError> {
    // Unwind safety: what `work` touches is dropped with it, or is a pooled buffer, which is zeroed before reuse.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(DecodeError::Corrupt(format!("the {what} decoder failed"))))
}
