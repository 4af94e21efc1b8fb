//! Storage faults (I/O errors, damaged rows, engine panics), and why a change was not applied.

use super::{ChangeError, RecordError};

/// Why a row could not be read or written.
#[derive(Debug)]
pub(super) enum Fault {
    /// The file or the storage engine failed.
    Storage(redb::Error),
    /// A row cannot be decoded, or two rows contradict each other.
    Damaged(String),
    /// The storage engine panicked with this message, as it does on some kinds of damage.
    Panicked(String),
    /// The file is closed: it could not be opened again after a fault.
    Closed,
}

impl Fault {
    /// A row that cannot be decoded.
    pub(super) fn unreadable(row: impl std::fmt::Display, error: &RecordError) -> Self {
        Self::Damaged(format!("{row}: {error}"))
    }

    /// Whether the storage engine refuses further work until the file is opened again.
    pub(super) const fn needs_reopening(&self) -> bool {
        match self {
            Self::Storage(_) | Self::Panicked(_) | Self::Closed => true,
            Self::Damaged(_) => false,
        }
    }

    /// Whether a read needs the file to be opened again: an I/O error, the first one or a later one.
    pub(super) const fn is_io(&self) -> bool {
        matches!(self, Self::Storage(redb::Error::Io(_) | redb::Error::PreviousIo))
    }
}

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Storage(error.into())
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Storage(error) => write!(f, "{error}"),
            Self::Damaged(reason) => f.write_str(reason),
            Self::Panicked(message) => write!(f, "the storage engine panicked: {message}"),
            Self::Closed => f.write_str("the file could not be opened again after a fault"),
        }
    }
}

/// Why a change was not applied to the transaction.
#[derive(Debug)]
pub(super) enum ApplyError {
    /// The change was refused; the transaction is unchanged.
    Refused(ChangeError),
    /// The storage failed; the whole transaction is void.
    Fault(Fault),
}

impl<E: Into<Fault>> From<E> for ApplyError {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

impl From<ChangeError> for ApplyError {
    fn from(refusal: ChangeError) -> Self {
        Self::Refused(refusal)
    }
}
