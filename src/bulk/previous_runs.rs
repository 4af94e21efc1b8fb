//! What earlier runs have done, as hashes.

use super::Hash;

/// Marks of objects whose results are stored. Sixteen bytes each.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Vec<Hash>);

/// Gathers the rows of a report, oldest first.
#[derive(Debug, Default)]
pub(super) struct Gather(Vec<(Hash, Hash)>);

/// In the place of a mark: not done. No text has this hash.
const NOT_DONE: Hash = 0;

impl Gather {
    /// A row: which object it is about, and its mark if it says that the object is done.
    pub(super) fn row(&mut self, source: Hash, mark: Option<Hash>) {
        self.0.push((source, mark.unwrap_or(NOT_DONE)));
    }

    /// The newest row of each object counts: an older one tells of a result that is overwritten.
    pub(super) fn finish(mut self) -> Known {
        // Stable: the rows of one object stay in their order.
        self.0.sort_by_key(|&(source, _)| source);
        let newest = self.0.chunk_by(|a, b| a.0 == b.0).filter_map(|rows| rows.last().map(|&(_, mark)| mark));
        let mut marks: Vec<Hash> = newest.filter(|&mark| mark != NOT_DONE).collect();
        marks.sort_unstable();
        Known(marks)
    }
}

impl Known {
    /// Whether this is done.
    pub(super) fn has(&self, mark: Hash) -> bool {
        self.0.binary_search(&mark).is_ok()
    }

    /// How many objects are done.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_row_of_an_object_counts() {
        let mut gather = Gather::default();
        gather.row(1, Some(10));
        gather.row(2, Some(20));
        gather.row(1, Some(11));
        gather.row(3, None);
        gather.row(2, None);
        gather.row(3, Some(30));
        let known = gather.finish();
        assert_eq!([10, 11, 20, 30].map(|mark| known.has(mark)), [false, true, false, true]);
        assert_eq!(known.len(), 2);
    }
}
