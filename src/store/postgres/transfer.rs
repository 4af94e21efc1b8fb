//! Exports and imports a database: one snapshot, one transaction.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::pin::pin;

use deadpool_postgres::{ClientWrapper, Transaction};
use futures_util::TryStreamExt;
use tokio_postgres::{IsolationLevel, Row};

use super::accounts::{create_key, lock_account, put_preset};
use super::connect::PostgresServer;
use super::error::DatabaseError;
use super::jobs::check_new_job;
use super::rows::{account, add_account, execute, job, key, key_day, preset, put_job, request, row, stored, usage};
use super::schema::{NO_STATEMENT_TIMEOUT, apply_missing, leave, take_alone};
use crate::store::export_import::{ExportWriter, Hex, ImportReader, Row as ExportRow};
use crate::store::integrity_check::RowCounts;
use crate::store::records::{Record, RequestRecord};
use crate::store::{ExportError, ImportError, KeyHash, OpenError, Request};

/// No limits of time, for the transfer of a whole store.
const NO_TIMEOUTS: &str = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0";

impl PostgresServer {
    /// Writes a consistent snapshot of what belongs to `accounts`, or of the whole database if there are none. Daemons may use it.
    ///
    /// # Errors
    /// When an account does not exist, the database cannot be read, has tables of another version, a row is damaged, or the output
    /// cannot be written.
    pub async fn export(&self, output: impl Write, accounts: &BTreeSet<String>) -> Result<RowCounts, ExportError> {
        let failed = |error: DatabaseError| ExportError::Store(error.into_open_error(self.name()));
        let sql = |error: tokio_postgres::Error| failed(error.into());
        let mut client = self.connect().await.map_err(failed)?;
        // This version would leave out what a later one has added.
        self.require_own(&client).await?;
        client.batch_execute(NO_TIMEOUTS).await.map_err(sql)?;
        let snapshot = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let on = snapshot.start().await.map_err(sql)?;
        let mut writer = ExportWriter::begin(output, accounts).map_err(ExportError::Output)?;
        let mut each = async |text: &'static str, convert: fn(&Row) -> Result<ExportRow, DatabaseError>| {
            let no_parameters: [i64; 0] = [];
            // Not all of them at once: a store may be larger than the memory.
            let mut rows = pin!(on.query_raw(text, no_parameters).await.map_err(sql)?);
            while let Some(row) = rows.try_next().await.map_err(sql)? {
                writer.row(&convert(&row).map_err(failed)?).map_err(ExportError::Output)?;
            }
            Ok::<_, ExportError>(())
        };
        each("SELECT record FROM accounts ORDER BY name", |row| Ok(ExportRow::Account(account(row, 0)?))).await?;
        each("SELECT hash, record, last_used_at FROM keys ORDER BY hash", |row| {
            let (KeyHash(hash), key) = key(row)?;
            Ok(ExportRow::Key { hash: Hex(hash), key })
        })
        .await?;
        each("SELECT record FROM presets ORDER BY account, id", |row| Ok(ExportRow::Preset(preset(row)?))).await?;
        each("SELECT account, month, images, microdollars FROM usage ORDER BY month, account", |row| {
            let (account, month, usage) = usage(row)?;
            Ok(ExportRow::Usage { account, month, usage })
        })
        .await?;
        let text = "SELECT account, day, key_id, images, milliseconds, microdollars FROM key_days \
             ORDER BY account, day, key_id";
        each(text, |row| {
            let (account, day, key_id, used) = key_day(row)?;
            Ok(ExportRow::KeyDay { account, key_id, day, used })
        })
        .await?;
        each("SELECT account, key, record FROM requests ORDER BY account, key", |row| {
            let (account, key, request) = request(row)?;
            Ok(ExportRow::Request { account, key, request: request.into() })
        })
        .await?;
        each("SELECT id, record, progress FROM jobs ORDER BY id", |row| Ok(ExportRow::Job(Box::new(job(row)?))))
            .await?;
        writer.finish().map_err(ExportError::Output)
    }

    /// Reads an export into the database, which must be empty and not in use, in one transaction.
    ///
    /// # Errors
    /// When another process uses it, it has rows, a line is invalid or missing, or it cannot be written.
    pub async fn import(&self, input: impl BufRead) -> Result<RowCounts, ImportError> {
        let failed = |error: DatabaseError| ImportError::Store(error.into_open_error(self.name()));
        let mut client = self.connect().await.map_err(failed)?;
        if !take_alone(&client).await.map_err(failed)? {
            return Err(OpenError::Locked { path: self.name().into() }.into());
        }
        let imported = import_alone(self, &mut client, input).await;
        leave(&client).await;
        imported
    }
}

