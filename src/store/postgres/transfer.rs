//! Exports and imports a database: one snapshot, one transaction.

use std::io::{self, BufRead, Write};
use std::pin::pin;

use futures_util::TryStreamExt;
use tokio_postgres::{Client, IsolationLevel, Row, Transaction};

use super::connect::PostgresServer;
use super::error::{DatabaseError, Refusal};
use super::rows::{
    Parameters, account, add_account, job, key, key_day, limit_of, preset, put_job, put_key, request, stored, usage,
};
use super::schema::{apply_missing_alone, leave, take_alone};
use crate::store::export_import::{ExportWriter, Hex, ImportReader, Row as ExportRow};
use crate::store::integrity_check::RowCounts;
use crate::store::records::{PresetRecord, Record, RequestRecord};
use crate::store::{
    ChangeError, ExportError, ExportedAccounts, ImportError, KeyHash, OpenError, PRESETS_PER_ACCOUNT, Request,
};

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

impl PostgresServer {
    /// Writes a consistent snapshot of the whole database, or of what belongs to some accounts, also while a daemon uses it.
    ///
    /// # Errors
    /// When an account does not exist, the database cannot be read, has tables of another version, a row is damaged, or the output
    /// cannot be written.
    pub async fn export(&self, output: impl Write, accounts: &ExportedAccounts) -> Result<RowCounts, ExportError> {
        let failed = |error: DatabaseError| ExportError::Store(error.into_open_error(self.name()));
        let mut client = self.connect().await.map_err(failed)?;
        // This version would leave out what a later one has added.
        self.require_own(&client).await?;
        export_rows(&mut client, output, accounts).await.map_err(|error| match error {
            Exporting::Database(error) => failed(error),
            Exporting::Output(error) => ExportError::Output(error),
        })
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
    let mut each = async |text: &'static str, convert: fn(&Row) -> Result<ExportRow, DatabaseError>| {
        let no_parameters: [i64; 0] = [];
        // Not all of them at once: a store may be larger than the memory.
        let mut rows = pin!(on.query_raw(text, no_parameters).await?);
        while let Some(row) = rows.try_next().await? {
            writer.row(&convert(&row)?).map_err(data)?;
        }
        Ok::<_, Exporting>(())
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
    each("SELECT id, record, progress FROM jobs ORDER BY id", |row| Ok(ExportRow::Job(Box::new(job(row)?)))).await?;
    writer.finish().map_err(data)
}

async fn import_alone(
    server: &PostgresServer,
    client: &mut Client,
    input: impl BufRead,
) -> Result<RowCounts, ImportError> {
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
    let mut reader = ImportReader::begin(input)?;
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
async fn insert(on: &Transaction<'_>, row: ExportRow) -> Result<(), Refusal> {
    let exists =
        async |text: &str, parameters: Parameters<'_>| on.query_opt(text, parameters).await.map(|row| row.is_some());
    let name = row.account();
    let has_account = exists("SELECT 1 FROM accounts WHERE name = $1", &[&name]).await?;
    let (what, added) = match row {
        ExportRow::Account(account) => return add_account(on, &account).await,
        row if !has_account => return Err(ChangeError::NoSuchAccount(row.account().to_owned()).into()),
        ExportRow::Key { hash: Hex(hash), key } => {
            if exists("SELECT 1 FROM keys WHERE id = $1 OR hash = $2", &[&key.id, &hash.as_slice()]).await? {
                return Err(ChangeError::KeyExists.into());
            }
            return Ok(put_key(on, KeyHash(hash), &key).await?);
        }
        ExportRow::Preset(preset) => {
            let text = "SELECT 1 FROM presets WHERE account = $1 HAVING count(*) >= $2";
            if exists(text, &[&preset.account, &limit_of(PRESETS_PER_ACCOUNT)]).await? {
                return Err(ChangeError::TooManyPresets(preset.account).into());
            }
            let text = "SELECT 1 FROM presets WHERE account = $1 AND name = $2 AND id <> $3";
            if exists(text, &[&preset.account, &preset.name, &preset.id]).await? {
                return Err(ChangeError::PresetNameTaken(preset.name).into());
            }
            let record = PresetRecord::from_latest(preset.clone()).encode();
            let text = "INSERT INTO presets (account, id, name, record) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            ("preset", on.execute(text, &[&preset.account, &preset.id, &preset.name, &record]).await?)
        }
        ExportRow::Usage { account, month, usage } => {
            let text = "INSERT INTO usage (account, month, images, microdollars) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT DO NOTHING";
            let [images, microdollars] = [usage.images, usage.microdollars].map(stored);
            let added = on.execute(text, &[&account, &i64::from(month.0), &images, &microdollars]).await?;
            ("month of the account", added)
        }
        ExportRow::KeyDay { account, key_id, day, used } => {
            let text = "INSERT INTO key_days (account, day, key_id, images, milliseconds, microdollars) \
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
            let [images, milliseconds, microdollars] = [used.images, used.milliseconds, used.microdollars].map(stored);
            let day = i64::from(day.0);
            let added = on.execute(text, &[&account, &day, &key_id, &images, &milliseconds, &microdollars]).await?;
            ("day of the key", added)
        }
        ExportRow::Request { account, key, request } => {
            let request = Request::from(request);
            let at = request.at.0;
            let record = RequestRecord::from_latest(request).encode();
            let text = "INSERT INTO requests (account, key, at, record) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            ("request", on.execute(text, &[&account, &key, &at, &record]).await?)
        }
        ExportRow::Job(job) => {
            if exists("SELECT 1 FROM jobs WHERE id = $1", &[&job.id]).await? {
                return Err(ChangeError::JobExists(job.id).into());
            }
            let text = "SELECT id FROM jobs WHERE key_id = $1 AND name = $2";
            if let Some(row) = on.query_opt(text, &[&job.key_id, &job.name]).await? {
                return Err(ChangeError::JobNameTaken(row.get(0)).into());
            }
            return Ok(put_job(on, &job).await?);
        }
    };
    if added == 1 { Ok(()) } else { Err(DatabaseError::Damaged(format!("this {what} is there already")).into()) }
}
