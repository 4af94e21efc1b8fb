//! Connected components (4-connected) of the cells of a grid or the pixels of a matte.
//!
//! Run-based labelling with union-find: runs along a row are joined with the runs above that they touch, so the cost is
//! that of the edges.

use std::ops::Range;

/// Every component of the `values` that are `inside`, as runs along the rows: components in the order of their first
/// cells, each from its first cell to its last.
pub(super) fn runs<T: Copy>(values: &[T], columns: usize, inside: impl Fn(T) -> bool) -> Vec<Vec<Range<usize>>> {
    let mut runs = connected(values, columns, inside);
    let mut components: Vec<Vec<Range<usize>>> = Vec::new();
    let mut component_of = vec![usize::MAX; runs.len()];
    for index in 0..runs.len() {
        let root = root(&mut runs, index);
        if component_of[root] == usize::MAX {
            component_of[root] = components.len();
            components.push(Vec::new());
        }
        components[component_of[root]].push(runs[index].start as usize..runs[index].end as usize);
    }
    components
}

/// The same, cell by cell.
pub(super) fn components<T: Copy>(values: &[T], columns: usize, inside: impl Fn(T) -> bool) -> Vec<Vec<usize>> {
    runs(values, columns, inside).into_iter().map(|component| component.into_iter().flatten().collect()).collect()
}

/// The members of the largest component of `members`; of components of the same size the first.
pub(crate) fn largest(members: &[bool], columns: usize) -> Vec<bool> {
    let size = |component: &[Range<usize>]| component.iter().map(Range::len).sum::<usize>();
    let components = runs(members, columns, |member| member);
    let larger = |largest: Option<(usize, Vec<Range<usize>>)>, component: Vec<Range<usize>>| match largest {
        Some((most, largest)) if most >= size(&component) => Some((most, largest)),
        Some(_) | None => Some((size(&component), component)),
    };
    let mut found = vec![false; members.len()];
    if let Some((_, largest)) = components.into_iter().fold(None, larger) {
        largest.into_iter().for_each(|run| found[run].fill(true));
    }
    found
}

/// The cells left, right, above and below of the cell `at`, as far as they are inside the grid.
pub(super) fn neighbours(columns: usize, cells: usize, at: usize) -> impl Iterator<Item = usize> {
    let x = at % columns;
    let across = [(x > 0).then(|| at - 1), (x + 1 < columns).then_some(at + 1)];
    let down = [at.checked_sub(columns), Some(at + columns).filter(|&below| below < cells)];
    across.into_iter().chain(down).flatten()
}

/// A run of cells and its parent in the union-find forest: itself for the root of a component.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The first cell, and the one after the last.
    start: u32,
    end: u32,
    parent: u32,
}

/// The runs of the cells that are `inside`, in order.
fn connected<T: Copy>(values: &[T], columns: usize, inside: impl Fn(T) -> bool) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
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
            runs.push(Run { start: (base + start) as u32, end: (base + end) as u32, parent: index as u32 });
            // Runs above that end left of this one end left of all that follow.
            while candidate < above.end && runs[candidate].end as usize + columns <= base + start {
                candidate += 1;
            }
            let mut touching = candidate;
            while touching < above.end && (runs[touching].start as usize + columns) < base + end {
                join(&mut runs, index, touching);
                touching += 1;
            }
            x = end;
            if x == columns {
                break;
            }
        }
        above = first..runs.len();
    }
    runs
}

fn root(runs: &mut [Run], mut index: usize) -> usize {
    while runs[index].parent as usize != index {
        let parent = runs[index].parent as usize;
        runs[index].parent = runs[parent].parent;
        index = parent;
    }
    index
}

fn join(runs: &mut [Run], a: usize, b: usize) {
    let (a, b) = (root(runs, a), root(runs, b));
    // The earlier run is the root: the forest does not depend on anything but the picture.
    let (early, late) = (a.min(b), a.max(b));
    runs[late].parent = early as u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_connected_by_sides_and_not_by_corners_or_across_the_border() {
        #[rustfmt::skip]
        let cells = [
            1, 0, 0, 1,
            0, 1, 1, 0,
            1, 1, 0, 0,
        ];
        assert_eq!(components(&cells, 4, |cell| cell == 1), [vec![0], vec![3], vec![5, 6, 8, 9]]);
        assert_eq!(components(&cells, 4, |_| false), Vec::<Vec<usize>>::new());
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
        assert_eq!(
            runs(&cells, 5, |cell| cell == 1),
            [vec![0..1, 2..3, 4..5, 5..6, 7..10, 10..13], vec![19..20, 24..25]]
        );
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
