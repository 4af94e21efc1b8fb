//! Queries of the tables, and the conversion of their rows to records.

use std::collections::HashSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::pin::pin;

use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row, Transaction};

use super::connect::{Connection, Driver, Statements};
use crate::store::account_turns::{next_in_turn, turn_of};
use crate::store::export_import::{ExportWriter, ExportedAccounts, TransferError};
use crate::store::integrity_check::RowCounts;
use crate::store::records::{AccountRecord, JobRecord, KeyRecord, PresetRecord, Record, RequestRecord};
use crate::store::storage_fault::Fault;
use crate::store::unreadable_jobs::skip_unreadable;
use crate::store::{
    Account, Day, GeneratedCount, Job, Key, KeyDay, KeyHash, Month, Preset, REQUEST_SECONDS, Request, Rows,
    UnixSeconds, Usage,
};

/// Parameters of a query.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A query whose parameters are arrays of equal lengths. One without elements is not sent.
pub(super) struct Query<'a> {
    pub(super) text: &'static str,
    pub(super) parameters: Parameters<'a>,
    /// Of each array.
    pub(super) elements: usize,
}

/// A transaction with the prepared statements of its connection. Dropped, it is rolled back at the next use of the connection.
pub(super) struct Queries<'a> {
    pub(super) transaction: Transaction<'a>,
    pub(super) statements: &'a mut Statements,
    pub(super) driver: &'a Driver,
    /// The daemon whose jobs these are; `None` for a process that runs none.
    pub(super) daemon: Option<i64>,
}

impl Connection {
    /// A transaction that writes.
    pub(super) fn writing(&mut self) -> Result<Queries<'_>, Fault> {
        let Self { client, statements, driver, daemon } = self;
        let transaction = driver.run(client.transaction())?;
        Ok(Queries { transaction, statements, driver, daemon: *daemon })
    }

    /// A transaction that reads one snapshot.
    pub(super) fn snapshot(&mut self) -> Result<Queries<'_>, Fault> {
        let Self { client, statements, driver, daemon } = self;
        let builder = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let transaction = driver.run(builder.start())?;
        Ok(Queries { transaction, statements, driver, daemon: *daemon })
    }
}

