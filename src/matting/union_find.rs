//! Disjoint sets of runs, as a forest with path halving (Tarjan and van Leeuwen, J. ACM 1984).

/// The parent of each run; a root is its own parent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forest {
    parents: Vec<u32>,
}

impl Forest {
    pub(crate) fn clear(&mut self) {
        self.parents.clear();
    }

    pub(crate) fn push(&mut self) {
        self.parents.push(self.parents.len() as u32);
    }

    /// The first run of the set of `index`.
    pub(crate) fn root(&mut self, mut index: usize) -> usize {
        while self.parents[index] as usize != index {
            let parent = self.parents[index] as usize;
            self.parents[index] = self.parents[parent];
            index = parent;
        }
        index
    }

    /// Joins the sets of two runs under the earlier root, so that the forest depends on the picture alone.
    pub(crate) fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b) as u32;
    }
}
