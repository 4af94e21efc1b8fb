//! The schema of a database: reads it, upgrades it by the missing migrations, and refuses what this version does not work on.
//!
//! Migrations run in one transaction under an advisory lock. Breaking ones need the lock of the store alone (`locks.rs`).
//! Additive ones run beside processes of the version before. So that those are not delayed, such a transaction holds up
//! commits from its beginning, where none is in progress, waits only briefly for what reads the tables, and is otherwise left
//! to a later start.

use std::io;
use std::path::PathBuf;

use super::connect::{Connection, Server};
use super::locks::{LOCKS, Locking, lock_alone, unlock};
use super::migrations::Schema;
use super::reads::Queries;
use crate::store::OpenError;
use crate::store::storage_fault::Fault;

/// Second half of the lock under which migrations run.
const MIGRATION_LOCK: i32 = 1;

/// How long a statement of an additive migration waits for a lock, while all other processes wait for it. Shorter than the
/// server's `deadlock_timeout`, so that in a deadlock the migration is what fails.
const SHORT_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '500ms'";

/// The outcome of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upgrade {
    /// The tables lack no migration of this version.
    Complete,
    /// Other processes use the tables.
    InUse,
}

/// Applies the migrations that a database lacks, as far as the processes that use it allow.
pub(super) fn upgrade(server: &Server, connection: &mut Connection) -> Result<Upgrade, Fault> {
    let found = connection.snapshot().and_then(|mut queries| schema_of(&mut queries))?;
    let missing = server.migrations.missing(found);
    if missing.is_empty() {
        return Ok(Upgrade::Complete);
    }
    if missing.iter().all(|migration| migration.is_additive) {
        return match apply_missing_beside_others(server, connection) {
            Err(_) if connection.has_lock_timeout() => Ok(Upgrade::InUse),
            applied => applied.map(|()| Upgrade::Complete),
        };
    }
    if lock_alone(connection)? == Locking::InUse {
        return Ok(Upgrade::InUse);
    }
    let applied = apply_missing_alone(server, connection);
    unlock(connection);
    applied.map(|()| Upgrade::Complete)
}

fn apply_missing_beside_others(server: &Server, connection: &mut Connection) -> Result<(), Fault> {
    let mut queries = connection.writing()?;
    queries.batch(SHORT_LOCK_TIMEOUT)?;
    // First what every commit locks first: tables that a commit has locked are waited for here, not half way.
    queries.wait_for_commits()?;
    apply_missing(server, queries)
}

/// Applies the missing migrations. Needs the lock of the store alone.
pub(super) fn apply_missing_alone(server: &Server, connection: &mut Connection) -> Result<(), Fault> {
    apply_missing(server, connection.writing()?)
}

fn apply_missing(server: &Server, mut queries: Queries<'_>) -> Result<(), Fault> {
    // Released with the transaction, also when the connection breaks.
    queries.row("SELECT pg_advisory_xact_lock($1, $2)", &[&LOCKS, &MIGRATION_LOCK])?;
    let found = schema_of(&mut queries)?;
    let missing = server.migrations.missing(found);
    if !missing.is_empty() {
        missing.iter().try_for_each(|migration| queries.batch(migration.text))?;
        let Schema { version, oldest_compatible } = server.migrations.schema();
        queries.put_number("schema", version)?;
        queries.put_number("oldest_compatible", oldest_compatible)?;
    }
    queries.commit()
}

/// Refuses tables on which this version does not work, without changing them.
pub(super) fn require_usable(server: &Server, connection: &mut Connection) -> Result<(), OpenError> {
    let found = found(server, connection)?;
    if server.migrations.work_on(found) { Ok(()) } else { Err(unusable(server, found)) }
}

/// Refuses tables of another version, also where this one works on them: it does not know all of them.
pub(super) fn require_own(server: &Server, connection: &mut Connection) -> Result<(), OpenError> {
    let found = found(server, connection)?;
    if found.version == server.migrations.schema().version { Ok(()) } else { Err(unusable(server, found)) }
}

fn found(server: &Server, connection: &mut Connection) -> Result<Schema, OpenError> {
    let found = connection.snapshot().and_then(|mut queries| schema_of(&mut queries));
    found.map_err(|fault| read_error(server, fault))
}

fn unusable(server: &Server, found: Schema) -> OpenError {
    let (found, own) = (found.version, server.migrations.schema().version);
    if found < own {
        let reason = format!("schema {found} is upgraded to {own} by the next start of this version's daemon");
        return OpenError::Corrupt { path: path(server), reason };
    }
    OpenError::Newer { path: path(server), found: found.unsigned_abs(), supported: own.unsigned_abs() }
}

/// The schema of the tables.
pub(super) fn schema_of(queries: &mut Queries<'_>) -> Result<Schema, Fault> {
    if queries.has("SELECT 1 WHERE to_regclass('meta') IS NULL", &[])? {
        return Ok(Schema { version: 0, oldest_compatible: 0 });
    }
    let version = queries.number("schema")?.unwrap_or(0);
    // A program that recorded none knew no additive migration.
    Ok(Schema { version, oldest_compatible: queries.number("oldest_compatible")?.unwrap_or(version) })
}

/// The database as the place of an error.
pub(super) fn path(server: &Server) -> PathBuf {
    PathBuf::from(server.name())
}

/// The error of a read or of opening.
pub(super) fn read_error(server: &Server, fault: Fault) -> OpenError {
    match fault {
        Fault::Damaged(reason) => OpenError::Corrupt { path: path(server), reason },
        Fault::Storage(_) | Fault::Panicked | Fault::Closed | Fault::Server(_) => {
            OpenError::Io { path: path(server), source: io::Error::other(fault.to_string()) }
        }
    }
}
