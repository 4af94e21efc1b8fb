//! Facts that are one number each: of the file itself, and of the daemon as a whole.
//!
//! A fact that an older version does not know is left alone by it, so that a new one is no new schema. Exports leave
//! them out: the schema is the importing program's, and the day of a copy begins anew.

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, Table, TableError, WriteTransaction};
use sha2::{Digest, Sha256};

use super::{META, Text};
use crate::store::fault::Fault;
use crate::store::{Day, Generated};

/// Row that holds how many backdrops were made, and on which day.
const GENERATED: &str = "generated";

/// Row that holds how many transactions were committed: whether the last one was is known after a fault.
const COMMITS: &str = "commits";

/// Row that holds the account whose job was begun last, as [`turn_of`] has it.
const LAST_TURN: &str = "last_turn";

/// The table of facts.
pub(in crate::store) struct Facts<T>(T);

pub(super) type Writing<'txn> = Facts<Table<'txn, Text, u64>>;
pub(in crate::store) type Reading = Facts<ReadOnlyTable<Text, u64>>;

impl<'txn> Writing<'txn> {
    pub(super) fn create(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        transaction.open_table(META).map(Self)
    }
}

impl Reading {
    pub(in crate::store) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        transaction.open_table(META).map(Self)
    }
}

impl<T: ReadableTable<Text, u64>> Facts<T> {
    /// How many backdrops were made on the last day on which one was; nothing before the first.
    pub(in crate::store) fn generated(&self) -> Result<Option<Generated>, Fault> {
        Ok(self.0.get(GENERATED)?.map(|row| Generated::unpacked(row.value())))
    }

    /// How many transactions were committed.
    pub(in crate::store) fn commits(&self) -> Result<u64, Fault> {
        Ok(self.0.get(COMMITS)?.map_or(0, |row| row.value()))
    }

    /// The account whose job was begun last, as [`turn_of`] has it; nothing before the first.
    pub(in crate::store) fn last_turn(&self) -> Result<Option<u64>, Fault> {
        Ok(self.0.get(LAST_TURN)?.map(|row| row.value()))
    }
}

impl Writing<'_> {
    /// Counts one more backdrop.
    pub(in crate::store) fn count_generated(&mut self, day: Day) -> Result<Generated, Fault> {
        let counted = self.generated()?.unwrap_or_default().with_one_more(day);
        self.0.insert(GENERATED, counted.packed())?;
        Ok(counted)
    }

    /// Counts the transaction that this is part of; gives its number.
    pub(in crate::store) fn count_commit(&mut self) -> Result<u64, Fault> {
        let number = self.commits()?.wrapping_add(1);
        self.0.insert(COMMITS, number)?;
        Ok(number)
    }

    /// Notes that a job of an account was begun.
    pub(in crate::store) fn note_turn(&mut self, account: &str) -> Result<(), Fault> {
        self.0.insert(LAST_TURN, turn_of(account))?;
        Ok(())
    }
}

/// The place of an account in the cycle of the accounts: a number of its name, the same at every start.
pub(in crate::store) fn turn_of(account: &str) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(Sha256::digest(account));
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}
