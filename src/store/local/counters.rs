//! Billed and reserved images in memory, by account and month and by key and day.
//!
//! Billed images are copied from committed rows; reserved images belong to requests and jobs in progress.

use std::collections::{BTreeMap, HashMap};

use crate::store::{Day, Job, Month, Rows, Usage};

/// Months of an account or a key that are held: the present one, the one before it, in which reservations may end, and later ones of
/// a clock that was ahead.
const MONTHS_HELD: usize = 4;

/// Whose images: account, public id of the key, month.
pub(super) type Of<'a> = (&'a str, Option<&'a str>, Month);

/// The counters of all accounts and keys.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) accounts: Months<Usage>,
    /// By public id of the key: billed images by day.
    keys: Months<BTreeMap<Day, u64>>,
    /// The unfinished jobs by id, for which images are reserved.
    pub(super) jobs: HashMap<String, Job>,
}

/// What owners have billed in their months: of each owner [`MONTHS_HELD`], and further ones with open reservations.
pub(super) type Months<B> = HashMap<String, BTreeMap<Month, Counter<B>>>;

/// One month of an account or a key.
#[derive(Debug, Default)]
pub(super) struct Counter<B> {
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
    pub(super) fn reserve(&mut self, of: Of<'_>, images: u64) {
        self.reserved(of).for_each(|reserved| *reserved = reserved.saturating_add(images));
    }

    /// Releases reserved images.
    pub(super) fn release(&mut self, of: Of<'_>, images: u64) {
        self.reserved(of).for_each(|reserved| *reserved = reserved.saturating_sub(images));
    }

    /// What is reserved of the account and of the key.
    fn reserved(&mut self, (account, key_id, month): Of<'_>) -> impl Iterator<Item = &mut u64> {
        let account = entry(&mut self.accounts, account, month);
        let key = key_id.map(|id| entry(&mut self.keys, id, month));
        std::iter::once(&mut account.reserved).chain(key.map(|key| &mut key.reserved))
    }

    /// Enters an unfinished job, whose images are counted as reserved from now on.
    fn enter(&mut self, job: &Job) {
        if !self.jobs.contains_key(&job.id) {
            self.reserve((&job.account, Some(&job.key_id), job.month), job.reserved);
            self.take_over(job);
        }
    }

    /// Enters a job whose images are counted as reserved already.
    pub(super) fn take_over(&mut self, job: &Job) {
        self.jobs.insert(job.id.clone(), job.clone());
    }

    /// Releases what is reserved for a job.
    fn leave(&mut self, id: &str) {
        if let Some(job) = self.jobs.remove(id) {
            self.release((&job.account, Some(&job.key_id), job.month), job.reserved);
        }
    }

    /// Copies the usage that a change committed, enters the unfinished jobs that it wrote, and releases what is reserved for those
    /// that it ended.
    pub(super) fn copy(&mut self, rows: &Rows) {
        for (account, month, billed) in &rows.usage {
            entry(&mut self.accounts, account, *month).billed = *billed;
        }
        for (_, day, key_id, used) in &rows.key_days {
            entry(&mut self.keys, key_id, day.month()).billed.insert(*day, used.images);
        }
        for job in &rows.jobs {
            if job.state.is_final() {
                self.leave(&job.id);
            } else {
                self.enter(job);
            }
        }
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