impl Queries<'_> {
    pub(super) fn rows(&mut self, text: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>, Fault> {
        self.driver.run(async {
            let statement = self.statements.get(&self.transaction, text).await?;
            self.transaction.query(&statement, parameters).await
        })
    }

    /// The rows of several queries, in one round trip once their statements are prepared.
    pub(super) fn rows_of_all<const N: usize>(&mut self, queries: [Query<'_>; N]) -> Result<[Vec<Row>; N], Fault> {
        let answers = self.driver.run(async {
            let mut statements = Vec::with_capacity(N);
            for Query { text, elements, .. } in &queries {
                let is_sent = *elements > 0;
                statements.push(if is_sent { Some(self.statements.get(&self.transaction, text).await?) } else { None });
            }
            let transaction = &self.transaction;
            // All are sent before the first answer is awaited.
            let answers = statements.iter().zip(&queries).map(|(statement, query)| async move {
                match statement {
                    Some(statement) => transaction.query(statement, query.parameters).await,
                    None => Ok(Vec::new()),
                }
            });
            try_join_all(answers).await
        });
        let mut answers = answers?.into_iter();
        Ok(std::array::from_fn(|_| answers.next().unwrap_or_default()))
    }

    pub(super) fn row(&mut self, text: &'static str, parameters: Parameters<'_>) -> Result<Option<Row>, Fault> {
        Ok(self.rows(text, parameters)?.into_iter().next())
    }

    pub(super) fn execute(&mut self, text: &'static str, parameters: Parameters<'_>) -> Result<(), Fault> {
        self.count_changed(text, parameters).map(drop)
    }

    /// Runs a statement; returns how many rows it changed.
    pub(super) fn count_changed(&mut self, text: &'static str, parameters: Parameters<'_>) -> Result<u64, Fault> {
        self.driver.run(async {
            let statement = self.statements.get(&self.transaction, text).await?;
            self.transaction.execute(&statement, parameters).await
        })
    }

    /// Runs statements without parameters.
    pub(super) fn batch(&mut self, text: &str) -> Result<(), Fault> {
        self.driver.run(self.transaction.batch_execute(text))
    }

    /// Whether a query has a row.
    pub(super) fn has(&mut self, text: &'static str, parameters: Parameters<'_>) -> Result<bool, Fault> {
        Ok(self.row(text, parameters)?.is_some())
    }

    /// Calls `found` with each row of a whole table, without holding all of them.
    fn each<E>(
        &mut self,
        text: &'static str,
        mut found: impl FnMut(&Row) -> Result<(), TransferError<E>>,
    ) -> Result<(), TransferError<E>> {
        let no_parameters: [i64; 0] = [];
        let mut rows = pin!(self.driver.run(self.transaction.query_raw(text, no_parameters))?);
        while let Some(row) = self.driver.run(rows.try_next())? {
            found(&row)?;
        }
        Ok(())
    }

    /// What a start loads.
    pub(super) fn load(&mut self, now: UnixSeconds) -> Result<Rows, Fault> {
        let first = Month::of(now).previous();
        let mut rows = Rows::default();
        for row in self.rows("SELECT record FROM accounts ORDER BY name", &[])? {
            rows.accounts.push(account(&row)?);
        }
        for row in self.rows("SELECT hash, record FROM keys ORDER BY hash", &[])? {
            rows.keys.push(key(&row)?);
        }
        let text = "SELECT account, month, images, microdollars FROM usage WHERE month >= $1 ORDER BY month, account";
        for row in self.rows(text, &[&i64::from(first.0)])? {
            rows.usage.push(usage(&row)?);
        }
        let text = "SELECT account, day, key_id, images, milliseconds, microdollars FROM key_days WHERE day >= $1 \
             ORDER BY account, day, key_id";
        for row in self.rows(text, &[&i64::from(Day::first_of(first).0)])? {
            rows.key_days.push(key_day(&row)?);
        }
        let text = "SELECT account, key, record FROM requests WHERE at >= $1 ORDER BY at, account, key";
        for row in self.rows(text, &[&now.0.saturating_sub(REQUEST_SECONDS)])? {
            rows.requests.push(request(&row)?);
        }
        rows.generated = self.generated()?;
        Ok(rows)
    }

    /// Backdrops of the last day on which one was generated.
    pub(super) fn generated(&mut self) -> Result<Option<GeneratedCount>, Fault> {
        Ok(self.number("generated")?.map(|number| GeneratedCount::unpacked(number.cast_unsigned())))
    }

    pub(super) fn preset(&mut self, account: &str, id: &str) -> Result<Option<Preset>, Fault> {
        let row = self.row("SELECT record FROM presets WHERE account = $1 AND id = $2", &[&account, &id])?;
        row.map(|row| preset(&row)).transpose()
    }

    pub(super) fn preset_named(&mut self, account: &str, name: &str) -> Result<Option<Preset>, Fault> {
        let row = self.row("SELECT record FROM presets WHERE account = $1 AND name = $2", &[&account, &name])?;
        row.map(|row| preset(&row)).transpose()
    }

    pub(super) fn presets(&mut self, account: &str, after: Option<&str>, limit: usize) -> Result<Vec<Preset>, Fault> {
        let text =
            "SELECT record FROM presets WHERE account = $1 AND ($2::text IS NULL OR id > $2) ORDER BY id LIMIT $3";
        self.rows(text, &[&account, &after, &limit_of(limit)])?.iter().map(preset).collect()
    }

    pub(super) fn key_days(
        &mut self,
        account: &str,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<(Day, String, KeyDay)>, Fault> {
        let text = "SELECT account, day, key_id, images, milliseconds, microdollars FROM key_days \
             WHERE account = $1 AND day BETWEEN $2 AND $3 ORDER BY day, key_id LIMIT $4";
        let rows = self.rows(text, &[&account, &i64::from(from.0), &i64::from(to.0), &limit_of(limit)])?;
        rows.iter().map(|row| key_day(row).map(|(_, day, key_id, used)| (day, key_id, used))).collect()
    }

    pub(super) fn job(&mut self, id: &str) -> Result<Option<Job>, Fault> {
        self.row("SELECT id, record FROM jobs WHERE id = $1", &[&id])?.map(|row| job(&row)).transpose()
    }

    pub(super) fn job_named(&mut self, key_id: &str, name: &str) -> Result<Option<Job>, Fault> {
        let row = self.row("SELECT id, record FROM jobs WHERE key_id = $1 AND name = $2", &[&key_id, &name])?;
        row.map(|row| job(&row)).transpose()
    }

    pub(super) fn jobs(&mut self, key_id: &str, after: Option<(i64, &str)>, limit: usize) -> Result<Vec<Job>, Fault> {
        // No id and no place sorts behind these.
        let (place, id) = after.unwrap_or((i64::MAX, "\u{10ffff}"));
        let text = "SELECT id, record FROM jobs WHERE key_id = $1 AND (place, id) < ($2, $3) \
             ORDER BY place DESC, id DESC LIMIT $4";
        let query = |queries: &mut Self, limit: i64| queries.rows(text, &[&key_id, &place, &id, &limit]);
        self.readable_jobs(limit, query, |_, job| job)
    }

    pub(super) fn waiting_jobs(&mut self, limit: usize) -> Result<Vec<Job>, Fault> {
        let text = "SELECT id, record FROM jobs WHERE state IN ('queued', 'processing') \
             AND owner IS NOT DISTINCT FROM $2 ORDER BY place, id LIMIT $1";
        self.readable_own_jobs(text, limit, |_, job| job)
    }

    pub(super) fn running_jobs(&mut self) -> Result<Vec<Job>, Fault> {
        let text = "SELECT id, record FROM jobs WHERE state = 'processing' AND owner IS NOT DISTINCT FROM $1 \
             ORDER BY place, id";
        let daemon = self.daemon;
        self.rows(text, &[&daemon])?.iter().map(readable_job).filter_map(Result::transpose).collect()
    }

    /// See [`next_in_turn`].
    pub(super) fn next_job(&mut self, taken: &HashSet<String>) -> Result<Option<Job>, Fault> {
        let last_turn = self.number("last_turn")?.map(i64::cast_unsigned);
        let mut taken: Vec<String> = taken.iter().cloned().collect();
        let text = "SELECT id, record FROM (SELECT DISTINCT ON (key_id) place, id, record FROM jobs \
             WHERE state = 'queued' AND id <> ALL ($1) AND owner IS NOT DISTINCT FROM $2 \
             ORDER BY key_id, place, id) first_of_key ORDER BY place, id";
        let daemon = self.daemon;
        loop {
            let (mut oldest_of_keys, mut unreadable) = (Vec::new(), Vec::new());
            for row in self.rows(text, &[&taken, &daemon])? {
                match readable_job(&row)? {
                    Some(job) => oldest_of_keys.push(job),
                    None => unreadable.push(row.get(0)),
                }
            }
            if unreadable.is_empty() {
                return next_in_turn(last_turn, oldest_of_keys.into_iter().map(Ok));
            }
            // Other jobs of the same keys are next.
            taken.append(&mut unreadable);
        }
    }

    pub(super) fn expiring_jobs(&mut self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, Fault> {
        let text = "SELECT id, record, due_at FROM jobs WHERE due_at IS NOT NULL AND owner IS NOT DISTINCT FROM $2 \
             ORDER BY due_at, id LIMIT $1";
        self.readable_own_jobs(text, limit, |row, job| (UnixSeconds(row.get(2)), job))
    }

    pub(super) fn webhook_jobs(&mut self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, Fault> {
        let text = "SELECT id, record, webhook_at FROM jobs WHERE webhook_at IS NOT NULL \
             AND owner IS NOT DISTINCT FROM $2 ORDER BY webhook_at, id LIMIT $1";
        self.readable_own_jobs(text, limit, |row, job| (UnixSeconds(row.get(2)), job))
    }

    /// Up to `limit` jobs of a query with the parameters limit and daemon.
    fn readable_own_jobs<T>(
        &mut self,
        text: &'static str,
        limit: usize,
        found: impl Fn(&Row, Job) -> T,
    ) -> Result<Vec<T>, Fault> {
        let daemon = self.daemon;
        let query = |queries: &mut Self, limit: i64| queries.rows(text, &[&limit, &daemon]);
        self.readable_jobs(limit, query, found)
    }

    /// Up to `limit` jobs of a query, which is given the number of its first rows to return: those that cannot be read do not
    /// count.
    fn readable_jobs<T>(
        &mut self,
        limit: usize,
        query: impl Fn(&mut Self, i64) -> Result<Vec<Row>, Fault>,
        found: impl Fn(&Row, Job) -> T,
    ) -> Result<Vec<T>, Fault> {
        let mut at_most = limit;
        loop {
            let rows = query(self, limit_of(at_most))?;
            let jobs = rows.iter().map(|row| Ok::<_, Fault>(readable_job(row)?.map(|job| found(row, job))));
            let mut jobs: Vec<T> = jobs.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            if jobs.len() >= limit || rows.len() < at_most {
                jobs.truncate(limit);
                return Ok(jobs);
            }
            at_most = at_most.saturating_mul(2);
        }
    }

    /// Records that a job of an account was started.
    pub(super) fn record_turn(&mut self, account: &str) -> Result<(), Fault> {
        self.put_number("last_turn", turn_of(account).cast_signed())
    }

    /// A single number.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<i64>, Fault> {
        let row = self.row("SELECT number FROM meta WHERE name = $1", &[&name])?;
        Ok(row.map(|row| row.get(0)))
    }

    /// Writes a single number.
    pub(super) fn put_number(&mut self, name: &str, number: i64) -> Result<(), Fault> {
        let text = "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET number = $2";
        self.execute(text, &[&name, &number])
    }

    /// Writes all rows of some accounts.
    pub(super) fn export(
        &mut self,
        output: impl Write,
        accounts: &ExportedAccounts,
    ) -> Result<RowCounts, TransferError<io::Error>> {
        let data = TransferError::Data;
        let mut writer = ExportWriter::begin(output, accounts).map_err(data)?;
        self.each("SELECT record FROM accounts ORDER BY name", |row| writer.account(account(row)?).map_err(data))?;
        self.each("SELECT hash, record FROM keys ORDER BY hash", |row| {
            let (hash, key) = key(row)?;
            writer.key(hash, key).map_err(data)
        })?;
        self.each("SELECT record FROM presets ORDER BY account, id", |row| writer.preset(preset(row)?).map_err(data))?;
        self.each("SELECT account, month, images, microdollars FROM usage ORDER BY month, account", |row| {
            let (account, month, usage) = usage(row)?;
            writer.usage(account, month, usage).map_err(data)
        })?;
        let text = "SELECT account, day, key_id, images, milliseconds, microdollars FROM key_days \
             ORDER BY account, day, key_id";
        self.each(text, |row| {
            let (account, day, key_id, used) = key_day(row)?;
            writer.key_day(account, day, key_id, used).map_err(data)
        })?;
        self.each("SELECT account, key, record FROM requests ORDER BY account, key", |row| {
            let (account, key, request) = request(row)?;
            writer.request(account, key, request).map_err(data)
        })?;
        self.each("SELECT id, record FROM jobs ORDER BY id", |row| writer.job(job(row)?).map_err(data))?;
        writer.finish().map_err(data)
    }
}

pub(super) fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn record<R: Record>(row: &Row, column: usize, what: impl Display) -> Result<R::Latest, Fault> {
    R::decode(row.get(column)).map(Record::latest).map_err(|error| Fault::unreadable(what, &error))
}

pub(super) fn account(row: &Row) -> Result<Account, Fault> {
    record::<AccountRecord>(row, 0, "an account")
}

/// Of the columns `hash` and `record`.
pub(super) fn key(row: &Row) -> Result<(KeyHash, Key), Fault> {
    let hash: [u8; 32] =
        row.get::<_, &[u8]>(0).try_into().map_err(|_| Fault::Damaged("a key's hash does not have 32 bytes".into()))?;
    Ok((KeyHash(hash), record::<KeyRecord>(row, 1, "a key")?))
}

pub(super) fn preset(row: &Row) -> Result<Preset, Fault> {
    record::<PresetRecord>(row, 0, "a preset")
}

/// Of the columns `id` and `record`.
fn job(row: &Row) -> Result<Job, Fault> {
    record::<JobRecord>(row, 1, format_args!("job {}", row.get::<_, &str>(0)))
}

/// The same; `None` where the record cannot be read.
pub(super) fn readable_job(row: &Row) -> Result<Option<Job>, Fault> {
    skip_unreadable(row.get(0), job(row))
}

pub(super) fn request(row: &Row) -> Result<(String, String, Request), Fault> {
    Ok((row.get(0), row.get(1), record::<RequestRecord>(row, 2, "a request")?))
}

pub(super) fn usage(row: &Row) -> Result<(String, Month, Usage), Fault> {
    let usage = Usage { images: count(row, 2), microdollars: count(row, 3) };
    Ok((row.get(0), Month(number(row, 1)?), usage))
}

pub(super) fn key_day(row: &Row) -> Result<(String, Day, String, KeyDay), Fault> {
    let used = KeyDay { images: count(row, 3), milliseconds: count(row, 4), microdollars: count(row, 5) };
    Ok((row.get(0), Day(number(row, 1)?), row.get(2), used))
}

/// A column that is never negative.
pub(super) fn count(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}

/// The largest number of a column.
pub(super) const LARGEST: u64 = i64::MAX.cast_unsigned();

/// A number for such a column.
pub(super) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(row: &Row, column: usize) -> Result<u32, Fault> {
    let number: i64 = row.get(column);
    u32::try_from(number).map_err(|_| Fault::Damaged(format!("there is no day or month {number}")))
}
