//! Table of usage by key: (account, day, key id) → `KeyDayRecord`. The account comes first, so that its usage is one range.

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, WriteTransaction,
};

use super::{Bytes, Text};
use crate::store::records::{KeyDayRecord, Record};
use crate::store::storage_fault::Fault;
use crate::store::{Day, KeyDay};

/// A row: account, day, key id and usage; a damaged row keeps its key.
type KeyDayRow = Result<(String, Day, String, Result<KeyDay, Fault>), Fault>;

type Place = (Text, u32, Text);

pub(in crate::store) const KEY_DAYS: TableDefinition<'_, (&str, u32, &str), &[u8]> = TableDefinition::new("key_days");

/// The table of usage by key and day.
pub(in crate::store) struct KeyDays<T>(T);

pub(super) type Writing<'txn> = KeyDays<Table<'txn, Place, Bytes>>;
pub(super) type Reading = KeyDays<ReadOnlyTable<Place, Bytes>>;

impl<'txn> Writing<'txn> {
    pub(super) fn create(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        transaction.open_table(KEY_DAYS).map(Self)
    }
}

impl Reading {
    pub(in crate::store) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        transaction.open_table(KEY_DAYS).map(Self)
    }
}

impl<T: ReadableTable<Place, Bytes>> KeyDays<T> {
    pub(in crate::store) fn get(&self, account: &str, day: Day, key_id: &str) -> Result<Option<KeyDay>, Fault> {
        self.0.get((account, day.0, key_id))?.map(|row| decode(day, key_id, row.value())).transpose()
    }

    /// All rows.
    pub(in crate::store) fn rows(&self) -> Result<impl Iterator<Item = KeyDayRow>, Fault> {
        Ok(self.0.iter()?.map(|row| {
            let (place, bytes) = row?;
            let (account, day, key_id) = place.value();
            Ok((account.to_owned(), Day(day), key_id.to_owned(), decode(Day(day), key_id, bytes.value())))
        }))
    }

    /// Up to `limit` rows of an account on the days from `from` to `to`, both included.
    pub(in crate::store) fn of_account(
        &self,
        account: &str,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<(Day, String, KeyDay)>, Fault> {
        let mut rows = Vec::new();
        let first = (account, from.0, "");
        for row in self.0.range::<(&str, u32, &str)>(first..)? {
            let (place, bytes) = row?;
            let (owner, day, key_id) = place.value();
            if owner != account || day > to.0 || rows.len() == limit {
                break;
            }
            rows.push((Day(day), key_id.to_owned(), decode(Day(day), key_id, bytes.value())?));
        }
        Ok(rows)
    }
}

impl Writing<'_> {
    pub(super) fn is_empty(&self) -> Result<bool, StorageError> {
        self.0.is_empty()
    }

    /// Adds to a row, saturating.
    pub(in crate::store) fn add(
        &mut self,
        account: &str,
        day: Day,
        key_id: &str,
        more: KeyDay,
    ) -> Result<KeyDay, Fault> {
        let after = self.get(account, day, key_id)?.unwrap_or_default().plus(more);
        self.0.insert((account, day.0, key_id), KeyDayRecord::from_latest(after).encode().as_slice())?;
        Ok(after)
    }

    /// Drops the rows of an account before a day.
    pub(in crate::store) fn forget(&mut self, account: &str, before: Day) -> Result<(), Fault> {
        let old = (account, 0, "")..(account, before.0, "");
        self.0.retain_in::<(&str, u32, &str), _>(old, |_, _| false)?;
        Ok(())
    }
}

fn decode(day: Day, key_id: &str, bytes: &[u8]) -> Result<KeyDay, Fault> {
    let unreadable = |error| Fault::unreadable(format_args!("use of key {key_id} on {}", day.date()), &error);
    KeyDayRecord::decode(bytes).map(Record::latest).map_err(unreadable)
}
