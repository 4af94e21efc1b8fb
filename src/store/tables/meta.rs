//! Single numbers: generated backdrops of the day, number of commits, and the account whose job was started last.
//!
//! An older version ignores unknown rows, so a new row needs no new schema. Exports omit them: the schema is
//! the importing program's, and the daily count of a copy starts at zero.

use redb::{ReadableTable, TableError, WriteTransaction};
use sha2::{Digest, Sha256};

use super::{META, Source, Text};
use crate::store::GeneratedCount;
use crate::store::storage_fault::Fault;

/// Row of the generated backdrops of the last day.
const GENERATED: &str = "generated";

/// Row of the number of committed transactions, which shows after a fault whether the last one was committed.
const COMMITS: &str = "commits";

/// Row of the account whose job was started last, as [`turn_of`] encodes it.
const LAST_TURN: &str = "last_turn";

/// The place of an account in the cycle of accounts: a hash of its name, the same at every start.
pub(super) fn turn_of(account: &str) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(Sha256::digest(account));
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The table of single numbers.
pub(in crate::store) struct Meta<S: Source>(S::Table<Text, u64>);

impl<S: Source> Meta<S> {
    pub(in crate::store) fn open(source: S) -> Result<Self, TableError> {
        source.table(META).map(Self)
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Fault> {
        Ok(self.0.get(name)?.map(|row| row.value()))
    }

    /// Backdrops of the last day on which one was generated.
    pub(in crate::store) fn generated(&self) -> Result<GeneratedCount, Fault> {
        Ok(self.number(GENERATED)?.map_or_else(GeneratedCount::default, GeneratedCount::unpacked))
    }

    /// How many transactions were committed.
    pub(in crate::store) fn commits(&self) -> Result<u64, Fault> {
        Ok(self.number(COMMITS)?.unwrap_or(0))
    }

    /// The account whose job was started last, as [`turn_of`] encodes it; `None` before the first.
    pub(in crate::store) fn last_turn(&self) -> Result<Option<u64>, Fault> {
        self.number(LAST_TURN)
    }
}

impl Meta<&WriteTransaction> {
    pub(in crate::store) fn put_generated(&mut self, generated: GeneratedCount) -> Result<(), Fault> {
        self.0.insert(GENERATED, generated.packed())?;
        Ok(())
    }

    /// Counts the current transaction; returns its number.
    pub(in crate::store) fn count_commit(&mut self) -> Result<u64, Fault> {
        let number = self.commits()?.wrapping_add(1);
        self.0.insert(COMMITS, number)?;
        Ok(number)
    }

    /// Records that a job of an account was started.
    pub(in crate::store) fn record_turn(&mut self, account: &str) -> Result<(), Fault> {
        self.0.insert(LAST_TURN, turn_of(account))?;
        Ok(())
    }
}
