//! The schema of a database: reads it, upgrades it by the missing migrations, and refuses what this version does not work on.
//!
//! Migrations run in one transaction. Breaking ones, and imports, need the database alone: every session of a daemon holds an
//! advisory lock shared, which ends with its connection, and they take it exclusively. Additive migrations run while daemons of
//! the version before work. So that they are not delayed, such a transaction waits for a lock only briefly.

use tokio_postgres::{Client, GenericClient};

use super::error::DatabaseError;
use super::migrations::{Migrations, Schema};
use super::rows::{account, key, put_account, put_key};

/// First half of this program's advisory locks: "bdrp".
pub(super) const LOCKS: i32 = 0x6264_7270;

/// Second half of the lock of a migration's transaction.
const MIGRATION_LOCK: i32 = 1;

/// Second half of the lock of all who use the database.
const STORE_LOCK: i32 = 2;

/// Second half of the lock of transactions that create or remove bulk runs of keys.
pub(super) const CREATION_LOCK: i32 = 3;

/// The first schema with columns that repeat fields of records.
const WITH_COLUMNS: i64 = 6;

/// How long an additive migration waits for a lock.
const SHORT_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '2s'";

/// For migrations that have the database alone: tables can be large.
pub(super) const NO_STATEMENT_TIMEOUT: &str = "SET LOCAL statement_timeout = 0";

/// Makes a session one of those that use the database; refused while another one has it alone, and on tables on which this
/// version does not work.
pub(super) async fn enter(client: &Client, migrations: &Migrations) -> Result<(), DatabaseError> {
    let row = client.query_one("SELECT pg_try_advisory_lock_shared($1, $2)", &[&LOCKS, &STORE_LOCK]).await?;
    if !row.get::<_, bool>(0) {
        return Err(DatabaseError::Locked);
    }
    if migrations.work_on(schema_of(client).await?) {
        return Ok(());
    }
    Err(DatabaseError::Away("the tables are of another version".into()))
}

/// Takes the database alone until [`leave`], or the end of the connection; whether that was possible.
pub(super) async fn take_alone(client: &Client) -> Result<bool, DatabaseError> {
    Ok(client.query_one("SELECT pg_try_advisory_lock($1, $2)", &[&LOCKS, &STORE_LOCK]).await?.get(0))
}

/// Releases the locks of a session at once. A broken connection has none.
pub(super) async fn leave(client: &Client) {
    drop(client.batch_execute("SELECT pg_advisory_unlock_all()").await);
}

/// Applies the migrations that a database lacks. [`DatabaseError::Locked`] where others use it in a way that does not allow that.
pub(super) async fn upgrade(migrations: &Migrations, client: &mut Client) -> Result<(), DatabaseError> {
    let missing = migrations.missing(schema_of(client).await?);
    if missing.is_empty() {
        return Ok(());
    }
    if missing.iter().all(|migration| migration.is_additive) {
        return apply_missing(migrations, client, SHORT_LOCK_TIMEOUT).await;
    }
    if !take_alone(client).await? {
        return Err(DatabaseError::Locked);
    }
    let applied = apply_missing(migrations, client, NO_STATEMENT_TIMEOUT).await;
    leave(client).await;
    applied
}

/// Applies the missing migrations with `settings` of the transaction. Breaking ones need the database alone.
pub(super) async fn apply_missing(
    migrations: &Migrations,
    client: &mut Client,
    settings: &str,
) -> Result<(), DatabaseError> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(settings).await?;
    // Released with the transaction, also when the connection breaks.
    transaction.execute("SELECT pg_advisory_xact_lock($1, $2)", &[&LOCKS, &MIGRATION_LOCK]).await?;
    let found = schema_of(&transaction).await?;
    for migration in migrations.missing(found) {
        transaction.batch_execute(migration.text).await?;
    }
    let Schema { version, oldest_compatible } = migrations.schema();
    if found.version < version {
        if (1..WITH_COLUMNS).contains(&found.version) {
            fill_columns(&transaction).await?;
        }
        for (name, number) in [("schema", version), ("oldest_compatible", oldest_compatible)] {
            let text = "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET number = $2";
            transaction.execute(text, &[&name, &number]).await?;
        }
    }
    Ok(transaction.commit().await?)
}

/// Fills the columns of accounts and keys that repeat fields of their records.
async fn fill_columns(transaction: &tokio_postgres::Transaction<'_>) -> Result<(), DatabaseError> {
    for row in transaction.query("SELECT record FROM accounts", &[]).await? {
        put_account(transaction, &account(&row, 0)?).await?;
    }
    for row in transaction.query("SELECT hash, record, last_used_at FROM keys", &[]).await? {
        let (hash, key) = key(&row)?;
        put_key(transaction, hash, &key).await?;
    }
    Ok(())
}

/// The schema of the tables.
pub(super) async fn schema_of(client: &impl GenericClient) -> Result<Schema, DatabaseError> {
    let is_empty: bool = client.query_one("SELECT to_regclass('meta') IS NULL", &[]).await?.get(0);
    if is_empty {
        return Ok(Schema { version: 0, oldest_compatible: 0 });
    }
    let text = "SELECT max(number) FILTER (WHERE name = 'schema'), max(number) FILTER (WHERE name = 'oldest_compatible') FROM meta";
    let row = client.query_one(text, &[]).await?;
    let version = row.get::<_, Option<i64>>(0).unwrap_or(0);
    // A program that recorded none knew no additive migration.
    Ok(Schema { version, oldest_compatible: row.get::<_, Option<i64>>(1).unwrap_or(version) })
}
