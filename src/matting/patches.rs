//! Connected patches of the cells of a grid.

/// Every connected patch of cells that `belong`, as indices into a grid of so many `columns` and `cells`, in the order of
/// their first cells.
pub(super) fn patches(columns: usize, cells: usize, belong: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let mut seen = vec![false; cells];
    let mut patches = Vec::new();
    for first in 0..cells {
        if seen[first] || !belong(first) {
            continue;
        }
        seen[first] = true;
        let mut patch = vec![first];
        let mut next = 0;
        while let Some(&at) = patch.get(next) {
            next += 1;
            for side in sides(columns, cells, at) {
                if !seen[side] && belong(side) {
                    seen[side] = true;
                    patch.push(side);
                }
            }
        }
        patches.push(patch);
    }
    patches
}

/// The cells left, right, above and below of the cell `at`, as far as they are inside the grid.
pub(super) fn sides(columns: usize, cells: usize, at: usize) -> impl Iterator<Item = usize> {
    let x = at % columns;
    let across = [(x > 0).then(|| at - 1), (x + 1 < columns).then_some(at + 1)];
    let down = [at.checked_sub(columns), Some(at + columns).filter(|&below| below < cells)];
    across.into_iter().chain(down).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_joined_by_sides_and_not_by_corners_or_across_the_border() {
        #[rustfmt::skip]
        let cells = [
            1, 0, 0, 1,
            0, 1, 1, 0,
            1, 1, 0, 0,
        ];
        assert_eq!(patches(4, 12, |at| cells[at] == 1), [vec![0], vec![3], vec![5, 6, 9, 8]]);
        assert_eq!(patches(4, 12, |_| false), Vec::<Vec<usize>>::new());
    }
}
