//! Fills low-confidence holes of a mask that confident subject encloses.
//!
//! A hole is a connected component of likely background that the subject encloses. One that the network is certain of
//! anywhere (the gap of a handle, the sky between arm and body) stays. One that it is certain of nowhere, and that is
//! surrounded by confident subject, is filled, together with the likely subject around it whose probability the hole lowers.

use crate::matting::connected_components::{components, neighbours};
use std::collections::HashSet;

/// Below this a cell is certain background.
const CERTAIN_BACKGROUND: f32 = 0.02;
/// Width of the ring around a hole that has to be subject, in cells: beyond the ramp of the hole's edge.
const RING_CELLS: usize = 5;
/// The ramp itself, in cells.
const RAMP_CELLS: usize = 3;
/// All of the ring but a tenth has to be at least this much subject.
const RING_SUBJECT: f32 = 0.6;

const ALL_AROUND: [(isize, isize); 8] = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1)];

/// Fills every such hole of `values`, on a grid of `columns`.
pub(super) fn fill(values: &mut [f32], columns: usize) {
    // Written at the end, so that one filled hole is no evidence for the next.
    let mut filled = Vec::new();
    for mut hole in components(values, columns, |value| value < 0.5) {
        let enclosed = || hole.iter().all(|&at| neighbours(columns, values.len(), at).count() == 4);
        if hole.iter().all(|&at| values[at] >= CERTAIN_BACKGROUND)
            && enclosed()
            && let Some(around) = subject_around(values, columns, &hole)
        {
            filled.append(&mut hole);
            filled.extend(around.into_iter().filter(|&at| values[at] >= 0.5));
        }
    }
    filled.into_iter().for_each(|at| values[at] = 1.0);
}

/// The eight cells around the cell `at`, as far as they are inside the grid.
fn around([width, height]: [usize; 2], at: usize) -> impl Iterator<Item = usize> {
    let (x, y) = (at % width, at / width);
    ALL_AROUND.into_iter().filter_map(move |(right, down)| {
        let (x, y) = (x.checked_add_signed(right)?, y.checked_add_signed(down)?);
        (x < width && y < height).then_some(y * width + x)
    })
}

/// The hole and the cells around it, if nine tenths of the ring are subject.
fn subject_around(values: &[f32], columns: usize, hole: &[usize]) -> Option<HashSet<usize>> {
    let grid = [columns, values.len() / columns];
    let mut reached: HashSet<usize> = hole.iter().copied().collect();
    let mut front = hole.to_vec();
    let (mut ring, mut subject) = (0usize, 0usize);
    for distance in 1..=RING_CELLS {
        let mut further = Vec::new();
        for at in front {
            further.extend(around(grid, at).filter(|&next| reached.insert(next)));
        }
        if distance > RAMP_CELLS {
            ring += further.len();
            subject += further.iter().filter(|&&at| values[at] >= RING_SUBJECT).count();
        }
        front = further;
    }
    (subject * 10 >= ring * 9).then_some(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subject of probability `subject`, with a hole of probability `depth` in it, on a grid of 40 × 30.
    fn holed(subject: f32, depth: f32, centre: (i32, i32)) -> Vec<f32> {
        let value = |x: i32, y: i32| {
            if (x - centre.0).abs() <= 2 && (y - centre.1).abs() <= 1 {
                depth
            } else if (5..35).contains(&x) && (4..26).contains(&y) {
                subject
            } else {
                0.0
            }
        };
        (0..30).flat_map(|y| (0..40).map(move |x| value(x, y))).collect()
    }

    fn is_filled(mut values: Vec<f32>, centre: (usize, usize)) -> bool {
        let before = values.clone();
        fill(&mut values, 40);
        let filled = values[centre.1 * 40 + centre.0] == 1.0;
        assert_eq!(filled, values != before, "something else changed");
        assert!(values.iter().zip(&before).all(|(after, before)| after >= before), "it only adds");
        filled
    }

    #[test]
    fn an_uncertain_hole_in_confident_subject_is_filled() {
        assert!(is_filled(holed(1.0, 0.1, (20, 15)), (20, 15)));
        assert!(is_filled(holed(0.7, 0.4, (20, 15)), (20, 15)));
    }

    #[test]
    fn a_hole_that_is_certain_background_stays() {
        assert!(!is_filled(holed(1.0, 0.01, (20, 15)), (20, 15)));
    }

    #[test]
    fn a_hole_in_uncertain_subject_or_near_its_edge_stays() {
        assert!(!is_filled(holed(0.55, 0.1, (20, 15)), (20, 15)));
        assert!(!is_filled(holed(1.0, 0.1, (32, 15)), (32, 15)));
    }

    #[test]
    fn a_bay_that_reaches_the_border_is_no_hole() {
        let mut values = holed(1.0, 0.1, (20, 15));
        (0..15).for_each(|y| values[y * 40 + 20] = 0.1);
        assert!(!is_filled(values, (20, 15)));
    }
}
