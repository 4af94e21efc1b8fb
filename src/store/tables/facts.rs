//! Facts that are one number each: of the file itself, and of the daemon as a whole.
//!
//! A fact that an older version does not know is left alone by it, so that a new one is no new schema. Exports leave
//! them out: the schema is the importing program's, and the day of a copy begins anew.

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, Table, TableError, WriteTransaction};

use super::{META, Text};
use crate::store::fault::Fault;
use crate::store::{Day, Generated};

/// Row that holds how many backdrops were made, and on which day.
const GENERATED: &str = "generated";

/// The table of facts.
pub(in crate::store) struct Facts<T>(T);

pub(super) type Writing<'txn> = Facts<Table<'txn, Text, u64>>;
pub(super) type Reading = Facts<ReadOnlyTable<Text, u64>>;

impl<'txn> Writing<'txn> {
    pub(super) fn create(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        transaction.open_table(META).map(Self)
    }
}

impl Reading {
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        transaction.open_table(META).map(Self)
    }
}

impl<T: ReadableTable<Text, u64>> Facts<T> {
    /// How many backdrops were made on the last day on which one was; nothing before the first.
    pub(in crate::store) fn generated(&self) -> Result<Option<Generated>, Fault> {
        Ok(self.0.get(GENERATED)?.map(|row| Generated::unpacked(row.value())))
    }
}

impl Writing<'_> {
    /// Counts one more backdrop.
    pub(in crate::store) fn count_generated(&mut self, day: Day) -> Result<Generated, Fault> {
        let counted = self.generated()?.unwrap_or_default().with_one_more(day);
        self.0.insert(GENERATED, counted.packed())?;
        Ok(counted)
    }
}
