//! Billed and reserved images in memory, by account and month and by key and day.
//!
//! Billed images are copied from committed rows; reserved images belong to requests and jobs in progress.

use std::collections::{BTreeMap, HashMap};

use crate::store::{Day, KeyDay, Month, Rows, Usage};

/// Months of an account or a key that are held: the present one, the one before it, in which reservations may end, and later ones of
/// a clock that was ahead.
const MONTHS_HELD: usize = 4;

/// The counters of all accounts and keys.
#[derive(Debug, Default)]
pub(in crate::store) struct Counters {
    /// Of each account [`MONTHS_HELD`] months, and further ones with open reservations.
    accounts: HashMap<String, BTreeMap<Month, MonthCounter>>,
    /// Of each used key, by its public id.
    keys: HashMap<String, KeyCounter>,
}

/// One account in one month.
#[derive(Clone, Copy, Debug, Default)]
struct MonthCounter {
    billed: Usage,
    reserved: u64,
}

/// One key.
#[derive(Debug, Default)]
struct KeyCounter {
    /// Images by day, of [`MONTHS_HELD`] months, and further ones with open reservations.
    billed: BTreeMap<Month, BTreeMap<Day, u64>>,
    reserved: BTreeMap<Month, u64>,
}

impl Counters {
    /// The counters for stored usage, with nothing reserved.
    pub(in crate::store) fn load(
        usage: Vec<(String, Month, Usage)>,
        key_days: Vec<(String, Day, String, KeyDay)>,
    ) -> Self {
        let mut counters = Self::default();
        for (account, month, billed) in usage {
            let months = counters.accounts.entry(account).or_default();
            months.insert(month, MonthCounter { billed, reserved: 0 });
            drop_old_months(months, month, |_, _| false);
        }
        for (_, day, key_id, used) in key_days {
            counters.keys.entry(key_id).or_default().record(day, used.images);
        }
        counters
    }

    /// What an account was billed in a month.
    pub(in crate::store) fn billed(&self, account: &str, month: Month) -> Usage {
        self.account(account, month).map(|counter| counter.billed).unwrap_or_default()
    }

    /// Images of an account in a month, billed and reserved.
    pub(in crate::store) fn account_total(&self, account: &str, month: Month) -> u64 {
        // Saturating: a damaged store may hold numbers near the end of the type.
        self.account(account, month).map_or(0, |counter| counter.billed.images.saturating_add(counter.reserved))
    }

    /// Images of a key in a month, billed and reserved.
    pub(in crate::store) fn key_total(&self, key_id: &str, month: Month) -> u64 {
        self.keys.get(key_id).map_or(0, |key| key.total(month))
    }

    /// Adds reserved images.
    pub(in crate::store) fn reserve(&mut self, account: &str, key_id: Option<&str>, month: Month, images: u64) {
        let counter = month_counter(&mut self.accounts, account, month);
        counter.reserved = counter.reserved.saturating_add(images);
        if let Some(id) = key_id
            && images > 0
        {
            let reserved = self.keys.entry(id.to_owned()).or_default().reserved.entry(month).or_default();
            *reserved = reserved.saturating_add(images);
        }
    }

    /// Copies the usage that a change committed.
    pub(in crate::store) fn copy(&mut self, rows: &Rows) {
        for (account, month, billed) in &rows.usage {
            month_counter(&mut self.accounts, account, *month).billed = *billed;
        }
        for (_, day, key_id, used) in &rows.key_days {
            self.keys.entry(key_id.clone()).or_default().record(*day, used.images);
        }
    }

    /// Copies the usage that a change committed, and releases `images` reserved in `month`.
    pub(in crate::store) fn finalize(
        &mut self,
        rows: &Rows,
        account: &str,
        key_id: Option<&str>,
        month: Month,
        images: u64,
    ) {
        self.copy(rows);
        let counter = month_counter(&mut self.accounts, account, month);
        counter.reserved = counter.reserved.saturating_sub(images);
        if let Some(key) = key_id.and_then(|id| self.keys.get_mut(id)) {
            key.release(month, images);
        }
    }

    /// Months of an account that are held in memory.
    #[cfg(test)]
    pub(in crate::store) fn months(&self, account: &str) -> usize {
        self.accounts.get(account).map_or(0, BTreeMap::len)
    }

    fn account(&self, account: &str, month: Month) -> Option<&MonthCounter> {
        self.accounts.get(account).and_then(|months| months.get(&month))
    }
}

impl KeyCounter {
    fn total(&self, month: Month) -> u64 {
        let days = self.billed.get(&month).into_iter().flat_map(BTreeMap::values);
        days.chain(self.reserved.get(&month)).copied().fold(0, u64::saturating_add)
    }

    /// Copies the stored count of a day.
    fn record(&mut self, day: Day, images: u64) {
        let (month, reserved) = (day.month(), &self.reserved);
        self.billed.entry(month).or_default().insert(day, images);
        drop_old_months(&mut self.billed, month, |month, _| reserved.contains_key(&month));
    }

    fn release(&mut self, month: Month, images: u64) {
        if let Some(reserved) = self.reserved.get_mut(&month) {
            *reserved = reserved.saturating_sub(images);
            if *reserved == 0 {
                self.reserved.remove(&month);
            }
        }
    }
}

/// The counter of an account in a month, created if missing.
fn month_counter<'a>(
    accounts: &'a mut HashMap<String, BTreeMap<Month, MonthCounter>>,
    account: &str,
    month: Month,
) -> &'a mut MonthCounter {
    if !accounts.contains_key(account) {
        accounts.insert(account.to_owned(), BTreeMap::new());
    }
    let months = accounts.get_mut(account).expect("it was inserted if it was not there");
    months.entry(month).or_default();
    drop_old_months(months, month, |_, counter| counter.reserved > 0);
    months.entry(month).or_default()
}

/// Drops the oldest months beyond [`MONTHS_HELD`], except `current` and those with open reservations. Their number is bounded, not
/// their distance from `current`: a clock that is ahead for a moment must not drop the present month.
fn drop_old_months<T>(months: &mut BTreeMap<Month, T>, current: Month, is_open: impl Fn(Month, &T) -> bool) {
    while months.len() > MONTHS_HELD {
        let is_droppable = |month: Month, counted: &T| month != current && !is_open(month, counted);
        let oldest = months.iter().find(|&(month, counted)| is_droppable(*month, counted)).map(|(month, _)| *month);
        let Some(oldest) = oldest else { return };
        months.remove(&oldest);
    }
}
