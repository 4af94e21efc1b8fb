//! Why an object has no result: an API error code and a sentence, derived from storage errors.

use crate::telemetry::with_causes;
use object_store::Error as StoreError;
use std::error::Error;
use std::io;

/// The API's error codes for failures of storage and workers. Pipeline errors have further codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A key that cannot be read or written.
    InvalidParameter,
    /// Two objects have one result key.
    Conflict,
    /// The picture has too many bytes.
    PayloadTooLarge,
    /// The object was deleted after it was listed.
    NotFound,
    /// The credentials are invalid.
    Unauthorized,
    /// The credentials lack a permission.
    Forbidden,
    /// The download was incomplete.
    FetchFailed,
    /// The store failed on every attempt.
    UpstreamFailed,
    /// Workers ended without an answer.
    InternalError,
}

impl Code {
    /// Every code.
    pub const ALL: &'static [Self] = &[
        Self::InvalidParameter,
        Self::Conflict,
        Self::PayloadTooLarge,
        Self::NotFound,
        Self::Unauthorized,
        Self::Forbidden,
        Self::FetchFailed,
        Self::UpstreamFailed,
        Self::InternalError,
    ];

    /// The code as written in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidParameter => "invalid_parameter",
            Self::Conflict => "conflict",
            Self::PayloadTooLarge => "payload_too_large",
            Self::NotFound => "not_found",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::FetchFailed => "fetch_failed",
            Self::UpstreamFailed => "upstream_failed",
            Self::InternalError => "internal_error",
        }
    }
}

/// Why an object has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The API's error code.
    pub code: &'static str,
    /// The reason, in a sentence.
    pub message: String,
}

impl Failure {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code: code.name(), message: message.into() }
    }

    /// The file has more than `max_bytes`.
    pub(super) fn too_large(max_bytes: u64) -> Self {
        Self::new(Code::PayloadTooLarge, format!("the file has more than {max_bytes} bytes"))
    }

    /// Maps a store's error to a failure, and whether a retry may help. `operation`: "read" or "write".
    pub(super) fn from_store(error: &StoreError, operation: &str) -> (Self, bool) {
        let kind = io_kind(error);
        let (code, retry) = if matches!(error, StoreError::NotFound { .. }) {
            (Code::NotFound, false)
        } else if matches!(error, StoreError::InvalidPath { .. }) || kind.is_some_and(is_invalid_name) {
            (Code::InvalidParameter, false)
        } else if matches!(error, StoreError::PermissionDenied { .. }) || kind.is_some_and(is_permission) {
            (Code::Forbidden, false)
        } else if matches!(error, StoreError::Unauthenticated { .. }) {
            (Code::Unauthorized, false)
        } else {
            let is_full = matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded));
            (Code::UpstreamFailed, !is_full)
        };
        // A row is one line, and a server's message may have many.
        let message = with_causes(error).split_whitespace().collect::<Vec<_>>().join(" ");
        (Self::new(code, format!("cannot {operation} it: {message}")), retry)
    }
}

/// Names that a file system cannot hold: too long, or a folder and a file at once.
const fn is_invalid_name(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::InvalidFilename
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::DirectoryNotEmpty
    )
}

const fn is_permission(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_file_system_cannot_hold_are_not_retried() {
        let error =
            |kind: io::ErrorKind| StoreError::Generic { store: "folder", source: Box::new(io::Error::from(kind)) };
        let (failure, retry) = Failure::from_store(&error(io::ErrorKind::InvalidFilename), "write");
        assert_eq!((failure.code, retry), ("invalid_parameter", false));
        assert!(failure.message.starts_with("cannot write it: "), "{}", failure.message);
        let (failure, retry) = Failure::from_store(&error(io::ErrorKind::ConnectionReset), "read");
        assert_eq!((failure.code, retry), ("upstream_failed", true));
        let gone = StoreError::NotFound { path: "a".into(), source: "gone".into() };
        assert_eq!(Failure::from_store(&gone, "read").0.code, "not_found");
    }
}
