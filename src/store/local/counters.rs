//! Billed and reserved images in memory, by account and month and by key and day.
//!
//! Billed images are copied from committed rows; reserved images belong to requests and jobs in progress.

use std::collections::{BTreeMap, HashMap};

use crate::store::{Day, Month, Rows, Usage};

/// Months of an account or a key that are held: the present one, the one before it, in which reservations may end, and later ones of
/// a clock that was ahead.
const MONTHS_HELD: usize = 4;

/// The counters of all accounts and keys.
#[derive(Debug, Default)]
pub(super) struct Counters {
    accounts: Months<Usage>,
    /// By public id of the key: billed images by day.
    keys: Months<BTreeMap<Day, u64>>,
}

/// What owners have billed in their months: of each owner [`MONTHS_HELD`], and further ones with open reservations.
type Months<B> = HashMap<String, BTreeMap<Month, Counter<B>>>;

/// One month of an account or a key.
#[derive(Debug, Default)]
struct Counter<B> {
    billed: B,
    reserved: u64,
}

impl Counters {
    /// What an account was billed in a month.
    pub(super) fn billed(&self, account: &str, month: Month) -> Usage {
        find(&self.accounts, account, month).map(|counter| counter.billed).unwrap_or_default()
    }

    /// Images of an account in a month, billed and reserved.
    pub(super) fn account_total(&self, account: &str, month: Month) -> u64 {
        // Saturating: a damaged store may hold numbers near the end of the type.
        let total = |counter: &Counter<Usage>| counter.billed.images.saturating_add(counter.reserved);
        find(&self.accounts, account, month).map_or(0, total)
    }

    /// Images of a key in a month, billed and reserved.
    pub(super) fn key_total(&self, key_id: &str, month: Month) -> u64 {
        find(&self.keys, key_id, month)
            .map_or(0, |counter| counter.billed.values().copied().fold(counter.reserved, u64::saturating_add))
    }

    /// Adds reserved images.
    pub(super) fn reserve(&mut self, account: &str, key_id: Option<&str>, month: Month, images: u64) {
        self.change_reserved(account, key_id, month, images, u64::saturating_add);
    }

    /// Copies the usage that a change committed.
    pub(super) fn copy(&mut self, rows: &Rows) {
        for (account, month, billed) in &rows.usage {
            entry(&mut self.accounts, account, *month).billed = *billed;
        }
        for (_, day, key_id, used) in &rows.key_days {
            entry(&mut self.keys, key_id, day.month()).billed.insert(*day, used.images);
        }
    }

    /// Copies the usage that a change committed, and releases `images` reserved in `month`.
    pub(super) fn finalize(&mut self, rows: &Rows, account: &str, key_id: Option<&str>, month: Month, images: u64) {
        self.copy(rows);
        self.change_reserved(account, key_id, month, images, u64::saturating_sub);
    }

    fn change_reserved(
        &mut self,
        account: &str,
        key_id: Option<&str>,
        month: Month,
        images: u64,
        change: fn(u64, u64) -> u64,
    ) {
        let counter = entry(&mut self.accounts, account, month);
        counter.reserved = change(counter.reserved, images);
        if let Some(id) = key_id.filter(|_| images > 0) {
            let counter = entry(&mut self.keys, id, month);
            counter.reserved = change(counter.reserved, images);
        }
    }

    /// Months of an account that are held in memory.
    #[cfg(test)]
    pub(super) fn months(&self, account: &str) -> usize {
        self.accounts.get(account).map_or(0, BTreeMap::len)
    }
}

fn find<'a, B>(of: &'a Months<B>, owner: &str, month: Month) -> Option<&'a Counter<B>> {
    of.get(owner)?.get(&month)
}

/// The counter of an owner in a month, created if missing. Drops the oldest months beyond [`MONTHS_HELD`], except for this month and
/// those with open reservations. Their number is bounded, not their distance from `month`: a clock that is ahead for a moment must
/// not drop the present month.
fn entry<'a, B: Default>(of: &'a mut Months<B>, owner: &str, month: Month) -> &'a mut Counter<B> {
    if !of.contains_key(owner) {
        of.insert(owner.to_owned(), BTreeMap::new());
    }
    let months = of.get_mut(owner).expect("it was inserted if it was not there");
    months.entry(month).or_default();
    while months.len() > MONTHS_HELD {
        let droppable = months.iter().find(|(other, counter)| **other != month && counter.reserved == 0);
        let Some(oldest) = droppable.map(|(oldest, _)| *oldest) else { break };
        months.remove(&oldest);
    }
    months.entry(month).or_default()
}
