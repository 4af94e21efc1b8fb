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

use super::database_file::{catch_panic, read_error};
use super::integrity_check::RowCounts;
use super::storage_fault::{ApplyError, Fault};
use super::tables::{Reading, SCHEMA, Writing};
use super::write_tables::{WriteTables, check_new_account, check_new_job, check_new_key, require_account};
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

/// Reads an export into tables, which must be empty.
pub(super) fn import(
    tables: &mut dyn WriteTables,
    input: &mut dyn BufRead,
) -> Result<RowCounts, TransferError<ImportError>> {
    if !tables.is_empty()? {
        return Err(TransferError::Data(ImportError::NotEmpty));
    }
    let mut rows = RowCounts::default();
    let (mut bytes, mut written_by) = (Vec::new(), SCHEMA);
    for number in 1.. {
        let wrong = |reason: String| TransferError::Data(ImportError::Line { number, reason });
        bytes.clear();
        let read = Read::take(&mut *input, MAX_LINE_BYTES + 1).read_until(b'\n', &mut bytes);
        if read.map_err(|error| TransferError::Data(ImportError::Input(error)))? == 0 {
            return Err(wrong("the end is missing; the export is not whole".into()));
        }
        if bytes.len() as u64 > MAX_LINE_BYTES {
            return Err(wrong("longer than any row".into()));
        }
        let line = parse(&bytes, written_by).map_err(wrong)?;
        match (number, line) {
            (1, Line::Store { schema: schema @ 1..=SCHEMA, .. }) => written_by = schema,
            (1, Line::Store { schema, .. }) => {
                return Err(wrong(format!("schema {schema} is from a newer version; this one reads up to {SCHEMA}")));
            }
            (1, _) => return Err(wrong("the first line does not say that this is an export".into())),
            (_, Line::End { rows: exported }) => {
                let found = total(rows);
                if found != exported {
                    return Err(wrong(format!("{exported} rows were exported and {found} are here")));
                }
                return Ok(rows);
            }
            (_, line) => match insert(tables, line, &mut rows) {
                Ok(()) => {}
                Err(ApplyError::Refused(refusal)) => return Err(wrong(refusal.to_string())),
                Err(ApplyError::Fault(Fault::Damaged(reason))) => return Err(wrong(reason)),
                Err(ApplyError::Fault(
                    fault @ (Fault::Storage(_) | Fault::Panicked | Fault::Closed | Fault::Server(_)),
                )) => {
                    return Err(TransferError::Fault(fault));
                }
            },
        }
    }
    unreachable!("the line numbers do not end")
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
fn insert(tables: &mut dyn WriteTables, line: Line, rows: &mut RowCounts) -> Result<(), ApplyError> {
    let duplicate = |what: &str| Err(ApplyError::Fault(Fault::Damaged(format!("this {what} is there already"))));
    match line {
        Line::Account(account) => {
            check_new_account(tables, &account.name)?;
            tables.put_account(&account)?;
            rows.accounts += 1;
        }
        Line::Key { hash: Hex(hash), key } => {
            require_account(tables, &key.account)?;
            check_new_key(tables, KeyHash(hash), &key)?;
            tables.put_key(KeyHash(hash), &key)?;
            rows.keys += 1;
        }
        Line::Preset(preset) => {
            require_account(tables, &preset.account)?;
            if tables.preset(&preset.account, &preset.id)?.is_some() {
                return duplicate("preset");
            }
            if tables.preset_id(&preset.account, &preset.name)?.is_some() {
                return Err(ChangeError::PresetNameTaken(preset.name).into());
            }
            if tables.count_presets(&preset.account)? >= PRESETS_PER_ACCOUNT {
                return Err(ChangeError::TooManyPresets(preset.account).into());
            }
            tables.put_preset(None, &preset)?;
            rows.presets += 1;
        }
        Line::Usage { account, month, usage } => {
            require_account(tables, &account)?;
            if !month.is_valid() {
                return Err(Fault::Damaged(format!("there is no month {month}")).into());
            }
            if tables.has_usage(&account, month)? {
                return duplicate("month of the account");
            }
            tables.add_usage(&account, month, usage)?;
            rows.usage += 1;
        }
        Line::KeyDay { account, key_id, day, used } => {
            require_account(tables, &account)?;
            if tables.has_key_day(&account, day, &key_id)? {
                return duplicate("day of the key");
            }
            tables.add_key_day(&account, day, &key_id, used)?;
            rows.key_days += 1;
        }
        Line::Request { account, key, fingerprint: Hex(fingerprint), images, at, pictures } => {
            require_account(tables, &account)?;
            if tables.has_request(&account, &key)? {
                return duplicate("request");
            }
            let pictures = pictures.into_iter().map(|picture| picture.map(|Hex(hash)| hash)).collect();
            tables.put_request(&account, &key, &Request { fingerprint, images, at, pictures })?;
            rows.requests += 1;
        }
        Line::Job(job) => {
            if !Job::is_id(&job.id) {
                return Err(Fault::Damaged(format!("no job can be called {}", job.id)).into());
            }
            require_account(tables, &job.account)?;
            check_new_job(tables, &job)?;
            tables.put_job(&job)?;
            rows.jobs += 1;
        }
        Line::Store { .. } => return Err(Fault::Damaged("a second export begins here".into()).into()),
        Line::End { .. } => return Err(Fault::Damaged("the end, out of place".into()).into()),
    }
    Ok(())
}
