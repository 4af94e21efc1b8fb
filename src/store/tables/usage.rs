//! Tables of usage: by account and month, and by key and day.

use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::{Bytes, KeyOf, Records, Row, Source, Text, read_row};
use crate::store::records::{KeyDayRecord, UsageRecord};
use crate::store::storage_fault::Fault;
use crate::store::{Day, KeyDay, Month, Usage};

/// (month, account) → usage. The month comes first, so that the last two are one range.
impl Row for UsageRecord {
    type Key = (u32, Text);

    const TABLE: TableDefinition<'static, Self::Key, Bytes> = TableDefinition::new("usage");

    fn name((month, account): &KeyOf<'_, Self>) -> String {
        format!("use of account {account} in {}", Month(*month))
    }
}

impl Records<&WriteTransaction, UsageRecord> {
    /// Adds to a row, saturating.
    pub(in crate::store) fn add(&mut self, account: &str, month: Month, more: Usage) -> Result<Usage, Fault> {
        let after = self.get((month.0, account))?.unwrap_or_default().plus(more);
        self.put((month.0, account), after)?;
        Ok(after)
    }
}

/// (account, day, key id) → usage. The account comes first, so that its usage is one range.
impl Row for KeyDayRecord {
    type Key = (Text, u32, Text);

    const TABLE: TableDefinition<'static, Self::Key, Bytes> = TableDefinition::new("key_days");

    fn name((_, day, key_id): &KeyOf<'_, Self>) -> String {
        format!("use of key {key_id} on {}", Day(*day).date())
    }
}

impl<S: Source> Records<S, KeyDayRecord> {
    /// Up to `limit` rows of an account on the days from `from` to `to`, both included.
    pub(in crate::store) fn of_account(
        &self,
        account: &str,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<(Day, String, KeyDay)>, Fault> {
        // No key id sorts behind the last one here.
        let days = (account, from.0, "")..=(account, to.0, "\u{10ffff}");
        let rows = self.0.range::<(&str, u32, &str)>(days)?.take(limit).map(|row| {
            let (key, used) = read_row::<KeyDayRecord>(row)?;
            let (_, day, key_id) = key.value();
            Ok((Day(day), key_id.to_owned(), used?))
        });
        rows.collect()
    }
}

impl Records<&WriteTransaction, KeyDayRecord> {
    /// Adds to a row, saturating.
    pub(in crate::store) fn add(
        &mut self,
        account: &str,
        day: Day,
        key_id: &str,
        more: KeyDay,
    ) -> Result<KeyDay, Fault> {
        let after = self.get((account, day.0, key_id))?.unwrap_or_default().plus(more);
        self.put((account, day.0, key_id), after)?;
        Ok(after)
    }

    /// Drops the rows of an account before a day.
    pub(in crate::store) fn forget(&mut self, account: &str, before: Day) -> Result<(), Fault> {
        let old = (account, 0, "")..(account, before.0, "");
        self.0.retain_in::<(&str, u32, &str), _>(old, |_, _| false)?;
        Ok(())
    }
}
