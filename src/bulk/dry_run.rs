//! Looking before doing: how many objects there are, and what would be done with them.

use super::ledger::Ledger;
use super::run::RunError;
use super::sieve::{Order, Places, Sieve, Verdict};
use super::{Hash, hash};
use futures_util::TryStreamExt;
use object_store::ObjectMeta;
use std::collections::BTreeMap;

/// How much there is to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Objects that are asked for and this machine's, done or not.
    pub objects: u64,
    /// Of those that are not done, how many are made at most.
    pub limit: Option<u64>,
}

/// Counts the objects that a run looks at; nothing when they cannot be listed.
pub async fn total(places: &Places, order: &Order) -> Option<Total> {
    let mut listing = places.from.store.list(Some(&places.from.prefix));
    let mut total = Total { objects: 0, limit: order.limit };
    while let Some(meta) = listing.try_next().await.ok()? {
        total.objects += u64::from(places.concerns(order, &meta));
    }
    Some(total)
}

/// What a run would do.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Objects that would be worked on.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that are done, as far as the report knows.
    pub done: u64,
    /// Objects that would be refused unread, by code.
    pub refused: BTreeMap<String, u64>,
    /// Listed objects that are not asked for, or another machine's.
    pub passed: u64,
    /// Some of those that would be worked on, chosen evenly and always the same.
    pub sample: Vec<ObjectMeta>,
}

/// Looks at everything that a run would look at, and picks a sample of `sample` objects.
///
/// # Errors
/// When the place cannot be listed.
pub async fn survey(places: &Places, order: &Order, ledger: &Ledger, sample: usize) -> Result<Survey, RunError> {
    let mut listing = places.from.store.list(Some(&places.from.prefix));
    let mut sieve = Sieve::new(places, order, ledger.known());
    let mut survey = Survey::default();
    let mut lowest: BTreeMap<Hash, ObjectMeta> = BTreeMap::new();
    let failed = |error| RunError::Listing { place: places.from.place(), error };
    while let Some(meta) = listing.try_next().await.map_err(failed)? {
        match sieve.judge(meta) {
            Verdict::Passed => survey.passed += 1,
            Verdict::Done => survey.done += 1,
            Verdict::Refused(row) => *survey.refused.entry(row.code.unwrap_or_default()).or_default() += 1,
            Verdict::Full => break,
            Verdict::Task(task) => {
                survey.objects += 1;
                survey.bytes += task.meta.size;
                lowest.insert(hash(&[task.meta.location.as_ref()]), task.meta);
                if lowest.len() > sample {
                    lowest.pop_last();
                }
            }
        }
    }
    survey.sample = lowest.into_values().collect();
    Ok(survey)
}
