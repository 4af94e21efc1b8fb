//! Exports and imports a database: one snapshot, one transaction.

use std::io::{self, BufRead, Write};
use std::pin::pin;

use futures_util::TryStreamExt;
use tokio_postgres::{Client, IsolationLevel, Row, Transaction};

use super::connect::Server;
use super::error::{DatabaseError, Refusal};
use super::rows::{account, job, key, key_day, preset, put_account, put_job, put_key, request, stored, usage};
use super::schema::{apply_missing_alone, leave, take_alone};
use crate::store::export_import::{ExportWriter, ImportReader, ImportRow};
use crate::store::integrity_check::RowCounts;
use crate::store::records::{PresetRecord, Record, RequestRecord};
use crate::store::{ChangeError, ExportError, ExportedAccounts, ImportError, KeyHash, OpenError, PRESETS_PER_ACCOUNT};

/// No limits of time, for the transfer of a whole store.
const NO_TIMEOUTS: &str = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0";

/// Why rows were not exported.
enum Exporting {
    Database(DatabaseError),
    Output(io::Error),
}

impl<E: Into<DatabaseError>> From<E> for Exporting {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

/// Writes a consistent snapshot of the whole database, or of what belongs to some accounts.
pub(super) async fn export(
    server: &Server,
    output: impl Write,
    accounts: &ExportedAccounts,
) -> Result<RowCounts, ExportError> {
    let failed = |error: DatabaseError| ExportError::Store(error.into_open_error(server.name()));
    let mut client = server.connect().await.map_err(failed)?;
    // This version would leave out what a later one has added.
    server.require_own(&client).await?;
    export_rows(&mut client, output, accounts).await.map_err(|error| match error {
        Exporting::Database(error) => failed(error),
        Exporting::Output(error) => ExportError::Output(error),
    })
}

async fn export_rows(
    client: &mut Client,
    output: impl Write,
    accounts: &ExportedAccounts,
) -> Result<RowCounts, Exporting> {
    client.batch_execute(NO_TIMEOUTS).await?;
    let snapshot = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let on = snapshot.start().await?;
    let data = Exporting::Output;
    let mut writer = ExportWriter::begin(output, accounts).map_err(data)?;
    each(&on, "SELECT record FROM accounts ORDER BY name", |row| writer.account(account(row, 0)?).map_err(data))
        .await?;
    each(&on, "SELECT hash, record, last_used_at FROM keys ORDER BY hash", |row| {
        let (hash, key) = key(row)?;
        writer.key(hash, key).map_err(data)
    })
    .await?;
    each(&on, "SELECT record FROM presets ORDER BY account, id", |row| writer.preset(preset(row)?).map_err(data))
        .await?;
    each(&on, "SELECT account, month, images, microdollars FROM usage ORDER BY month, account", |row| {
        let (account, month, usage) = usage(row)?;
        writer.usage(account, month, usage).map_err(data)
    })
    .await?;
    let text = "SELECT account, day, key_id, images, milliseconds, microdollars FROM key_days \
         ORDER BY account, day, key_id";
    each(&on, text, |row| {
        let (account, day, key_id, used) = key_day(row)?;
        writer.key_day(account, day, key_id, used).map_err(data)
    })
    .await?;
    each(&on, "SELECT account, key, record FROM requests ORDER BY account, key", |row| {
        let (account, key, request) = request(row)?;
        writer.request(account, key, request).map_err(data)
    })
    .await?;
    each(&on, "SELECT id, record, progress FROM jobs ORDER BY id", |row| writer.job(job(row)?).map_err(data)).await?;
    writer.finish().map_err(data)
}

/// Calls `found` with each row of a whole table, without holding all of them.
async fn each(
    on: &Transaction<'_>,
    text: &str,
    mut found: impl FnMut(&Row) -> Result<(), Exporting>,
) -> Result<(), Exporting> {
    let no_parameters: [i64; 0] = [];
    let mut rows = pin!(on.query_raw(text, no_parameters).await?);
    while let Some(row) = rows.try_next().await? {
        found(&row)?;
    }
    Ok(())
}

/// Reads an export into the database, which must be empty and not in use.
pub(super) async fn import(server: &Server, input: impl BufRead) -> Result<RowCounts, ImportError> {
    let failed = |error: DatabaseError| ImportError::Store(error.into_open_error(server.name()));
    let mut client = server.connect().await.map_err(failed)?;
    if !take_alone(&client).await.map_err(failed)? {
        return Err(OpenError::Locked { path: server.name().into() }.into());
    }
    let imported = import_alone(server, &mut client, input).await;
    leave(&client).await;
    imported
}

async fn import_alone(server: &Server, client: &mut Client, input: impl BufRead) -> Result<RowCounts, ImportError> {
    let failed = |error: DatabaseError| ImportError::Store(error.into_open_error(server.name()));
    apply_missing_alone(&server.migrations, client).await.map_err(failed)?;
    server.require_usable(client).await?;
    let begin = async {
        client.batch_execute(NO_TIMEOUTS).await?;
        let on = client.transaction().await?;
        let text = "SELECT EXISTS (SELECT FROM accounts) OR EXISTS (SELECT FROM keys) OR EXISTS (SELECT FROM jobs)";
        let has_rows: bool = on.query_one(text, &[]).await?.get(0);
        Ok::<_, DatabaseError>((on, has_rows))
    };
    let (on, has_rows) = begin.await.map_err(failed)?;
    if has_rows {
        return Err(ImportError::NotEmpty);
    }
    let mut reader = ImportReader::new(input);
    while let Some(row) = reader.next()? {
        match insert(&on, row).await {
            Ok(()) => {}
            Err(Refusal::Change(refusal)) => return Err(reader.wrong(refusal.to_string())),
            Err(Refusal::Database(DatabaseError::Values(reason) | DatabaseError::Damaged(reason))) => {
                return Err(reader.wrong(reason));
            }
            Err(Refusal::Database(error)) => return Err(failed(error)),
        }
    }
    on.commit().await.map_err(|error| failed(error.into()))?;
    Ok(reader.rows())
}

/// Inserts a row. The constraints of the tables refuse one that is there already, or whose account is not.
async fn insert(on: &Transaction<'_>, row: ImportRow) -> Result<(), Refusal> {
    let is_there = |text: &'static str, name: String| async move {
        Ok::<_, DatabaseError>(on.query_opt(text, &[&name]).await?.is_some())
    };
    match row {
        ImportRow::Account(account) => {
            if is_there("SELECT 1 FROM accounts WHERE name = $1", account.name.clone()).await? {
                return Err(ChangeError::AccountExists(account.name).into());
            }
            put_account(on, &account).await?;
        }
        ImportRow::Key(KeyHash(hash), key) => {
            let text = "SELECT 1 FROM keys WHERE id = $1 OR hash = $2";
            if on.query_opt(text, &[&key.id, &hash.as_slice()]).await?.is_some() {
                return Err(ChangeError::KeyExists.into());
            }
            require_account(on, &key.account).await?;
            put_key(on, KeyHash(hash), &key).await?;
        }
        ImportRow::Preset(preset) => {
            require_account(on, &preset.account).await?;
            let text = "SELECT 1 FROM presets WHERE account = $1 HAVING count(*) >= $2";
            let most = i64::try_from(PRESETS_PER_ACCOUNT).unwrap_or(i64::MAX);
            if on.query_opt(text, &[&preset.account, &most]).await?.is_some() {
                return Err(ChangeError::TooManyPresets(preset.account).into());
            }
            let text = "SELECT 1 FROM presets WHERE account = $1 AND name = $2 AND id <> $3";
            if on.query_opt(text, &[&preset.account, &preset.name, &preset.id]).await?.is_some() {
                return Err(ChangeError::PresetNameTaken(preset.name).into());
            }
            let record = PresetRecord::from_latest(preset.clone()).encode();
            let text = "INSERT INTO presets (account, id, name, record) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            let added = on.execute(text, &[&preset.account, &preset.id, &preset.name, &record]).await?;
            added_one(added, "preset")?;
        }
        ImportRow::Usage(account, month, usage) => {
            require_account(on, &account).await?;
            let text = "INSERT INTO usage (account, month, images, microdollars) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT DO NOTHING";
            let numbers = (stored(usage.images), stored(usage.microdollars));
            let added = on.execute(text, &[&account, &i64::from(month.0), &numbers.0, &numbers.1]).await?;
            added_one(added, "month of the account")?;
        }
        ImportRow::KeyDay(account, day, key_id, used) => {
            require_account(on, &account).await?;
            let text = "INSERT INTO key_days (account, day, key_id, images, milliseconds, microdollars) \
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
            let [images, milliseconds, microdollars] = [used.images, used.milliseconds, used.microdollars].map(stored);
            let day = i64::from(day.0);
            let added = on.execute(text, &[&account, &day, &key_id, &images, &milliseconds, &microdollars]).await?;
            added_one(added, "day of the key")?;
        }
        ImportRow::Request(account, key, request) => {
            require_account(on, &account).await?;
            let record = RequestRecord::from_latest(request.clone()).encode();
            let text = "INSERT INTO requests (account, key, at, record) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            added_one(on.execute(text, &[&account, &key, &request.at.0, &record]).await?, "request")?;
        }
        ImportRow::Job(job) => {
            require_account(on, &job.account).await?;
            if is_there("SELECT 1 FROM jobs WHERE id = $1", job.id.clone()).await? {
                return Err(ChangeError::JobExists(job.id).into());
            }
            let text = "SELECT id FROM jobs WHERE key_id = $1 AND name = $2";
            if let Some(row) = on.query_opt(text, &[&job.key_id, &job.name]).await? {
                return Err(ChangeError::JobNameTaken(row.get(0)).into());
            }
            put_job(on, &job).await?;
        }
    }
    Ok(())
}

async fn require_account(on: &Transaction<'_>, name: &str) -> Result<(), Refusal> {
    match on.query_opt("SELECT 1 FROM accounts WHERE name = $1", &[&name]).await? {
        Some(_) => Ok(()),
        None => Err(ChangeError::NoSuchAccount(name.to_owned()).into()),
    }
}

fn added_one(rows: u64, what: &str) -> Result<(), DatabaseError> {
    if rows == 1 { Ok(()) } else { Err(DatabaseError::Damaged(format!("this {what} is there already"))) }
}
