//! Table of billed requests: (account, `Idempotency-Key`) → `RequestRecord`, with an index (time, account, key) by which
//! the oldest are found.

use redb::{ReadableTable, ReadableTableMetadata, TableDefinition, TableError, TableHandle, WriteTransaction};

use super::{Bytes, KeyOf, Records, Row, Source, Text};
use crate::store::records::RequestRecord;
use crate::store::storage_fault::Fault;
use crate::store::{Request, UnixSeconds};

const REQUEST_TIMES: TableDefinition<'_, (i64, Text, Text), ()> = TableDefinition::new("request_times");

impl Row for RequestRecord {
    type Key = (Text, Text);

    const TABLE: TableDefinition<'static, Self::Key, Bytes> = TableDefinition::new("requests");

    fn name((account, key): &KeyOf<'_, Self>) -> String {
        format!("request {key} of account {account}")
    }
}

/// The table of billed requests and its index by time.
pub(in crate::store) struct Requests<S: Source> {
    pub(in crate::store) rows: Records<S, RequestRecord>,
    times: S::Table<(i64, Text, Text), ()>,
}

impl<S: Source> Requests<S> {
    pub(super) fn open(source: S) -> Result<Self, TableError> {
        Ok(Self { rows: Records::open(source)?, times: source.table(REQUEST_TIMES)? })
    }

    /// The rows of the index from a time on, oldest first: time, account and key.
    fn times(
        &self,
        from: UnixSeconds,
    ) -> Result<impl Iterator<Item = Result<(UnixSeconds, [String; 2]), Fault>>, Fault> {
        Ok(self.times.range::<(i64, &str, &str)>((from.0, "", "")..)?.map(|row| {
            let (names, ()) = row.map(|(names, _)| (names, ()))?;
            let (at, account, key) = names.value();
            Ok((UnixSeconds(at), [account, key].map(str::to_owned)))
        }))
    }

    /// Whether the index has the request at its time.
    pub(in crate::store) fn is_indexed(&self, account: &str, key: &str, at: UnixSeconds) -> Result<bool, Fault> {
        Ok(self.times.get((at.0, account, key))?.is_some())
    }

    /// Name and length of the index.
    pub(in crate::store) fn index(&self) -> Result<(&'static str, u64), Fault> {
        Ok((REQUEST_TIMES.name(), self.times.len()?))
    }
}

impl Requests<&WriteTransaction> {
    /// Stores a request, replacing an older one of the same account and key.
    pub(in crate::store) fn put(&mut self, account: &str, key: &str, request: &Request) -> Result<(), Fault> {
        if let Some(before) = self.rows.get((account, key))? {
            self.times.remove((before.at.0, account, key))?;
        }
        self.times.insert((request.at.0, account, key), ())?;
        self.rows.put((account, key), request.clone())
    }

    /// Drops up to `at_most` requests from before a time, oldest first; returns their number.
    pub(in crate::store) fn forget(&mut self, before: UnixSeconds, at_most: usize) -> Result<usize, Fault> {
        let oldest = self.times(UnixSeconds(i64::MIN))?.take(at_most);
        let old: Vec<_> =
            oldest.take_while(|row| row.as_ref().map_or(true, |(at, _)| *at < before)).collect::<Result<_, _>>()?;
        for (at, [account, key]) in &old {
            self.times.remove((at.0, account.as_str(), key.as_str()))?;
            self.rows.remove((account, key))?;
        }
        Ok(old.len())
    }
}
