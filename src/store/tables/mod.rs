//! The redb schema: one module per table with its indexes, and the schema version.
//!
//! Values are postcard records (`records/`) stored as plain bytes: redb's own `Value` cannot fail, a record can.
//! A change of a table's types, a new table, or a record that older versions could not read raises [`SCHEMA`].
//!
//! Reads are generic over redb's `ReadableTable`: they serve a reader's snapshot and the open write transaction. An index
//! is written only by the function that writes its table.

mod accounts;
mod jobs;
mod key_days;
mod keys;
mod meta;
mod presets;
mod requests;
mod usage;

use redb::{ReadTransaction, TableDefinition, TableError, WriteTransaction};

pub(super) use accounts::Accounts;
pub(super) use jobs::{IndexRow, Jobs};
pub(super) use key_days::KeyDays;
pub(super) use keys::Keys;
pub(super) use meta::Reading as ReadingMeta;
pub(super) use presets::Presets;
pub(super) use requests::Requests;
pub(super) use usage::Usages;

use super::storage_fault::Fault;

/// A row with its key; a damaged row keeps its key.
type Row<K, V> = Result<(K, Result<V, Fault>), Fault>;

/// The schema that this version writes, and the newest that it reads.
///
/// 1: accounts and keys. 2: presets, usage and requests; account and key have a second version. 3: jobs.
/// 4: account has a third version. 5: request has a second version. 6: use by key and day; key has a third version.
pub(super) const SCHEMA: u64 = 6;

/// The schema version ([`META_SCHEMA`]) and the single numbers of `meta.rs`.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// Row of [`META`] that holds the schema of the file.
pub(super) const META_SCHEMA: &str = "schema";

/// All tables: the integrity check reports an unknown one.
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
    pub(super) meta: F,
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
    meta::Writing<'txn>,
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
    meta::Reading,
>;

impl<'txn> Writing<'txn> {
    /// Opens all tables, creating missing ones.
    pub(super) fn open(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        Ok(Self {
            accounts: Accounts::create(transaction)?,
            keys: Keys::create(transaction)?,
            presets: Presets::create(transaction)?,
            usage: Usages::create(transaction)?,
            key_days: KeyDays::create(transaction)?,
            requests: Requests::create(transaction)?,
            jobs: Jobs::create(transaction)?,
            meta: meta::Writing::create(transaction)?,
        })
    }
}

impl Writing<'_> {
    /// Whether there are no rows, single numbers aside.
    pub(super) fn is_empty(&self) -> Result<bool, Fault> {
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
    /// Opens all tables of a snapshot.
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        Ok(Self {
            accounts: Accounts::open(transaction)?,
            keys: Keys::open(transaction)?,
            presets: Presets::open(transaction)?,
            usage: Usages::open(transaction)?,
            key_days: KeyDays::open(transaction)?,
            requests: Requests::open(transaction)?,
            jobs: Jobs::open(transaction)?,
            meta: meta::Reading::open(transaction)?,
        })
    }
}
