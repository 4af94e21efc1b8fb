//! What goes wrong between a table and its caller.

use super::{ChangeError, RecordError};

/// Why a row could not be read or written.
#[derive(Debug)]
pub(super) enum Fault {
    /// The file or the storage engine failed.
    Storage(redb::Error),
    /// A row does not mean anything, or two rows contradict each other.
    Damaged(String),
}

impl Fault {
    /// A row that is no record.
    pub(super) fn unreadable(row: impl std::fmt::Display, error: &RecordError) -> Self {
        Self::Damaged(format!("{row}: {error}"))
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
        }
    }
}

/// Why a change did not go into the transaction.
#[derive(Debug)]
pub(super) enum Failure {
    /// The change is not possible; the transaction is unharmed.
    Refused(ChangeError),
    /// The file failed; the whole transaction is void.
    Fault(Fault),
}

impl<E: Into<Fault>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

impl From<ChangeError> for Failure {
    fn from(refusal: ChangeError) -> Self {
        Self::Refused(refusal)
    }
}
