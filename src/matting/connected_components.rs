//! Connected components (4-connected) of the cells of a grid or the pixels of a matte.
//!
//! Run-based labelling with union-find: runs along a row are joined with the runs that touch them in the row above, so
//! the cost is proportional to the length of edges.

use super::union_find::Forest;
use std::ops::Range;

/// The components of one grid as runs along the rows, in the order of their first cells. Its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Components {
    runs: Vec<Run>,
    forest: Forest,
    count: usize,
}

impl Components {
    /// Finds the components of the cells whose value is `inside`.
    pub(crate) fn find<T: Copy>(&mut self, values: &[T], columns: usize, inside: impl Fn(T) -> bool) {
        let Self { runs, forest, count } = self;
        connect(runs, forest, values, columns, inside);
        *count = 0;
        for index in 0..runs.len() {
            // The root is the first run of its component, so it has its number before the others.
            let root = forest.root(index);
            if root == index {
                runs[index].component = *count as u32;
                *count += 1;
            } else {
                runs[index].component = runs[root].component;
            }
        }
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// All runs in the order of their cells, each with its component's number.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
        self.runs.iter().map(|run| (run.start as usize..run.end as usize, run.component as usize))
    }
}

/// The largest component of `members`; the first one of equal size.
pub(crate) fn largest(members: &[bool], columns: usize) -> Vec<bool> {
    let mut components = Components::default();
    components.find(members, columns, |member| member);
    let mut sizes = vec![0usize; components.count()];
    components.runs().for_each(|(run, component)| sizes[component] += run.len());
    let most = sizes.iter().copied().max().unwrap_or(0);
    let largest = sizes.iter().position(|&size| size == most);
    let mut found = vec![false; members.len()];
    components.runs().filter(|(_, component)| Some(*component) == largest).for_each(|(run, _)| found[run].fill(true));
    found
}

/// The left, right, upper and lower neighbours of the cell `at` inside the grid.
pub(super) fn neighbours(columns: usize, cells: usize, at: usize) -> impl Iterator<Item = usize> {
    let x = at % columns;
    let across = [(x > 0).then(|| at - 1), (x + 1 < columns).then_some(at + 1)];
    let down = [at.checked_sub(columns), Some(at + columns).filter(|&below| below < cells)];
    across.into_iter().chain(down).flatten()
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// Indices of the first cell and after the last.
    start: u32,
    end: u32,
    component: u32,
}

/// The runs of `inside` cells in order, not yet numbered, and the forest that joins the runs of a component.
fn connect<T: Copy>(
    runs: &mut Vec<Run>,
    forest: &mut Forest,
    values: &[T],
    columns: usize,
    inside: impl Fn(T) -> bool,
) {
    runs.clear();
    forest.clear();
    let mut above = 0..0;
    for (y, row) in values.chunks_exact(columns).enumerate() {
        let first = runs.len();
        let mut x = 0;
        let mut candidate = above.start;
        while let Some(skip) = row[x..].iter().position(|&value| inside(value)) {
            let start = x + skip;
            let end = row[start..].iter().position(|&value| !inside(value)).map_or(columns, |len| start + len);
            let index = runs.len();
            let base = y * columns;
            runs.push(Run { start: (base + start) as u32, end: (base + end) as u32, component: 0 });
            forest.push();
            // Runs above that end left of this run end left of all later ones.
            while candidate < above.end && runs[candidate].end as usize + columns <= base + start {
                candidate += 1;
            }
            let mut touching = candidate;
            while touching < above.end && (runs[touching].start as usize + columns) < base + end {
                forest.join(index, touching);
                touching += 1;
            }
            x = end;
            if x == columns {
                break;
            }
        }
        above = first..runs.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn components(cells: &[u8], columns: usize) -> Vec<Vec<usize>> {
        let mut components = Components::default();
        components.find(cells, columns, |cell| cell == 1);
        let mut found = vec![Vec::new(); components.count()];
        components.runs().for_each(|(run, component)| found[component].extend(run));
        found
    }

    #[test]
    fn components_are_connected_by_sides_and_not_by_corners_or_across_the_border() {
        #[rustfmt::skip]
        let cells = [
            1, 0, 0, 1,
            0, 1, 1, 0,
            1, 1, 0, 0,
        ];
        assert_eq!(components(&cells, 4), [vec![0], vec![3], vec![5, 6, 8, 9]]);
        assert_eq!(components(&[0; 12], 4), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn arms_that_meet_further_down_are_one_component() {
        #[rustfmt::skip]
        let cells = [
            1, 0, 1, 0, 1,
            1, 0, 1, 1, 1,
            1, 1, 1, 0, 0,
            0, 0, 0, 0, 1,
            0, 0, 0, 0, 1,
        ];
        assert_eq!(components(&cells, 5), [vec![0, 2, 4, 5, 7, 8, 9, 10, 11, 12], vec![19, 24]]);
    }

    #[test]
    fn the_larger_of_two_components_wins_and_corners_do_not_connect() {
        let picture = "##..#\n#..#.\n....#";
        let members: Vec<bool> = picture.chars().filter(|c| *c != '\n').map(|c| c == '#').collect();
        let found = largest(&members, 5);
        assert_eq!((0..15).filter(|&i| found[i]).collect::<Vec<_>>(), [0, 1, 5]);
        let twins = largest(&[true, false, true], 3);
        assert_eq!(twins, [true, false, false], "the first of two of the same size");
        assert!(largest(&[false; 4], 2).iter().all(|member| !member));
    }
}
