//! Conversion between rows and records, and the statements that write accounts, keys and jobs.

use std::fmt::Display;

use deadpool_postgres::GenericClient as Pooled;
use serde::de::DeserializeOwned;
use tokio_postgres::types::ToSql;
use tokio_postgres::{GenericClient, Row};

use super::error::DatabaseError;
use crate::store::records::{AccountRecord, JobRecord, KeyRecord, PresetRecord, Record, RequestRecord};
use crate::store::{Account, ChangeError, Day, Job, Key, KeyDay, KeyHash, Month, Preset, Request, UnixSeconds, Usage};

/// Parameters of a query.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The rows of a prepared query.
pub(super) async fn rows(
    on: &impl Pooled,
    text: &'static str,
    parameters: Parameters<'_>,
) -> Result<Vec<Row>, DatabaseError> {
    let statement = on.prepare_cached(text).await?;
    Ok(on.query(&statement, parameters).await?)
}

/// The first row of a prepared query.
pub(super) async fn row(
    on: &impl Pooled,
    text: &'static str,
    parameters: Parameters<'_>,
) -> Result<Option<Row>, DatabaseError> {
    Ok(rows(on, text, parameters).await?.into_iter().next())
}

/// Runs a prepared statement; returns how many rows it changed.
pub(super) async fn execute(
    on: &impl Pooled,
    text: &'static str,
    parameters: Parameters<'_>,
) -> Result<u64, DatabaseError> {
    let statement = on.prepare_cached(text).await?;
    Ok(on.execute(&statement, parameters).await?)
}

/// Inserts an account. One that another transaction adds at this moment is waited for, and refused.
pub(super) async fn add_account(on: &impl GenericClient, account: &Account) -> Result<(), DatabaseError> {
    let record = AccountRecord::from_latest(account.clone()).encode();
    let text = "INSERT INTO accounts (name, record, plan) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    let added = on.execute(text, &[&account.name, &record, &account.plan.name()]).await?;
    if added == 1 { Ok(()) } else { Err(ChangeError::AccountExists(account.name.clone()).into()) }
}

/// Writes an account over the one of its name.
pub(super) async fn put_account(on: &impl GenericClient, account: &Account) -> Result<(), DatabaseError> {
    let record = AccountRecord::from_latest(account.clone()).encode();
    let text = "UPDATE accounts SET record = $2, plan = $3 WHERE name = $1";
    on.execute(text, &[&account.name, &record, &account.plan.name()]).await?;
    Ok(())
}

/// Inserts a key, or overwrites the one of its id.
pub(super) async fn put_key(on: &impl GenericClient, hash: KeyHash, key: &Key) -> Result<(), DatabaseError> {
    let record = KeyRecord::from_latest(key.clone()).encode();
    let text = "INSERT INTO keys (id, hash, record, account, is_revoked, expires_at, images_per_month, previous_hash, \
           previous_until, last_used_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
         ON CONFLICT (id) DO UPDATE SET hash = $2, record = $3, account = $4, is_revoked = $5, expires_at = $6, \
           images_per_month = $7, previous_hash = $8, previous_until = $9, last_used_at = $10";
    let previous = key.previous.map(|previous| (previous.hash.to_vec(), previous.until.0));
    let (previous_hash, previous_until) = previous.unzip();
    on.execute(
        text,
        &[
            &key.id,
            &hash.0.as_slice(),
            &record,
            &key.account,
            &key.revoked_at.is_some(),
            &key.expires_at.map(|at| at.0),
            &key.images_per_month.map(stored),
            &previous_hash,
            &previous_until,
            &key.last_used_at.map(|at| at.0),
        ],
    )
    .await?;
    Ok(())
}

/// Inserts a job, or overwrites the one of its id, which then has no lease.
pub(super) async fn put_job(on: &impl GenericClient, job: &Job) -> Result<(), DatabaseError> {
    let record = JobRecord::from_latest(job.clone()).encode();
    let text = "INSERT INTO jobs (id, key_id, account, name, state, place, due_at, webhook_at, record, month, reserved, \
           progress) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (id) DO UPDATE SET \
         state = $5, due_at = $7, webhook_at = $8, record = $9, progress = $12, lease_until = NULL";
    on.execute(
        text,
        &[
            &job.id,
            &job.key_id,
            &job.account,
            &job.name,
            &job.state.name(),
            &job.place,
            &job.due_at().map(|at| at.0),
            &job.webhook_at().map(|at| at.0),
            &record,
            &i64::from(job.month.0),
            &stored(job.reserved),
            &i16::from(job.progress),
        ],
    )
    .await?;
    Ok(())
}

/// The record of a column in its newest form.
pub(super) fn record<R: Record>(row: &Row, column: usize, what: impl Display) -> Result<R::Latest, DatabaseError> {
    R::decode(row.get(column)).map(Record::latest).map_err(|error| DatabaseError::unreadable(what, &error))
}

pub(super) fn account(row: &Row, column: usize) -> Result<Account, DatabaseError> {
    record::<AccountRecord>(row, column, "an account")
}

/// Of the columns `hash`, `record` and `last_used_at`.
pub(super) fn key(row: &Row) -> Result<(KeyHash, Key), DatabaseError> {
    let hash: [u8; 32] = row
        .get::<_, &[u8]>(0)
        .try_into()
        .map_err(|_| DatabaseError::Damaged("a key's hash does not have 32 bytes".into()))?;
    let key = record::<KeyRecord>(row, 1, "a key")?;
    let used = row.get::<_, Option<i64>>(2).map(UnixSeconds);
    Ok((KeyHash(hash), Key { last_used_at: key.last_used_at.max(used), ..key }))
}

pub(super) fn preset(row: &Row) -> Result<Preset, DatabaseError> {
    record::<PresetRecord>(row, 0, "a preset")
}

/// Of the columns `id`, `record` and `progress`.
pub(super) fn job(row: &Row) -> Result<Job, DatabaseError> {
    let job = record::<JobRecord>(row, 1, format_args!("job {}", row.get::<_, &str>(0)))?;
    let progress = u8::try_from(row.get::<_, i16>(2)).unwrap_or(0);
    Ok(Job { progress: job.progress.max(progress), ..job })
}

/// Of the columns `account`, `key` and `record`.
pub(super) fn request(row: &Row) -> Result<(String, String, Request), DatabaseError> {
    Ok((row.get(0), row.get(1), record::<RequestRecord>(row, 2, "a request")?))
}

pub(super) fn usage(row: &Row) -> Result<(String, Month, Usage), DatabaseError> {
    let usage = Usage { images: count(row, 2), microdollars: count(row, 3) };
    Ok((row.get(0), Month(number(row, 1)?), usage))
}

pub(super) fn key_day(row: &Row) -> Result<(String, Day, String, KeyDay), DatabaseError> {
    let used = KeyDay { images: count(row, 3), milliseconds: count(row, 4), microdollars: count(row, 5) };
    Ok((row.get(0), Day(number(row, 1)?), row.get(2), used))
}

/// A value whose JSON is the text of the only column.
pub(super) fn json<T: DeserializeOwned>(row: &Row) -> Result<T, DatabaseError> {
    serde_json::from_str(row.get(0)).map_err(|error| DatabaseError::Damaged(error.to_string()))
}

/// A column that is never negative.
pub(super) fn count(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}

/// A number for such a column.
pub(super) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn number(row: &Row, column: usize) -> Result<u32, DatabaseError> {
    let number: i64 = row.get(column);
    u32::try_from(number).map_err(|_| DatabaseError::Damaged(format!("there is no day or month {number}")))
}
