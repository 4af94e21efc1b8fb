//! Exports the store, or some accounts of it, as JSON lines, and imports such an export into an empty store.
//!
//! ```text
//! {"row":"store","schema":6,"exported_at":1767225600}
//! {"row":"account","name":"acme","plan":"paid",…}          before everything that belongs to it
//! {"row":"key","hash":"9f86…","id":"key_…","account":"acme",…}
//! {"row":"preset",…}   {"row":"usage",…}   {"row":"key_day",…}   {"row":"request",…}   {"row":"job",…}
//! {"row":"end","rows":4711}                                an export without this line is incomplete
//! ```
//!
//! Records are in their newest form, and all of them are included, unlike in [`super::StateStore::load`]. Clips and results
//! of jobs are not: an unfinished job fails where its clip is missing.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read, Write};

use redb::{Durability, ReadableDatabase};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::apply_change::{check_new_account, check_new_job, check_new_key, require_account};
use super::database_file::{catch_panic, read_error};
use super::integrity_check::RowCounts;
use super::storage_fault::{ApplyError, Fault};
use super::tables::{Reading, SCHEMA, Writing};
use super::{
    Account, ChangeError, Day, Job, Key, KeyDay, KeyHash, Month, OpenError, PRESETS_PER_ACCOUNT, Preset, RedbStore,
    Request, UnixSeconds, Usage,
};

/// No row has a longer line; the longest is a preset.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// The first schema whose accounts have an inference mode.
const WITH_MODELS: u64 = 4;

/// The first schema whose requests list the billed pictures.
const WITH_PICTURES: u64 = 5;

/// The first schema whose keys have restrictions.
const WITH_KEY_RESTRICTIONS: u64 = 6;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
enum Line {
    Store {
        schema: u64,
        exported_at: UnixSeconds,
    },
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
        fingerprint: Hex,
        images: u64,
        at: UnixSeconds,
        pictures: Vec<Option<Hex>>,
    },
    Job(Box<Job>),
    End {
        rows: u64,
    },
}

/// A SHA-256 as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
struct Hex([u8; 32]);

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

/// The accounts whose rows are exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExportedAccounts {
    /// All of them.
    #[default]
    All,
    /// Those of these names.
    Named(BTreeSet<String>),
}

impl ExportedAccounts {
    fn contain(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(name),
        }
    }
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

/// An error where the name of the file or database is not known.
pub(super) enum TransferError<E> {
    /// The store failed.
    Fault(Fault),
    /// Anything else.
    Data(E),
}

impl<E, F: Into<Fault>> From<F> for TransferError<E> {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

impl RedbStore {
    /// Writes a consistent snapshot of the whole store, or of what belongs to some accounts.
    ///
    /// # Errors
    /// When an account does not exist, a row is damaged, or the output cannot be written.
    pub fn export(&self, mut output: impl Write, accounts: &ExportedAccounts) -> Result<RowCounts, ExportError> {
        catch_panic(self.path(), || {
            let result = self
                .database()
                .with(|database| export(&Reading::open(&database.begin_read()?)?, &mut output, accounts));
            match result {
                Ok(rows) => Ok(Ok(rows)),
                Err(TransferError::Data(error)) => Ok(Err(ExportError::Output(error))),
                Err(TransferError::Fault(fault)) => Err(read_error(self.path(), fault)),
            }
        })?
    }

    /// Reads an export into this store, which must be empty, in one transaction.
    ///
    /// # Errors
    /// When the store has rows, a line is invalid or missing, or the store cannot be written.
    pub fn import(&self, mut input: impl BufRead) -> Result<RowCounts, ImportError> {
        catch_panic(self.path(), || {
            let result = self.database().with(|database| {
                let mut transaction = database.begin_write()?;
                transaction.set_durability(Durability::Immediate)?;
                let rows = import(&mut Writing::open(&transaction)?, &mut input)?;
                transaction.commit()?;
                Ok(rows)
            });
            match result {
                Ok(rows) => Ok(Ok(rows)),
                Err(TransferError::Data(error)) => Ok(Err(error)),
                Err(TransferError::Fault(fault)) => Err(read_error(self.path(), fault)),
            }
        })?
    }
}

/// Writes the lines of an export, and counts the rows.
pub(super) struct ExportWriter<'a, W> {
    output: W,
    accounts: &'a ExportedAccounts,
    /// Named accounts that were not written yet.
    missing: BTreeSet<&'a str>,
    rows: RowCounts,
}

