//! Exports the whole store as JSON lines, and imports such an export into an empty store.
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

use std::io::{self, BufRead, Read, Write};

use redb::{Durability, ReadableDatabase};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::database_file::{catch_panic, read_error};
use super::integrity_check::RowCounts;
use super::storage_fault::{ApplyError, Fault};
use super::tables::{Reading, SCHEMA, Writing};
use super::{
    Account, Day, Job, Key, KeyDay, KeyHash, Month, OpenError, Preset, RedbStore, Request, UnixSeconds, Usage,
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

/// An error where the file's name is not known.
enum TransferError<E> {
    Fault(Fault),
    Data(E),
}

impl<E, F: Into<Fault>> From<F> for TransferError<E> {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

impl RedbStore {
    /// Writes a consistent snapshot of the whole store.
    ///
    /// # Errors
    /// When a row is damaged, or the output cannot be written.
    pub fn export(&self, mut output: impl Write) -> Result<RowCounts, ExportError> {
        let written = catch_panic(self.path(), || {
            let result = self.database().with(|database| {
                export(&Reading::open(&database.begin_read()?)?, &mut |line: &Line| {
                    serde_json::to_writer(&mut output, line).map_err(io::Error::from)?;
                    output.write_all(b"\n")
                })
            });
            match result {
                Ok(rows) => Ok(Ok(rows)),
                Err(TransferError::Data(error)) => Ok(Err(ExportError::Output(error))),
                Err(TransferError::Fault(fault)) => Err(read_error(self.path(), fault)),
            }
        })??;
        output.flush().map_err(ExportError::Output)?;
        Ok(written)
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

/// Writes one line.
type Emit<'a> = dyn FnMut(&Line) -> io::Result<()> + 'a;

fn export(tables: &Reading, emit: &mut Emit<'_>) -> Result<RowCounts, TransferError<io::Error>> {
    let mut emit = |line: &Line| emit(line).map_err(TransferError::Data);
    let mut rows = RowCounts::default();
    emit(&Line::Store { schema: SCHEMA, exported_at: UnixSeconds::now() })?;
    for row in tables.accounts.rows()? {
        emit(&Line::Account(row?.1?))?;
        rows.accounts += 1;
    }
    for row in tables.keys.rows()? {
        let (hash, key) = row?;
        emit(&Line::Key { hash: Hex(hash.0), key: key? })?;
        rows.keys += 1;
    }
    for row in tables.presets.rows()? {
        emit(&Line::Preset(row?.1?))?;
        rows.presets += 1;
    }
    for row in tables.usage.rows(Month(0))? {
        let (account, month, usage) = row?;
        emit(&Line::Usage { account, month, usage: usage? })?;
        rows.usage += 1;
    }
    for row in tables.key_days.rows()? {
        let (account, day, key_id, used) = row?;
        emit(&Line::KeyDay { account, key_id, day, used: used? })?;
        rows.key_days += 1;
    }
    for row in tables.requests.rows()? {
        let ([account, key], request) = row?;
        let Request { fingerprint, images, at, pictures } = request?;
        let pictures = hexes(pictures);
        emit(&Line::Request { account, key, fingerprint: Hex(fingerprint), images, at, pictures })?;
        rows.requests += 1;
    }
    for row in tables.jobs.rows()? {
        emit(&Line::Job(Box::new(row?.1?)))?;
        rows.jobs += 1;
    }
    emit(&Line::End { rows: total(rows) })?;
    Ok(rows)
}

const fn total(RowCounts { accounts, keys, presets, usage, key_days, requests, jobs }: RowCounts) -> u64 {
    accounts + keys + presets + usage + key_days + requests + jobs
}

fn import(tables: &mut Writing<'_>, input: &mut dyn BufRead) -> Result<RowCounts, TransferError<ImportError>> {
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
                Err(ApplyError::Fault(fault @ (Fault::Storage(_) | Fault::Panicked | Fault::Closed))) => {
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
fn insert(tables: &mut Writing<'_>, line: Line, rows: &mut RowCounts) -> Result<(), ApplyError> {
    let duplicate = |what: &str| Err(ApplyError::Fault(Fault::Damaged(format!("this {what} is there already"))));
    match line {
        Line::Account(account) => {
            tables.accounts.check_new(&account.name)?;
            tables.accounts.put(account)?;
            rows.accounts += 1;
        }
        Line::Key { hash: Hex(hash), key } => {
            tables.accounts.require(&key.account)?;
            tables.keys.check_new(KeyHash(hash), &key)?;
            tables.keys.put(KeyHash(hash), key)?;
            rows.keys += 1;
        }
        Line::Preset(preset) => {
            tables.accounts.require(&preset.account)?;
            if tables.presets.get(&preset.account, &preset.id)?.is_some() {
                return duplicate("preset");
            }
            tables.presets.put(preset)?;
            rows.presets += 1;
        }
        Line::Usage { account, month, usage } => {
            tables.accounts.require(&account)?;
            if !month.is_valid() {
                return Err(Fault::Damaged(format!("there is no month {month}")).into());
            }
            if tables.usage.get(&account, month)?.is_some() {
                return duplicate("month of the account");
            }
            tables.usage.add(&account, month, usage)?;
            rows.usage += 1;
        }
        Line::KeyDay { account, key_id, day, used } => {
            tables.accounts.require(&account)?;
            if tables.key_days.get(&account, day, &key_id)?.is_some() {
                return duplicate("day of the key");
            }
            tables.key_days.add(&account, day, &key_id, used)?;
            rows.key_days += 1;
        }
        Line::Request { account, key, fingerprint: Hex(fingerprint), images, at, pictures } => {
            tables.accounts.require(&account)?;
            if tables.requests.get(&account, &key)?.is_some() {
                return duplicate("request");
            }
            let pictures = pictures.into_iter().map(|picture| picture.map(|Hex(hash)| hash)).collect();
            tables.requests.put(&account, &key, Request { fingerprint, images, at, pictures })?;
            rows.requests += 1;
        }
        Line::Job(job) => {
            if !Job::is_id(&job.id) {
                return Err(Fault::Damaged(format!("no job can be called {}", job.id)).into());
            }
            tables.accounts.require(&job.account)?;
            tables.jobs.check_new(&job)?;
            tables.jobs.put(*job)?;
            rows.jobs += 1;
        }
        Line::Store { .. } => return Err(Fault::Damaged("a second export begins here".into()).into()),
        Line::End { .. } => return Err(Fault::Damaged("the end, out of place".into()).into()),
    }
    Ok(())
}
