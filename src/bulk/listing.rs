//! Counts the listed objects that belong to a run, for progress and time left.

use super::locations::Locations;
use super::options::RunOptions;
use futures_util::TryStreamExt;

/// The size of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListingTotal {
    /// Objects that match the filter and the shard, done or not.
    pub objects: u64,
    /// The run's limit on objects to process.
    pub limit: Option<u64>,
}

/// Counts the objects of a run; `None` when they cannot be listed.
pub(super) async fn count_objects(locations: &Locations, options: &RunOptions) -> Option<ListingTotal> {
    let mut listing = locations.source.store.list(Some(&locations.source.prefix));
    let mut total = ListingTotal { objects: 0, limit: options.limit };
    while let Some(meta) = listing.try_next().await.ok()? {
        total.objects += u64::from(locations.select(options, &meta).is_some());
    }
    Some(total)
}
