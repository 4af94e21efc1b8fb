//! Table of usage by account: (month, account) → `UsageRecord`. The month comes first, so that the last two are one range.

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, WriteTransaction,
};

use super::{Bytes, Text};
use crate::store::records::{Record, UsageRecord};
use crate::store::storage_fault::Fault;
use crate::store::{Month, Usage};

/// A row: account, month and usage; a damaged row keeps its key.
type UsageRow = Result<(String, Month, Result<Usage, Fault>), Fault>;

pub(in crate::store) const USAGE: TableDefinition<'_, (u32, &str), &[u8]> = TableDefinition::new("usage");

/// The table of usage by account and month.
pub(in crate::store) struct Usages<T>(T);

pub(super) type Writing<'txn> = Usages<Table<'txn, (u32, Text), Bytes>>;
pub(super) type Reading = Usages<ReadOnlyTable<(u32, Text), Bytes>>;

impl<'txn> Writing<'txn> {
    pub(super) fn create(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        transaction.open_table(USAGE).map(Self)
    }
}

impl Reading {
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        transaction.open_table(USAGE).map(Self)
    }
}

impl<T: ReadableTable<(u32, Text), Bytes>> Usages<T> {
    pub(in crate::store) fn get(&self, account: &str, month: Month) -> Result<Option<Usage>, Fault> {
        self.0.get((month.0, account))?.map(|row| decode(account, month, row.value())).transpose()
    }

    /// All rows from the month `first` on: account, month and usage.
    pub(in crate::store) fn rows(&self, first: Month) -> Result<impl Iterator<Item = UsageRow>, Fault> {
        Ok(self.0.range::<(u32, &str)>((first.0, "")..)?.map(|row| {
            let (key, bytes) = row?;
            let (month, account) = key.value();
            Ok((account.to_owned(), Month(month), decode(account, Month(month), bytes.value())))
        }))
    }
}

impl Writing<'_> {
    pub(super) fn is_empty(&self) -> Result<bool, StorageError> {
        self.0.is_empty()
    }

    /// Adds to a row, saturating.
    pub(in crate::store) fn add(&mut self, account: &str, month: Month, more: Usage) -> Result<Usage, Fault> {
        let after = self.get(account, month)?.unwrap_or_default().plus(more);
        self.0.insert((month.0, account), UsageRecord::from_latest(after).encode().as_slice())?;
        Ok(after)
    }
}

fn decode(account: &str, month: Month, bytes: &[u8]) -> Result<Usage, Fault> {
    let unreadable = |error| Fault::unreadable(format_args!("use of account {account} in {month}"), &error);
    UsageRecord::decode(bytes).map(Record::latest).map_err(unreadable)
}
