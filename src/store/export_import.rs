//! Exports the store, or some accounts of it, as JSON lines, and imports such an export into an empty store.
//!
//! ```text
//! {"row":"store","schema":7,"exported_at":1767225600}
//! {"row":"account","name":"acme","plan":"paid",…}          before everything that belongs to it
//! {"row":"key","hash":"9f86…","id":"key_…","account":"acme",…}
//! {"row":"preset",…}   {"row":"usage",…}   {"row":"key_day",…}   {"row":"request",…}   {"row":"job",…}
//! {"row":"end","rows":4711}                                an export without this line is incomplete
//! ```
//!
//! Records are in their newest form, and all of them are included, unlike in [`RedbStore::load_at`]. Clips and results
//! of jobs are left out: an imported unfinished job fails if its clip is missing.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read, Write};

use redb::Durability;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::apply_change::{apply, check_new_job, require_account};
use super::integrity_check::RowCounts;
use super::storage_fault::Fault;
use super::tables::{Reading, SCHEMA, Writing};
use super::{
    Account, Change, Day, Job, Key, KeyDay, KeyHash, Month, OpenError, Preset, RedbStore, Request, UnixSeconds, Usage,
};

/// No row has a longer line; the longest is a preset.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// What comes before and behind the rows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
enum Frame {
    Store { schema: u64, exported_at: UnixSeconds },
    End { rows: u64 },
}

/// A row as a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub(super) enum Row {
    Account(Account),
    Key {
        hash: Hex,
        #[serde(flatten)]
        key: Key,
    },
    Preset(Preset),
    Usage {
        account: String,
        month: Month,
        #[serde(flatten)]
        usage: Usage,
    },
    KeyDay {
        account: String,
        key_id: String,
        day: Day,
        #[serde(flatten)]
        used: KeyDay,
    },
    Request {
        account: String,
        key: String,
        #[serde(flatten)]
        request: TextRequest,
    },
    Job(Box<Job>),
}

impl Row {
    /// The account that it belongs to.
    pub(super) fn account(&self) -> &str {
        match self {
            Self::Account(account) => &account.name,
            Self::Key { key, .. } => &key.account,
            Self::Preset(preset) => &preset.account,
            Self::Usage { account, .. } | Self::KeyDay { account, .. } | Self::Request { account, .. } => account,
            Self::Job(job) => &job.account,
        }
    }
}

impl RowCounts {
    /// The count of rows of this kind.
    const fn of(&mut self, row: &Row) -> &mut u64 {
        match row {
            Row::Account(_) => &mut self.accounts,
            Row::Key { .. } => &mut self.keys,
            Row::Preset(_) => &mut self.presets,
            Row::Usage { .. } => &mut self.usage,
            Row::KeyDay { .. } => &mut self.key_days,
            Row::Request { .. } => &mut self.requests,
            Row::Job(_) => &mut self.jobs,
        }
    }

    const fn total(self) -> u64 {
        let Self { accounts, keys, presets, usage, key_days, requests, jobs } = self;
        accounts + keys + presets + usage + key_days + requests + jobs
    }
}

/// A billed request with its hashes as text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TextRequest {
    fingerprint: Hex,
    images: u64,
    at: UnixSeconds,
    pictures: Vec<Option<Hex>>,
}

impl From<Request> for TextRequest {
    fn from(Request { fingerprint, images, at, pictures }: Request) -> Self {
        Self { fingerprint: Hex(fingerprint), images, at, pictures: hexes(pictures) }
    }
}

impl From<TextRequest> for Request {
    fn from(TextRequest { fingerprint: Hex(fingerprint), images, at, pictures }: TextRequest) -> Self {
        Self { fingerprint, images, at, pictures: pictures.into_iter().map(|picture| Some(picture?.0)).collect() }
    }
}

/// A SHA-256 as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct Hex(pub(super) [u8; 32]);

impl From<Hex> for String {
    fn from(Hex(bytes): Hex) -> Self {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Hex {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const EXPECTED: &str = "expected 64 hexadecimal digits";
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(EXPECTED);
        }
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| EXPECTED)?;
        }
        Ok(Self(bytes))
    }
}

