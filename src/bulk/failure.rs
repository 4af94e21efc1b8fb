//! Why an object has no result.

use crate::telemetry::with_causes;
use object_store::Error as StoreError;
use std::error::Error;
use std::io;

/// The codes that storage can lead to, named as the API names them. What the pipeline refuses brings its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A key that cannot be read or written.
    InvalidParameter,
    /// Two objects, one result.
    Conflict,
    /// More bytes than a picture may have.
    PayloadTooLarge,
    /// It was listed, and is gone.
    NotFound,
    /// The credentials do not work.
    Unauthorized,
    /// The credentials do not suffice.
    Forbidden,
    /// It did not come whole.
    FetchFailed,
    /// The store failed, again and again.
    UpstreamFailed,
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
    ];

    /// As it stands in the report.
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
        }
    }
}

/// Why an object has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One of the API's codes.
    pub code: &'static str,
    /// A sentence.
    pub message: String,
}

impl Failure {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code: code.name(), message: message.into() }
    }

    /// What a store's error comes to, and whether trying again may help. `doing`: "read" or "write".
    pub(super) fn of_store(error: &StoreError, doing: &str) -> (Self, bool) {
        let kind = io_kind(error);
        let (code, again) = if matches!(error, StoreError::NotFound { .. }) {
            (Code::NotFound, false)
        } else if matches!(error, StoreError::InvalidPath { .. }) || kind.is_some_and(is_about_the_name) {
            (Code::InvalidParameter, false)
        } else if matches!(error, StoreError::PermissionDenied { .. }) || kind.is_some_and(is_about_rights) {
            (Code::Forbidden, false)
        } else if matches!(error, StoreError::Unauthenticated { .. }) {
            (Code::Unauthorized, false)
        } else {
            let is_full = matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded));
            (Code::UpstreamFailed, !is_full)
        };
        // A row is one line, and what a server answered may be many.
        let said = with_causes(error).split_whitespace().collect::<Vec<_>>().join(" ");
        (Self::new(code, format!("cannot {doing} it: {said}")), again)
    }
}

/// What a file system cannot hold: a name that is too long, or one that is a folder and a file at once.
const fn is_about_the_name(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::InvalidFilename
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::DirectoryNotEmpty
    )
}

const fn is_about_rights(kind: io::ErrorKind) -> bool {
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
    fn names_that_a_file_system_cannot_hold_are_not_tried_again() {
        let error =
            |kind: io::ErrorKind| StoreError::Generic { store: "folder", source: Box::new(io::Error::from(kind)) };
        let (failure, again) = Failure::of_store(&error(io::ErrorKind::InvalidFilename), "write");
        assert_eq!((failure.code, again), ("invalid_parameter", false));
        assert!(failure.message.starts_with("cannot write it: "), "{}", failure.message);
        let (failure, again) = Failure::of_store(&error(io::ErrorKind::ConnectionReset), "read");
        assert_eq!((failure.code, again), ("upstream_failed", true));
        let gone = StoreError::NotFound { path: "a".into(), source: "gone".into() };
        assert_eq!(Failure::of_store(&gone, "read").0.code, "not_found");
    }
}
