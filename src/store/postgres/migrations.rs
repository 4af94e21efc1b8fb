//! Creates and upgrades the tables, each migration in a transaction of its own, under an advisory lock.
//!
//! A migration that was released is never edited; a new one is a new file, which raises the schema.

use std::io;
use std::path::PathBuf;

use super::connect::{Connection, Server};
use super::reads::Queries;
use crate::store::OpenError;
use crate::store::storage_fault::Fault;

/// The migrations in their order; the number of applied ones is the schema.
const MIGRATIONS: [&str; 4] = [
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
];

/// The newest schema that this version reads and writes.
pub(super) const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// First half of this program's advisory locks: "bdrp".
pub(super) const LOCKS: i32 = 0x6264_7270;

/// Second half of the lock under which migrations run.
const MIGRATION_LOCK: i32 = 1;

/// Brings the tables to the newest schema. Only with the exclusive lock: others may be an older version.
pub(super) fn migrate(server: &Server, connection: &mut Connection) -> Result<(), OpenError> {
    let found = apply_missing(connection).map_err(|fault| read_error(server, fault))?;
    refuse_newer(server, found)
}

/// Refuses tables of another schema, without changing them.
pub(super) fn require_schema(server: &Server, connection: &mut Connection) -> Result<(), OpenError> {
    let found = connection.snapshot().and_then(|mut queries| schema_of(&mut queries));
    let found = found.map_err(|fault| read_error(server, fault))?;
    if found < SCHEMA {
        let reason = format!("schema {found} is upgraded to {SCHEMA} by the next start of this version's daemon");
        return Err(OpenError::Corrupt { path: path(server), reason });
    }
    refuse_newer(server, found)
}

/// Whether the tables lack migrations of this version.
pub(super) fn is_outdated(connection: &mut Connection) -> Result<bool, Fault> {
    connection.snapshot().and_then(|mut queries| Ok(schema_of(&mut queries)? < SCHEMA))
}

fn refuse_newer(server: &Server, found: i64) -> Result<(), OpenError> {
    if found > SCHEMA {
        return Err(OpenError::Newer {
            path: path(server),
            found: found.unsigned_abs(),
            supported: SCHEMA.unsigned_abs(),
        });
    }
    Ok(())
}

/// The schema afterwards.
fn apply_missing(connection: &mut Connection) -> Result<i64, Fault> {
    let mut queries = connection.writing()?;
    // Released with the transaction, also when the connection breaks.
    queries.row("SELECT pg_advisory_xact_lock($1, $2)", &[&LOCKS, &MIGRATION_LOCK])?;
    let found = schema_of(&mut queries)?;
    let mut schema = found;
    for (number, migration) in (1_i64..).zip(MIGRATIONS).filter(|(number, _)| *number > found) {
        queries.batch(migration)?;
        queries.put_number("schema", number)?;
        schema = number;
    }
    queries.commit()?;
    Ok(schema)
}

/// The schema of the tables; 0 where there are none.
pub(super) fn schema_of(queries: &mut Queries<'_>) -> Result<i64, Fault> {
    if queries.has("SELECT 1 WHERE to_regclass('meta') IS NULL", &[])? {
        return Ok(0);
    }
    Ok(queries.number("schema")?.unwrap_or(0))
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