impl<'a, W: Write> ExportWriter<'a, W> {
    /// Begins an export.
    pub(super) fn begin(output: W, accounts: &'a ExportedAccounts) -> io::Result<Self> {
        let missing = match accounts {
            ExportedAccounts::All => BTreeSet::new(),
            ExportedAccounts::Named(names) => names.iter().map(String::as_str).collect(),
        };
        let mut writer = Self { output, accounts, missing, rows: RowCounts::default() };
        writer.line(&Line::Store { schema: SCHEMA, exported_at: UnixSeconds::now() })?;
        Ok(writer)
    }

    pub(super) fn account(&mut self, account: Account) -> io::Result<()> {
        if !self.accounts.contain(&account.name) {
            return Ok(());
        }
        self.rows.accounts += 1;
        self.missing.remove(account.name.as_str());
        self.line(&Line::Account(account))
    }

    pub(super) fn key(&mut self, hash: KeyHash, key: Key) -> io::Result<()> {
        if !self.accounts.contain(&key.account) {
            return Ok(());
        }
        self.rows.keys += 1;
        self.line(&Line::Key { hash: Hex(hash.0), key })
    }

    pub(super) fn preset(&mut self, preset: Preset) -> io::Result<()> {
        if !self.accounts.contain(&preset.account) {
            return Ok(());
        }
        self.rows.presets += 1;
        self.line(&Line::Preset(preset))
    }

    pub(super) fn usage(&mut self, account: String, month: Month, usage: Usage) -> io::Result<()> {
        if !self.accounts.contain(&account) {
            return Ok(());
        }
        self.rows.usage += 1;
        self.line(&Line::Usage { account, month, usage })
    }

    pub(super) fn key_day(&mut self, account: String, day: Day, key_id: String, used: KeyDay) -> io::Result<()> {
        if !self.accounts.contain(&account) {
            return Ok(());
        }
        self.rows.key_days += 1;
        self.line(&Line::KeyDay { account, key_id, day, used })
    }

    pub(super) fn request(&mut self, account: String, key: String, request: Request) -> io::Result<()> {
        if !self.accounts.contain(&account) {
            return Ok(());
        }
        self.rows.requests += 1;
        let Request { fingerprint, images, at, pictures } = request;
        let pictures = hexes(pictures);
        self.line(&Line::Request { account, key, fingerprint: Hex(fingerprint), images, at, pictures })
    }

    pub(super) fn job(&mut self, job: Job) -> io::Result<()> {
        if !self.accounts.contain(&job.account) {
            return Ok(());
        }
        self.rows.jobs += 1;
        self.line(&Line::Job(Box::new(job)))
    }

    /// Ends the export, without which it is incomplete. Fails where a named account does not exist.
    pub(super) fn finish(mut self) -> io::Result<RowCounts> {
        if let Some(name) = self.missing.first() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no account `{name}`")));
        }
        self.line(&Line::End { rows: total(self.rows) })?;
        self.output.flush()?;
        Ok(self.rows)
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.output, line).map_err(io::Error::from)?;
        self.output.write_all(b"\n")
    }
}

fn export(
    tables: &Reading,
    output: impl Write,
    accounts: &ExportedAccounts,
) -> Result<RowCounts, TransferError<io::Error>> {
    let mut writer = ExportWriter::begin(output, accounts).map_err(TransferError::Data)?;
    for row in tables.accounts.rows()? {
        writer.account(row?.1?).map_err(TransferError::Data)?;
    }
    for row in tables.keys.rows()? {
        let (hash, key) = row?;
        writer.key(hash, key?).map_err(TransferError::Data)?;
    }
    for row in tables.presets.rows()? {
        writer.preset(row?.1?).map_err(TransferError::Data)?;
    }
    for row in tables.usage.rows(Month(0))? {
        let (account, month, usage) = row?;
        writer.usage(account, month, usage?).map_err(TransferError::Data)?;
    }
    for row in tables.key_days.rows()? {
        let (account, day, key_id, used) = row?;
        writer.key_day(account, day, key_id, used?).map_err(TransferError::Data)?;
    }
    for row in tables.requests.rows()? {
        let ([account, key], request) = row?;
        writer.request(account, key, request?).map_err(TransferError::Data)?;
    }
    for row in tables.jobs.rows()? {
        writer.job(row?.1?).map_err(TransferError::Data)?;
    }
    writer.finish().map_err(TransferError::Data)
}

