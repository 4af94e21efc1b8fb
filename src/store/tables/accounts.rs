//! Table of accounts: account name → `AccountRecord`.

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, WriteTransaction,
};

use super::{Bytes, Row, Text};
use crate::store::Account;
use crate::store::records::{AccountRecord, Record};
use crate::store::storage_fault::Fault;

pub(in crate::store) const ACCOUNTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("accounts");

/// The table of accounts.
pub(in crate::store) struct Accounts<T>(T);

pub(super) type Writing<'txn> = Accounts<Table<'txn, Text, Bytes>>;
pub(super) type Reading = Accounts<ReadOnlyTable<Text, Bytes>>;

impl<'txn> Writing<'txn> {
    pub(super) fn create(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        transaction.open_table(ACCOUNTS).map(Self)
    }
}

impl Reading {
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        transaction.open_table(ACCOUNTS).map(Self)
    }
}

impl<T: ReadableTable<Text, Bytes>> Accounts<T> {
    pub(in crate::store) fn get(&self, name: &str) -> Result<Option<Account>, Fault> {
        self.0.get(name)?.map(|row| decode(name, row.value())).transpose()
    }

    /// Whether the account exists, without reading it.
    pub(in crate::store) fn contains(&self, name: &str) -> Result<bool, Fault> {
        Ok(self.0.get(name)?.is_some())
    }

    /// All names, without reading the accounts.
    pub(in crate::store) fn names(&self) -> Result<impl Iterator<Item = Result<String, Fault>>, Fault> {
        Ok(self.0.iter()?.map(|row| Ok(row?.0.value().to_owned())))
    }

    /// All rows: the key (the name) and the account.
    pub(in crate::store) fn rows(&self) -> Result<impl Iterator<Item = Row<String, Account>>, Fault> {
        Ok(self.0.iter()?.map(|row| {
            let (name, bytes) = row?;
            Ok((name.value().to_owned(), decode(name.value(), bytes.value())))
        }))
    }
}

impl Writing<'_> {
    pub(super) fn is_empty(&self) -> Result<bool, StorageError> {
        self.0.is_empty()
    }

    pub(in crate::store) fn put(&mut self, account: &Account) -> Result<(), Fault> {
        self.0.insert(account.name.as_str(), AccountRecord::from_latest(account.clone()).encode().as_slice())?;
        Ok(())
    }
}

fn decode(name: &str, bytes: &[u8]) -> Result<Account, Fault> {
    let record = AccountRecord::decode(bytes);
    record.map(Record::latest).map_err(|error| Fault::unreadable(format_args!("account {name}"), &error))
}
