//! Advisory locks of a session, which end with its connection.
//!
//! Every process that changes the store holds one lock shared; breaking migrations and imports take it alone. A daemon holds one for the
//! identity of its data directory as well, so that no two processes run the jobs of one directory.

use super::connect::Connection;
use crate::store::storage_fault::Fault;

/// First half of this program's advisory locks: "bdrp".
pub(super) const LOCKS: i32 = 0x6264_7270;

/// Second half of the lock of all who change the store.
const STORE_LOCK: i32 = 2;

/// Second half of the lock of the transaction that creates a bulk run for a key.
pub(super) const CREATION_LOCK: i32 = 3;

/// The outcome of taking a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locking {
    /// This connection has it.
    Taken,
    /// Another session has it.
    InUse,
}

impl Locking {
    const fn of(is_taken: bool) -> Self {
        if is_taken { Self::Taken } else { Self::InUse }
    }
}

/// Takes the lock of the store alone.
pub(super) fn lock_alone(connection: &mut Connection) -> Result<Locking, Fault> {
    let mut queries = connection.writing()?;
    queries.has("SELECT 1 WHERE pg_try_advisory_lock($1, $2)", &[&LOCKS, &STORE_LOCK]).map(Locking::of)
}

/// Takes the lock of the store beside others, and that of the connection's daemon.
pub(super) fn lock_shared(connection: &mut Connection) -> Result<Locking, Fault> {
    let daemon = connection.daemon;
    let mut queries = connection.writing()?;
    let text =
        "SELECT 1 WHERE pg_try_advisory_lock_shared($1, $2) AND ($3::bigint IS NULL OR pg_try_advisory_lock($3))";
    queries.has(text, &[&LOCKS, &STORE_LOCK, &daemon]).map(Locking::of)
}

/// Releases all locks before the connection ends, so that others do not wait for the server to notice.
pub(super) fn unlock(connection: &Connection) {
    // A broken connection has no lock.
    drop(connection.batch("SELECT pg_advisory_unlock_all()"));
}