async fn import_alone(
    server: &PostgresServer,
    client: &mut ClientWrapper,
    input: impl BufRead,
) -> Result<RowCounts, ImportError> {
    let failed = |error: DatabaseError| ImportError::Store(error.into_open_error(server.name()));
    let sql = |error: tokio_postgres::Error| failed(error.into());
    apply_missing(&server.migrations, client, NO_STATEMENT_TIMEOUT).await.map_err(failed)?;
    server.require_usable(client).await?;
    client.batch_execute(NO_TIMEOUTS).await.map_err(sql)?;
    let on = client.transaction().await.map_err(sql)?;
    let text = "SELECT EXISTS (SELECT FROM accounts) OR EXISTS (SELECT FROM keys) OR EXISTS (SELECT FROM jobs)";
    let has_rows: bool = on.query_one(text, &[]).await.map_err(sql)?.get(0);
    if has_rows {
        return Err(ImportError::NotEmpty);
    }
    let mut reader = ImportReader::begin(input)?;
    while let Some(row) = reader.next()? {
        match insert(&on, row).await {
            Ok(()) => {}
            Err(error @ (DatabaseError::Refused(_) | DatabaseError::Values(_) | DatabaseError::Damaged(_))) => {
                return Err(reader.wrong(error.to_string()));
            }
            Err(error) => return Err(failed(error)),
        }
    }
    on.commit().await.map_err(sql)?;
    Ok(reader.rows())
}

/// Adds a row with the checks of a change, without replacing any.
async fn insert(on: &Transaction<'_>, new: ExportRow) -> Result<(), DatabaseError> {
    if let ExportRow::Account(account) = &new {
        return add_account(&**on, account).await;
    }
    lock_account(on, new.account()).await?;
    let (what, added) = match new {
        ExportRow::Account(_) => return Ok(()),
        ExportRow::Key { hash: Hex(hash), key } => return create_key(on, KeyHash(hash), key).await.map(drop),
        ExportRow::Preset(preset) => {
            let text = "SELECT 1 FROM presets WHERE account = $1 AND id = $2";
            if row(on, text, &[&preset.account, &preset.id]).await?.is_none() {
                return put_preset(on, preset).await.map(drop);
            }
            ("preset", 0)
        }
        ExportRow::Usage { account, month, usage } => {
            let text = "INSERT INTO usage (account, month, images, microdollars) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT DO NOTHING";
            let [images, microdollars] = [usage.images, usage.microdollars].map(stored);
            let added = execute(on, text, &[&account, &i64::from(month.0), &images, &microdollars]).await?;
            ("month of the account", added)
        }
        ExportRow::KeyDay { account, key_id, day, used } => {
            let text = "INSERT INTO key_days (account, day, key_id, images, milliseconds, microdollars) \
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
            let [images, milliseconds, microdollars] = [used.images, used.milliseconds, used.microdollars].map(stored);
            let day = i64::from(day.0);
            let added = execute(on, text, &[&account, &day, &key_id, &images, &milliseconds, &microdollars]).await?;
            ("day of the key", added)
        }
        ExportRow::Request { account, key, request } => {
            let request = Request::from(request);
            let at = request.at.0;
            let record = RequestRecord::from_latest(request).encode();
            let text = "INSERT INTO requests (account, key, at, record) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            ("request", execute(on, text, &[&account, &key, &at, &record]).await?)
        }
        ExportRow::Job(job) => {
            check_new_job(on, &job).await?;
            return put_job(&**on, &job).await;
        }
    };
    if added == 1 { Ok(()) } else { Err(DatabaseError::Damaged(format!("this {what} is there already"))) }
}