fn hexes(hashes: Vec<Option<[u8; 32]>>) -> Vec<Option<Hex>> {
    hashes.into_iter().map(|hash| hash.map(Hex)).collect()
}

/// Why a store was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The lines could not be written.
    #[error("cannot write the export")]
    Output(#[source] io::Error),
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The store has rows, which would be mixed with the imported ones.
    #[error("the store has rows already; only an empty one takes an import")]
    NotEmpty,
    /// A line is invalid or out of place.
    #[error("line {number}: {reason}")]
    Line {
        /// The line number, from 1.
        number: u64,
        /// What is wrong.
        reason: String,
    },
    /// The lines could not be read.
    #[error("cannot read the import")]
    Input(#[source] io::Error),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] OpenError),
}

impl RedbStore {
    /// Writes a consistent snapshot of what belongs to `accounts`, or of the whole store if there are none.
    ///
    /// # Errors
    /// When an account does not exist, a row is damaged, or the output cannot be written.
    pub fn export(&self, output: impl Write, accounts: &BTreeSet<String>) -> Result<RowCounts, ExportError> {
        self.read(|tables| {
            let mut writer = match ExportWriter::begin(output, accounts) {
                Ok(writer) => writer,
                Err(error) => return Ok(Err(ExportError::Output(error))),
            };
            for row in rows(tables)? {
                if let Err(error) = writer.row(&row?) {
                    return Ok(Err(ExportError::Output(error)));
                }
            }
            Ok(writer.finish().map_err(ExportError::Output))
        })?
    }

    /// Reads an export into this store, which must be empty, in one transaction.
    ///
    /// # Errors
    /// When the store has rows, a line is invalid or missing, or the store cannot be written.
    pub fn import(&self, mut input: impl BufRead) -> Result<RowCounts, ImportError> {
        let failed = |fault| ImportError::from(self.failed(fault));
        let imported = self.database.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            let imported = import(&mut Writing::open(&transaction)?, &mut input, failed);
            if imported.is_ok() {
                transaction.commit()?;
            }
            Ok(imported)
        });
        imported.map_err(failed)?
    }
}

/// Writes the lines of an export, and counts the rows.
pub(super) struct ExportWriter<'a, W> {
    output: W,
    accounts: &'a BTreeSet<String>,
    /// The names in `accounts` whose accounts are not written yet.
    missing: BTreeSet<&'a str>,
    rows: RowCounts,
}

impl<'a, W: Write> ExportWriter<'a, W> {
    /// Begins an export.
    pub(super) fn begin(output: W, accounts: &'a BTreeSet<String>) -> io::Result<Self> {
        let missing = accounts.iter().map(String::as_str).collect();
        let mut writer = Self { output, accounts, missing, rows: RowCounts::default() };
        writer.line(&Frame::Store { schema: SCHEMA, exported_at: UnixSeconds::now() })?;
        Ok(writer)
    }

    /// Writes a row, if it belongs to one of the accounts.
    pub(super) fn row(&mut self, row: &Row) -> io::Result<()> {
        if !self.accounts.is_empty() && !self.accounts.contains(row.account()) {
            return Ok(());
        }
        if let Row::Account(account) = row {
            self.missing.remove(account.name.as_str());
        }
        *self.rows.of(row) += 1;
        self.line(row)
    }

    /// Ends the export, without which it is incomplete. Fails where a named account does not exist.
    pub(super) fn finish(mut self) -> io::Result<RowCounts> {
        if let Some(name) = self.missing.first() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no account `{name}`")));
        }
        self.line(&Frame::End { rows: self.rows.total() })?;
        self.output.flush()?;
        Ok(self.rows)
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.output, line).map_err(io::Error::from)?;
        self.output.write_all(b"\n")
    }
}

