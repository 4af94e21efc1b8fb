//! Holes of the mask that the network does not mean.
//!
//! A hole is a patch of likely background that the subject encloses. One that the network is sure of anywhere (the gap
//! of a handle, the sky between arm and body) stays. One that it is sure of nowhere, and that lies in the midst of
//! certain subject, is filled, together with the likely subject around it that the hole made doubtful.

use super::patches::{patches, sides};
use crate::image::Mask;
use std::collections::HashSet;

/// Below this the network is sure of background.
const SURE_BACKGROUND: f32 = 0.02;
/// How far around a hole the subject is looked for, in cells: beyond the ramp of the hole's edge.
const RING_CELLS: usize = 5;
/// The ramp itself, in cells.
const RAMP_CELLS: usize = 3;
/// All of the ring but a tenth has to be at least this much subject.
const RING_SUBJECT: f32 = 0.6;

const ALL_AROUND: [(isize, isize); 8] = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1)];

/// Fills every such hole.
pub(super) fn fill(mask: &mut Mask) {
    // Written at the end, so that one filled hole does not vouch for the next.
    let mut filled = Vec::new();
    let (columns, cells) = (mask.size.width as usize, mask.values.len());
    for mut hole in patches(&mask.values, columns, |value| value < 0.5) {
        let enclosed = || hole.iter().all(|&at| sides(columns, cells, at).count() == 4);
        if hole.iter().all(|&at| mask.values[at] >= SURE_BACKGROUND)
            && enclosed()
            && let Some(around) = subject_around(mask, &hole)
        {
            filled.append(&mut hole);
            filled.extend(around.into_iter().filter(|&at| mask.values[at] >= 0.5));
        }
    }
    filled.into_iter().for_each(|at| mask.values[at] = 1.0);
}

/// The cells around the cell `at`, as far as they are inside the mask.
fn around(mask: &Mask, at: usize) -> impl Iterator<Item = usize> + use<> {
    let (width, height) = (mask.size.width as usize, mask.size.height as usize);
    let (x, y) = (at % width, at / width);
    ALL_AROUND.into_iter().filter_map(move |(right, down)| {
        let (x, y) = (x.checked_add_signed(right)?, y.checked_add_signed(down)?);
        (x < width && y < height).then_some(y * width + x)
    })
}

/// The hole and what is around it, if the ring, a tenth of it forgiven, is subject.
fn subject_around(mask: &Mask, hole: &[usize]) -> Option<HashSet<usize>> {
    let mut reached: HashSet<usize> = hole.iter().copied().collect();
    let mut front = hole.to_vec();
    let (mut ring, mut subject) = (0usize, 0usize);
    for distance in 1..=RING_CELLS {
        let mut further = Vec::new();
        for at in front {
            further.extend(around(mask, at).filter(|&next| reached.insert(next)));
        }
        if distance > RAMP_CELLS {
            ring += further.len();
            subject += further.iter().filter(|&&at| mask.values[at] >= RING_SUBJECT).count();
        }
        front = further;
    }
    (subject * 10 >= ring * 9).then_some(reached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Size;

    /// A subject of certainty `subject` on nothing, with a hole of `depth` in it.
    fn holed(subject: f32, depth: f32, centre: (i32, i32)) -> Mask {
        let size = Size::new(40, 30);
        let value = |x: i32, y: i32| {
            if (x - centre.0).abs() <= 2 && (y - centre.1).abs() <= 1 {
                depth
            } else if (5..35).contains(&x) && (4..26).contains(&y) {
                subject
            } else {
                0.0
            }
        };
        Mask { size, values: (0..30).flat_map(|y| (0..40).map(move |x| value(x, y))).collect() }
    }

    fn is_filled(mut mask: Mask, centre: (usize, usize)) -> bool {
        let before = mask.clone();
        fill(&mut mask);
        let filled = mask.values[centre.1 * 40 + centre.0] == 1.0;
        assert_eq!(filled, mask != before, "something else changed");
        assert!(mask.values.iter().zip(&before.values).all(|(after, before)| after >= before), "it only adds");
        filled
    }

    #[test]
    fn a_doubtful_hole_in_certain_subject_is_filled() {
        assert!(is_filled(holed(1.0, 0.1, (20, 15)), (20, 15)));
        assert!(is_filled(holed(0.7, 0.4, (20, 15)), (20, 15)));
    }

    #[test]
    fn a_hole_that_the_network_is_sure_of_stays() {
        assert!(!is_filled(holed(1.0, 0.01, (20, 15)), (20, 15)));
    }

    #[test]
    fn a_hole_in_doubtful_subject_or_near_its_edge_stays() {
        assert!(!is_filled(holed(0.55, 0.1, (20, 15)), (20, 15)));
        assert!(!is_filled(holed(1.0, 0.1, (32, 15)), (32, 15)));
    }

    #[test]
    fn a_bay_that_reaches_the_border_is_no_hole() {
        let mut mask = holed(1.0, 0.1, (20, 15));
        (0..15).for_each(|y| mask.values[y * 40 + 20] = 0.1);
        assert!(!is_filled(mask, (20, 15)));
    }
}
