//! The redb schema: the tables with their indexes, and the schema version.
//!
//! Values are postcard records (`records/`) stored as plain bytes: redb's own `Value` cannot fail, a record can.
//! A change of a table's types, a new table, or a record that older versions could not read raises [`SCHEMA`].
//!
//! A table is opened in a reader's snapshot or in a transaction that writes ([`Source`]). An index is written only by the
//! function that writes its table.

mod jobs;
mod keys;
mod meta;
mod presets;
mod requests;
mod rows;
mod usage;

use redb::{ReadTransaction, TableDefinition, TableError, WriteTransaction};

use jobs::Jobs;
use keys::Keys;
pub(super) use meta::Meta;
use presets::Presets;
use requests::Requests;
use rows::{Bytes, Source, Text, read_row};
pub(super) use rows::{KeyOf, Records, Row};

use super::records::{AccountRecord, KeyDayRecord, UsageRecord};

/// The schema that this version writes, and the newest that it reads.
///
/// 1: accounts and keys. 2: presets, usage and requests; account and key have a second version. 3: jobs.
/// 4: account has a third version. 5: request has a second version. 6: use by key and day; key has a third version.
/// 7: without [`DROPPED`] indexes.
pub(super) const SCHEMA: u64 = 7;

/// Indexes of jobs that earlier schemas had.
pub(super) const DROPPED: [&str; 4] = ["job_queue", "key_jobs", "job_times", "webhook_times"];

/// The schema version ([`META_SCHEMA`]) and the single numbers of `meta.rs`.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// Row of [`META`] that holds the schema of the file.
pub(super) const META_SCHEMA: &str = "schema";

/// All tables, of a write transaction or of a reader's snapshot.
pub(super) struct Tables<S: Source> {
    pub(super) accounts: Records<S, AccountRecord>,
    pub(super) keys: Keys<S>,
    pub(super) presets: Presets<S>,
    pub(super) usage: Records<S, UsageRecord>,
    pub(super) key_days: Records<S, KeyDayRecord>,
    pub(super) requests: Requests<S>,
    pub(super) jobs: Jobs<S>,
    pub(super) meta: Meta<S>,
}

/// The tables of a write transaction.
pub(super) type Writing<'txn> = Tables<&'txn WriteTransaction>;

/// The tables of a reader's snapshot.
pub(super) type Reading<'txn> = Tables<&'txn ReadTransaction>;

impl<S: Source> Tables<S> {
    /// Opens all tables. A write transaction creates missing ones.
    pub(super) fn open(source: S) -> Result<Self, TableError> {
        Ok(Self {
            accounts: Records::open(source)?,
            keys: Keys::open(source)?,
            presets: Presets::open(source)?,
            usage: Records::open(source)?,
            key_days: Records::open(source)?,
            requests: Requests::open(source)?,
            jobs: Jobs::open(source)?,
            meta: Meta::open(source)?,
        })
    }
}

/// Account name → account.
impl Row for AccountRecord {
    type Key = Text;

    const TABLE: TableDefinition<'static, Text, Bytes> = TableDefinition::new("accounts");

    fn name(name: &KeyOf<'_, Self>) -> String {
        format!("account {name}")
    }
}
