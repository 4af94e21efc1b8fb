//! Why work on the file failed: a storage fault (I/O error, damaged row, engine panic), or a refused change.

use super::{ChangeError, RecordError};

/// Why work on the file failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The file or the storage engine failed.
    #[error("{0}")]
    Storage(redb::Error),
    /// A row cannot be decoded, or two rows contradict each other.
    #[error("{0}")]
    Damaged(String),
    /// The storage engine panicked with this message, as it does on some kinds of damage.
    #[error("the storage engine panicked: {0}")]
    Panicked(String),
    /// The file is closed: it could not be opened again after a fault.
    #[error("the file could not be opened again after a fault")]
    Closed,
    /// The change was refused; the transaction is unchanged.
    #[error(transparent)]
    Refused(ChangeError),
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
            Self::Damaged(_) | Self::Refused(_) => false,
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

impl From<ChangeError> for Fault {
    fn from(refusal: ChangeError) -> Self {
        Self::Refused(refusal)
    }
}
