//! The schema: one module per table, its indexes with it.
//!
//! Values are postcard records (`records.rs`) stored as plain bytes: redb's own `Value` cannot fail, a record can.
//! A change of a table's types, a new table, or a record that older versions could not read raises [`SCHEMA`].
//!
//! Reads are written once, over redb's `ReadableTable`: they serve a reader's snapshot and the open write transaction.
//! An index is written by the same function as its table, and nowhere else.

mod accounts;
mod facts;
mod jobs;
mod key_days;
mod keys;
mod presets;
mod requests;
mod usage;

use redb::{ReadTransaction, StorageError, TableDefinition, TableError, WriteTransaction};

pub(super) use accounts::Accounts;
pub(super) use facts::Reading as ReadingFacts;
pub(super) use jobs::{IndexRow, Jobs};
pub(super) use key_days::KeyDays;
pub(super) use keys::Keys;
pub(super) use presets::Presets;
pub(super) use requests::Requests;
pub(super) use usage::Uses;

use super::fault::Fault;

/// A row under its key; one that is damaged keeps its place.
type Row<K, V> = Result<(K, Result<V, Fault>), Fault>;

/// The schema that this version writes, and the newest that it reads.
///
/// 1: accounts and keys. 2: presets, usage and requests; account and key have a second version. 3: jobs.
/// 4: account has a third version. 5: request has a second version. 6: use by key and day; key has a third version.
pub(super) const SCHEMA: u64 = 6;

/// Facts about the file itself ([`META_SCHEMA`]), and the single numbers of `facts.rs`.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// Row of [`META`] that holds the schema of the file.
pub(super) const META_SCHEMA: &str = "schema";

/// Every table there is: of an unknown one, a check says so.
pub(super) const NAMES: [&str; 16] = [
    "meta",
    "accounts",
    "keys",
    "key_ids",
    "presets",
    "preset_names",
    "usage",
    "key_days",
    "requests",
    "request_times",
    "jobs",
    "job_queue",
    "key_jobs",
    "job_names",
    "job_times",
    "webhook_times",
];

/// A column of text in a key or an index.
type Text = &'static str;

/// A record.
type Bytes = &'static [u8];

/// All tables, of a write transaction or of a reader's snapshot.
pub(super) struct Tables<A, K, P, U, D, R, J, F> {
    pub(super) accounts: A,
    pub(super) keys: K,
    pub(super) presets: P,
    pub(super) usage: U,
    pub(super) key_days: D,
    pub(super) requests: R,
    pub(super) jobs: J,
    pub(super) facts: F,
}

/// The tables of a write transaction.
pub(super) type Writing<'txn> = Tables<
    accounts::Writing<'txn>,
    keys::Writing<'txn>,
    presets::Writing<'txn>,
    usage::Writing<'txn>,
    key_days::Writing<'txn>,
    requests::Writing<'txn>,
    jobs::Writing<'txn>,
    facts::Writing<'txn>,
>;

/// The tables of a reader's snapshot.
pub(super) type Reading = Tables<
    accounts::Reading,
    keys::Reading,
    presets::Reading,
    usage::Reading,
    key_days::Reading,
    requests::Reading,
    jobs::Reading,
    facts::Reading,
>;

impl<'txn> Writing<'txn> {
    /// Opens all tables, creating those that are not there yet.
    pub(super) fn open(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        Ok(Self {
            accounts: Accounts::create(transaction)?,
            keys: Keys::create(transaction)?,
            presets: Presets::create(transaction)?,
            usage: Uses::create(transaction)?,
            key_days: KeyDays::create(transaction)?,
            requests: Requests::create(transaction)?,
            jobs: Jobs::create(transaction)?,
            facts: facts::Writing::create(transaction)?,
        })
    }

    /// Whether there is no row of any kind, facts aside.
    pub(super) fn is_empty(&self) -> Result<bool, StorageError> {
        Ok(self.accounts.is_empty()?
            && self.keys.is_empty()?
            && self.presets.is_empty()?
            && self.usage.is_empty()?
            && self.key_days.is_empty()?
            && self.requests.is_empty()?
            && self.jobs.is_empty()?)
    }
}

impl Reading {
    /// Opens all tables as they are now.
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        Ok(Self {
            accounts: Accounts::open(transaction)?,
            keys: Keys::open(transaction)?,
            presets: Presets::open(transaction)?,
            usage: Uses::open(transaction)?,
            key_days: KeyDays::open(transaction)?,
            requests: Requests::open(transaction)?,
            jobs: Jobs::open(transaction)?,
            facts: facts::Reading::open(transaction)?,
        })
    }
}