/// All rows, accounts first.
fn rows(tables: &Reading<'_>) -> Result<impl Iterator<Item = Result<Row, Fault>>, Fault> {
    let accounts = tables.accounts.all()?.map(|row| Ok(Row::Account(row?.1?)));
    let keys = tables.keys.rows.all()?.map(|row| {
        let (hash, key) = row?;
        Ok(Row::Key { hash: Hex(*hash.value()), key: key? })
    });
    let presets = tables.presets.rows.all()?.map(|row| Ok(Row::Preset(row?.1?)));
    let usage = tables.usage.all()?.map(|row| {
        let (key, usage) = row?;
        let (month, account) = key.value();
        Ok(Row::Usage { account: account.to_owned(), month: Month(month), usage: usage? })
    });
    let key_days = tables.key_days.all()?.map(|row| {
        let (key, used) = row?;
        let (account, day, key_id) = key.value();
        Ok(Row::KeyDay { account: account.to_owned(), key_id: key_id.to_owned(), day: Day(day), used: used? })
    });
    let requests = tables.requests.rows.all()?.map(|row| {
        let (names, request) = row?;
        let [account, key] = <[&str; 2]>::from(names.value()).map(str::to_owned);
        Ok(Row::Request { account, key, request: request?.into() })
    });
    let jobs = tables.jobs.rows.all()?.map(|row| Ok(Row::Job(Box::new(row?.1?))));
    Ok(accounts.chain(keys).chain(presets).chain(usage).chain(key_days).chain(requests).chain(jobs))
}

/// Reads the lines of an export, up to its end.
pub(super) struct ImportReader<R> {
    input: R,
    /// Of the last line.
    number: u64,
    written_by: u64,
    rows: RowCounts,
}

impl<R: BufRead> ImportReader<R> {
    /// Reads the first line.
    pub(super) fn begin(input: R) -> Result<Self, ImportError> {
        let mut reader = Self { input, number: 0, written_by: SCHEMA, rows: RowCounts::default() };
        let value = reader.value()?;
        let reason = match parse(value) {
            Ok(Frame::Store { schema: schema @ 1..=SCHEMA, .. }) => return Ok(Self { written_by: schema, ..reader }),
            Ok(Frame::Store { schema, .. }) => {
                format!("schema {schema} is from a newer version; this one reads up to {SCHEMA}")
            }
            Ok(Frame::End { .. }) | Err(_) => "the first line does not say that this is an export".to_owned(),
        };
        Err(reader.wrong(reason))
    }

    /// The rows so far.
    pub(super) const fn rows(&self) -> RowCounts {
        self.rows
    }

    /// The error of the last line.
    pub(super) const fn wrong(&self, reason: String) -> ImportError {
        ImportError::Line { number: self.number, reason }
    }

    /// The next row, which is counted; `None` after a complete export.
    pub(super) fn next(&mut self) -> Result<Option<Row>, ImportError> {
        let value = self.value()?;
        let row = self.row(value).map_err(|reason| self.wrong(reason))?;
        if let Some(row) = &row {
            *self.rows.of(row) += 1;
        }
        Ok(row)
    }

    /// The next line.
    fn value(&mut self) -> Result<Value, ImportError> {
        self.number += 1;
        let mut bytes = Vec::new();
        let read = Read::take(&mut self.input, MAX_LINE_BYTES + 1).read_until(b'\n', &mut bytes);
        if read.map_err(ImportError::Input)? == 0 {
            return Err(self.wrong("the end is missing; the export is not whole".into()));
        }
        if bytes.len() as u64 > MAX_LINE_BYTES {
            return Err(self.wrong("longer than any row".into()));
        }
        serde_json::from_slice(&bytes).map_err(|error| self.wrong(format!("no JSON: {error}")))
    }

    /// The row of a line; `None` for the end.
    fn row(&self, value: Value) -> Result<Option<Row>, String> {
        if value["row"] == "store" {
            return Err("a second export begins here".into());
        }
        if value["row"] == "end" {
            let (exported, found) = (&value["rows"], self.rows.total());
            let is_whole = *exported == found;
            return if is_whole {
                Ok(None)
            } else {
                Err(format!("{exported} rows were exported and {found} are here"))
            };
        }
        let row: Row = parse(upgraded(value, self.written_by))?;
        if let Row::Usage { month, .. } = &row
            && !month.is_valid()
        {
            return Err(format!("there is no month {month}"));
        }
        if let Row::Job(job) = &row
            && !Job::is_id(&job.id)
        {
            return Err(format!("no job can be called {}", job.id));
        }
        Ok(Some(row))
    }
}

