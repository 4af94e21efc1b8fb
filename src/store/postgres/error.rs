//! Errors of the database: whether a change may have happened, and what is permanent.

use std::io;
use std::path::PathBuf;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::SqlState;

use crate::store::{ChangeError, OpenError, RecordError};
use crate::telemetry::with_causes;

/// Of a statement that waited for others.
const BLOCKED: [&SqlState; 4] = [
    &SqlState::LOCK_NOT_AVAILABLE,
    &SqlState::QUERY_CANCELED,
    &SqlState::T_R_DEADLOCK_DETECTED,
    &SqlState::T_R_SERIALIZATION_FAILURE,
];

/// Why the database did not do something.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    /// It cannot be used at present. Nothing happened.
    #[error("{0}")]
    Away(String),
    /// The connection broke, or no answer came, so that what was sent may have happened.
    #[error("{0}")]
    Interrupted(String),
    /// Other transactions were in the way for too long. Nothing happened.
    #[error("other transactions on the database took too long")]
    Locked,
    /// It refuses these values, and would refuse them again.
    #[error("{0}")]
    Values(String),
    /// A row cannot be read.
    #[error("{0}")]
    Damaged(String),
    /// A change is refused. Nothing happened.
    #[error(transparent)]
    Refused(#[from] ChangeError),
}

impl DatabaseError {
    /// Of an attempt to connect.
    pub(super) fn away(error: tokio_postgres::Error) -> Self {
        Self::Away(with_causes(&error))
    }

    /// A record that cannot be decoded.
    pub(super) fn unreadable(row: impl std::fmt::Display, error: &RecordError) -> Self {
        Self::Damaged(format!("{row}: {error}"))
    }

    /// Whether other connections to the same server are of no use either.
    pub(super) const fn is_outage(&self) -> bool {
        matches!(self, Self::Away(_) | Self::Interrupted(_))
    }

    /// The error of a read or of opening.
    pub(super) fn into_open_error(self, name: &str) -> OpenError {
        let path = PathBuf::from(name);
        match self {
            Self::Damaged(reason) => OpenError::Corrupt { path, reason },
            Self::Away(_) | Self::Interrupted(_) | Self::Locked | Self::Values(_) | Self::Refused(_) => {
                OpenError::Io { path, source: io::Error::other(self.to_string()) }
            }
        }
    }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        let reason = with_causes(&error);
        match error.code() {
            Some(state) if BLOCKED.contains(&state) => Self::Locked,
            // A data exception or a violated constraint.
            Some(state) if state.code().starts_with("22") || state.code().starts_with("23") => Self::Values(reason),
            // An error that the server reports has undone the transaction.
            Some(_) => Self::Away(reason),
            None => Self::Interrupted(reason),
        }
    }
}

impl From<PoolError> for DatabaseError {
    fn from(error: PoolError) -> Self {
        // Others may hold all connections: this is no outage.
        if matches!(error, PoolError::Timeout(TimeoutType::Wait)) {
            Self::Locked
        } else {
            Self::Away(with_causes(&error))
        }
    }
}

/// For a change.
impl From<DatabaseError> for ChangeError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Refused(refusal) => refusal,
            DatabaseError::Interrupted(reason) => Self::Interrupted(reason),
            DatabaseError::Away(_) | DatabaseError::Locked => Self::Unavailable(error.to_string()),
            DatabaseError::Values(reason) | DatabaseError::Damaged(reason) => Self::Storage(reason),
        }
    }
}
