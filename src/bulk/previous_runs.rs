//! The objects that earlier runs finished, as fingerprints read from the report.

use super::hash::Hash;

/// Sorted fingerprints of the objects whose results are stored, 16 bytes each.
#[derive(Clone, Debug, Default)]
pub(super) struct PreviousRuns(Vec<Hash>);

/// Collects the rows of a report, oldest first.
#[derive(Debug, Default)]
pub(super) struct PreviousRunsBuilder(Vec<(Hash, Hash)>);

/// In place of a fingerprint: the object is not done. No input has this hash.
const NOT_DONE: Hash = 0;

impl PreviousRunsBuilder {
    /// Adds a row: the hash of its object, and the row's fingerprint if the object is done.
    pub(super) fn add(&mut self, source: Hash, fingerprint: Option<Hash>) {
        self.0.push((source, fingerprint.unwrap_or(NOT_DONE)));
    }

    /// Keeps the newest row of each object: the result of an older one has been overwritten.
    pub(super) fn build(mut self) -> PreviousRuns {
        // Stable: the rows of one object stay in their order.
        self.0.sort_by_key(|&(source, _)| source);
        let newest = self.0.chunk_by(|a, b| a.0 == b.0).filter_map(|rows| rows.last().map(|&(_, hash)| hash));
        let mut fingerprints: Vec<Hash> = newest.filter(|&hash| hash != NOT_DONE).collect();
        fingerprints.sort_unstable();
        PreviousRuns(fingerprints)
    }
}

impl PreviousRuns {
    /// Whether an object with this fingerprint is done.
    pub(super) fn contains(&self, fingerprint: Hash) -> bool {
        self.0.binary_search(&fingerprint).is_ok()
    }

    /// The number of objects that are done.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_row_of_an_object_counts() {
        let mut builder = PreviousRunsBuilder::default();
        builder.add(1, Some(10));
        builder.add(2, Some(20));
        builder.add(1, Some(11));
        builder.add(3, None);
        builder.add(2, None);
        builder.add(3, Some(30));
        let previous = builder.build();
        assert_eq!([10, 11, 20, 30].map(|hash| previous.contains(hash)), [false, true, false, true]);
        assert_eq!(previous.len(), 2);
    }
}