const fn total(RowCounts { accounts, keys, presets, usage, key_days, requests, jobs }: RowCounts) -> u64 {
    accounts + keys + presets + usage + key_days + requests + jobs
}

/// A row of an import.
pub(super) enum ImportRow {
    Account(Account),
    Key(KeyHash, Key),
    Preset(Preset),
    Usage(String, Month, Usage),
    KeyDay(String, Day, String, KeyDay),
    Request(String, String, Request),
    Job(Box<Job>),
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
    pub(super) fn new(input: R) -> Self {
        Self { input, number: 0, written_by: SCHEMA, rows: RowCounts::default() }
    }

    /// The rows so far.
    pub(super) const fn rows(&self) -> RowCounts {
        self.rows
    }

    /// The error of the last line.
    pub(super) const fn wrong(&self, reason: String) -> ImportError {
        ImportError::Line { number: self.number, reason }
    }

    /// The next row; `None` after a complete export.
    pub(super) fn next(&mut self) -> Result<Option<ImportRow>, ImportError> {
        loop {
            self.number += 1;
            let mut bytes = Vec::new();
            let read = Read::take(&mut self.input, MAX_LINE_BYTES + 1).read_until(b'\n', &mut bytes);
            if read.map_err(ImportError::Input)? == 0 {
                return Err(self.wrong("the end is missing; the export is not whole".into()));
            }
            if bytes.len() as u64 > MAX_LINE_BYTES {
                return Err(self.wrong("longer than any row".into()));
            }
            let line = parse(&bytes, self.written_by).map_err(|reason| self.wrong(reason))?;
            match (self.number, line) {
                (1, Line::Store { schema: schema @ 1..=SCHEMA, .. }) => self.written_by = schema,
                (1, Line::Store { schema, .. }) => {
                    let reason = format!("schema {schema} is from a newer version; this one reads up to {SCHEMA}");
                    return Err(self.wrong(reason));
                }
                (1, _) => return Err(self.wrong("the first line does not say that this is an export".into())),
                (_, Line::End { rows: exported }) => {
                    let found = total(self.rows);
                    if found != exported {
                        return Err(self.wrong(format!("{exported} rows were exported and {found} are here")));
                    }
                    return Ok(None);
                }
                (_, line) => return self.row(line).map(Some).map_err(|reason| self.wrong(reason)),
            }
        }
    }

    /// The row of a line, which is counted.
    fn row(&mut self, line: Line) -> Result<ImportRow, String> {
        let rows = &mut self.rows;
        let (count, row) = match line {
            Line::Account(account) => (&mut rows.accounts, ImportRow::Account(account)),
            Line::Key { hash: Hex(hash), key } => (&mut rows.keys, ImportRow::Key(KeyHash(hash), key)),
            Line::Preset(preset) => (&mut rows.presets, ImportRow::Preset(preset)),
            Line::Usage { month, .. } if !month.is_valid() => return Err(format!("there is no month {month}")),
            Line::Usage { account, month, usage } => (&mut rows.usage, ImportRow::Usage(account, month, usage)),
            Line::KeyDay { account, key_id, day, used } => {
                (&mut rows.key_days, ImportRow::KeyDay(account, day, key_id, used))
            }
            Line::Request { account, key, fingerprint: Hex(fingerprint), images, at, pictures } => {
                let pictures = pictures.into_iter().map(|picture| picture.map(|Hex(hash)| hash)).collect();
                let request = Request { fingerprint, images, at, pictures };
                (&mut rows.requests, ImportRow::Request(account, key, request))
            }
            Line::Job(job) if !Job::is_id(&job.id) => return Err(format!("no job can be called {}", job.id)),
            Line::Job(job) => (&mut rows.jobs, ImportRow::Job(job)),
            Line::Store { .. } => return Err("a second export begins here".into()),
            Line::End { .. } => return Err("the end, out of place".into()),
        };
        *count += 1;
        Ok(row)
    }
}