/// Reads an export into tables, which must be empty. `failed` converts a fault of the file.
fn import(
    tables: &mut Writing<'_>,
    input: &mut dyn BufRead,
    failed: impl Fn(Fault) -> ImportError,
) -> Result<RowCounts, ImportError> {
    // Every other row belongs to an account.
    if !tables.accounts.is_empty().map_err(|error| failed(error.into()))? {
        return Err(ImportError::NotEmpty);
    }
    let mut reader = ImportReader::begin(input)?;
    while let Some(row) = reader.next()? {
        insert(tables, row).map_err(|fault| match fault {
            Fault::Refused(_) | Fault::Damaged(_) => reader.wrong(fault.to_string()),
            Fault::Storage(_) | Fault::Panicked(_) | Fault::Closed => failed(fault),
        })?;
    }
    Ok(reader.rows())
}

/// A line with the fields that later schemas have added to its row.
fn upgraded(mut value: Value, schema: u64) -> Value {
    if schema == SCHEMA {
        return value;
    }
    let pictures = json!(hexes(Request::pictures_before_v2()));
    let added = [
        (4, "account", "model", Value::Null),
        (5, "request", "pictures", pictures),
        (6, "key", "expires_at", Value::Null),
        (6, "key", "images_per_month", Value::Null),
        (6, "key", "previous", Value::Null),
        (6, "key", "scopes", json!([])),
    ];
    for (since, kind, field, default) in added {
        if schema < since && value["row"] == kind && value.get(field).is_none() {
            value[field] = default;
        }
    }
    value
}

/// Parses a line, which must serialize to equal JSON: no field is unknown, and none of its schema is missing.
fn parse<T: Serialize + DeserializeOwned>(value: Value) -> Result<T, String> {
    let line: T = serde_json::from_value(value.clone()).map_err(|error| format!("no row of a store: {error}"))?;
    let known = serde_json::to_value(&line).map_err(|error| error.to_string())?;
    if known == value { Ok(line) } else { Err("it has fields that this version does not know, or lacks some".into()) }
}

/// Adds a row with the checks of a change, without replacing any.
fn insert(tables: &mut Writing<'_>, row: Row) -> Result<(), Fault> {
    let duplicate = |what: &str| Err(Fault::Damaged(format!("this {what} is there already")));
    if !matches!(row, Row::Account(_)) {
        require_account(tables, row.account())?;
    }
    match row {
        Row::Account(account) => drop(apply(tables, Change::CreateAccount { account, first_key: None })?),
        Row::Key { hash: Hex(hash), key } => drop(apply(tables, Change::CreateKey { hash: KeyHash(hash), key })?),
        Row::Preset(preset) => {
            if tables.presets.rows.contains((&preset.account, &preset.id))? {
                return duplicate("preset");
            }
            apply(tables, Change::PutPreset { preset, replaces: false })?;
        }
        Row::Usage { account, month, usage } => {
            if tables.usage.contains((month.0, &account))? {
                return duplicate("month of the account");
            }
            tables.usage.add(&account, month, usage)?;
        }
        Row::KeyDay { account, key_id, day, used } => {
            if tables.key_days.contains((&account, day.0, &key_id))? {
                return duplicate("day of the key");
            }
            tables.key_days.add(&account, day, &key_id, used)?;
        }
        Row::Request { account, key, request } => {
            if tables.requests.rows.contains((&account, &key))? {
                return duplicate("request");
            }
            tables.requests.put(&account, &key, &request.into())?;
        }
        Row::Job(job) => {
            check_new_job(tables, &job)?;
            tables.jobs.put(&job)?;
        }
    }
    Ok(())
}
