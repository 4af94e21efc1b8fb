//! Table of billed requests: (account, `Idempotency-Key`) → `RequestRecord`, with an index (time, account, key) by which
//! the oldest are found.

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, WriteTransaction,
};

use super::{Bytes, Row, Text};
use crate::store::records::{Record, RequestRecord};
use crate::store::storage_fault::Fault;
use crate::store::{Request, UnixSeconds};

pub(in crate::store) const REQUESTS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("requests");
pub(in crate::store) const REQUEST_TIMES: TableDefinition<'_, (i64, &str, &str), ()> =
    TableDefinition::new("request_times");

/// The table of billed requests and its index by time.
pub(in crate::store) struct Requests<T, I> {
    requests: T,
    times: I,
}

pub(super) type Writing<'txn> = Requests<Table<'txn, (Text, Text), Bytes>, Table<'txn, (i64, Text, Text), ()>>;
pub(super) type Reading = Requests<ReadOnlyTable<(Text, Text), Bytes>, ReadOnlyTable<(i64, Text, Text), ()>>;

impl<'txn> Writing<'txn> {
    pub(super) fn create(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        Ok(Self { requests: transaction.open_table(REQUESTS)?, times: transaction.open_table(REQUEST_TIMES)? })
    }
}

impl Reading {
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        Ok(Self { requests: transaction.open_table(REQUESTS)?, times: transaction.open_table(REQUEST_TIMES)? })
    }
}

impl<T: ReadableTable<(Text, Text), Bytes>, I: ReadableTable<(i64, Text, Text), ()>> Requests<T, I> {
    pub(in crate::store) fn get(&self, account: &str, key: &str) -> Result<Option<Request>, Fault> {
        self.requests.get((account, key))?.map(|row| decode(account, key, row.value())).transpose()
    }

    /// All rows: the key (account and `Idempotency-Key`) and the request.
    pub(in crate::store) fn rows(&self) -> Result<impl Iterator<Item = Row<[String; 2], Request>>, Fault> {
        Ok(self.requests.iter()?.map(|row| {
            let (names, bytes) = row?;
            let (account, key) = names.value();
            Ok(([account.to_owned(), key.to_owned()], decode(account, key, bytes.value())))
        }))
    }

    /// The rows of the index from a time on, oldest first: time, account and key.
    pub(in crate::store) fn times(
        &self,
        from: UnixSeconds,
    ) -> Result<impl Iterator<Item = Result<(UnixSeconds, [String; 2]), Fault>>, Fault> {
        Ok(self.times.range::<(i64, &str, &str)>((from.0, "", "")..)?.map(|row| {
            let (names, _) = row?;
            let (at, account, key) = names.value();
            Ok((UnixSeconds(at), [account.to_owned(), key.to_owned()]))
        }))
    }

    /// Whether the index has the request at its time.
    pub(in crate::store) fn is_indexed(&self, account: &str, key: &str, at: UnixSeconds) -> Result<bool, Fault> {
        Ok(self.times.get((at.0, account, key))?.is_some())
    }

    /// The request of a row of the index.
    pub(in crate::store) fn indexed(&self, account: &str, key: &str) -> Result<Request, Fault> {
        self.get(account, key)?.ok_or_else(|| {
            Fault::Damaged(format!("request {key} of account {account} is in the index and not in the table"))
        })
    }
}

impl Writing<'_> {
    pub(super) fn is_empty(&self) -> Result<bool, StorageError> {
        self.requests.is_empty()
    }

    /// Stores a request, replacing an older one of the same account and key.
    pub(in crate::store) fn put(&mut self, account: &str, key: &str, request: &Request) -> Result<(), Fault> {
        if let Some(before) = self.get(account, key)? {
            self.times.remove((before.at.0, account, key))?;
        }
        self.times.insert((request.at.0, account, key), ())?;
        self.requests.insert((account, key), RequestRecord::from_latest(request.clone()).encode().as_slice())?;
        Ok(())
    }

    /// Drops up to `at_most` requests from before a time, oldest first; returns how many.
    pub(in crate::store) fn forget(&mut self, before: UnixSeconds, at_most: usize) -> Result<usize, Fault> {
        let mut forgotten = 0;
        while forgotten < at_most
            && let Some((at, account, key)) = self.oldest()?.filter(|&(at, ..)| at < before)
        {
            self.times.remove((at.0, account.as_str(), key.as_str()))?;
            self.requests.remove((account.as_str(), key.as_str()))?;
            forgotten += 1;
        }
        Ok(forgotten)
    }

    fn oldest(&self) -> Result<Option<(UnixSeconds, String, String)>, Fault> {
        Ok(self.times.first()?.map(|(names, _)| {
            let (at, account, key) = names.value();
            (UnixSeconds(at), account.to_owned(), key.to_owned())
        }))
    }
}

fn decode(account: &str, key: &str, bytes: &[u8]) -> Result<Request, Fault> {
    let unreadable = |error| Fault::unreadable(format_args!("request {key} of account {account}"), &error);
    RequestRecord::decode(bytes).map(Record::latest).map_err(unreadable)
}
