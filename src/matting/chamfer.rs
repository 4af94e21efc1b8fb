//! Chamfer distance transform, and the distance to the edge of a segmentation.
//!
//! Weights 3 and 4 in two sweeps: Borgefors, "Distance Transformations in Digital Images", CVGIP 1986; at most 8 % off
//! Euclidean distance. Distances are in thirds of a cell.

/// A step along a row or column, and a diagonal one.
pub(super) const STRAIGHT: u16 = 3;
const DIAGONAL: u16 = 4;

/// Propagates distances from the zeros in two sweeps, down and back up. Cells outside of the grid have no influence.
pub(crate) fn chamfer(distance: &mut [u16], columns: usize) {
    // The previous row of the sweep, with a cell far from everything at either end.
    let mut beside = vec![u16::MAX; columns + 2];
    for row in distance.chunks_exact_mut(columns) {
        across(row, &beside);
        along(row.iter_mut());
        beside[1..=columns].copy_from_slice(row);
    }
    beside.fill(u16::MAX);
    for row in distance.chunks_exact_mut(columns).rev() {
        across(row, &beside);
        along(row.iter_mut().rev());
        beside[1..=columns].copy_from_slice(row);
    }
}

/// Distance of each of `cells` to the nearest edge: a cell that is `uncertain`, or two neighbours on different `side`s.
pub(super) fn edge_distance(
    cells: usize,
    columns: usize,
    side: impl Fn(usize) -> bool,
    uncertain: impl Fn(usize) -> bool,
) -> Vec<u16> {
    let mut distance = vec![u16::MAX; cells];
    for at in 0..cells {
        if uncertain(at) {
            distance[at] = 0;
        }
        let right = ((at + 1) % columns != 0).then_some(at + 1);
        let below = Some(at + columns).filter(|&below| below < cells);
        for other in [right, below].into_iter().flatten().filter(|&other| side(at) != side(other)) {
            distance[at] = 0;
            distance[other] = 0;
        }
    }
    chamfer(&mut distance, columns);
    distance
}

/// One step from the previous row; without a branch, so that it is vectorised.
fn across(row: &mut [u16], beside: &[u16]) {
    for (distance, near) in row.iter_mut().zip(beside.windows(3)) {
        let corner = near[0].min(near[2]).saturating_add(DIAGONAL);
        *distance = (*distance).min(near[1].saturating_add(STRAIGHT)).min(corner);
    }
}

fn along<'a>(row: impl Iterator<Item = &'a mut u16>) {
    let mut last = u16::MAX;
    for distance in row {
        *distance = (*distance).min(last.saturating_add(STRAIGHT));
        last = *distance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_grow_from_the_edge() {
        let distance = edge_distance(20 * 9, 20, |at| at % 20 < 10, |_| false);
        let row: Vec<u16> = distance[80..100].iter().map(|&thirds| thirds / STRAIGHT).collect();
        assert_eq!(row, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn an_uncertain_cell_is_an_edge() {
        let distance = edge_distance(9, 3, |_| true, |at| at == 4);
        assert_eq!(distance, [4, 3, 4, 3, 0, 3, 4, 3, 4]);
    }
}