/// Reads an export into tables, which must be empty.
fn import(tables: &mut Writing<'_>, input: &mut dyn BufRead) -> Result<RowCounts, TransferError<ImportError>> {
    if !tables.is_empty()? {
        return Err(TransferError::Data(ImportError::NotEmpty));
    }
    let mut reader = ImportReader::new(input);
    while let Some(row) = reader.next().map_err(TransferError::Data)? {
        match insert(tables, row) {
            Ok(()) => {}
            Err(ApplyError::Refused(refusal)) => return Err(TransferError::Data(reader.wrong(refusal.to_string()))),
            Err(ApplyError::Fault(Fault::Damaged(reason))) => return Err(TransferError::Data(reader.wrong(reason))),
            Err(ApplyError::Fault(fault @ (Fault::Storage(_) | Fault::Panicked | Fault::Closed))) => {
                return Err(TransferError::Fault(fault));
            }
        }
    }
    Ok(reader.rows())
}

/// Parses a line, which must serialize to the same JSON again: no field is unknown, and none of its schema is missing.
fn parse(bytes: &[u8], schema: u64) -> Result<Line, String> {
    let mut value: Value = serde_json::from_slice(bytes).map_err(|error| format!("no JSON: {error}"))?;
    if schema < WITH_MODELS
        && value["row"] == "account"
        && let Some(account) = value.as_object_mut()
    {
        account.entry("model").or_insert(Value::Null);
    }
    if schema < WITH_PICTURES
        && value["row"] == "request"
        && let Some(request) = value.as_object_mut()
    {
        let pictures = serde_json::to_value(hexes(Request::pictures_before_v2())).map_err(|error| error.to_string())?;
        request.entry("pictures").or_insert(pictures);
    }
    if schema < WITH_KEY_RESTRICTIONS
        && value["row"] == "key"
        && let Some(key) = value.as_object_mut()
    {
        for name in ["expires_at", "images_per_month", "previous"] {
            key.entry(name).or_insert(Value::Null);
        }
        key.entry("scopes").or_insert_with(|| Value::Array(Vec::new()));
    }
    let line: Line = serde_json::from_value(value.clone()).map_err(|error| format!("no row of a store: {error}"))?;
    let known = serde_json::to_value(&line).map_err(|error| error.to_string())?;
    if known == value { Ok(line) } else { Err("it has fields that this version does not know, or lacks some".into()) }
}

/// Adds a row with the checks of a change, without replacing any.
fn insert(tables: &mut Writing<'_>, row: ImportRow) -> Result<(), ApplyError> {
    let duplicate = |what: &str| Err(ApplyError::Fault(Fault::Damaged(format!("this {what} is there already"))));
    match row {
        ImportRow::Account(account) => {
            check_new_account(tables, &account.name)?;
            tables.accounts.put(&account)?;
        }
        ImportRow::Key(hash, key) => {
            require_account(tables, &key.account)?;
            check_new_key(tables, hash, &key)?;
            tables.keys.put(hash, &key)?;
        }
        ImportRow::Preset(preset) => {
            require_account(tables, &preset.account)?;
            if tables.presets.get(&preset.account, &preset.id)?.is_some() {
                return duplicate("preset");
            }
            if tables.presets.id_of(&preset.account, &preset.name)?.is_some() {
                return Err(ChangeError::PresetNameTaken(preset.name).into());
            }
            if tables.presets.count(&preset.account)? >= PRESETS_PER_ACCOUNT {
                return Err(ChangeError::TooManyPresets(preset.account).into());
            }
            tables.presets.put(None, &preset)?;
        }
        ImportRow::Usage(account, month, usage) => {
            require_account(tables, &account)?;
            if tables.usage.get(&account, month)?.is_some() {
                return duplicate("month of the account");
            }
            tables.usage.add(&account, month, usage)?;
        }
        ImportRow::KeyDay(account, day, key_id, used) => {
            require_account(tables, &account)?;
            if tables.key_days.get(&account, day, &key_id)?.is_some() {
                return duplicate("day of the key");
            }
            tables.key_days.add(&account, day, &key_id, used)?;
        }
        ImportRow::Request(account, key, request) => {
            require_account(tables, &account)?;
            if tables.requests.get(&account, &key)?.is_some() {
                return duplicate("request");
            }
            tables.requests.put(&account, &key, &request)?;
        }
        ImportRow::Job(job) => {
            require_account(tables, &job.account)?;
            check_new_job(tables, &job)?;
            tables.jobs.put(&job)?;
        }
    }
    Ok(())
}
