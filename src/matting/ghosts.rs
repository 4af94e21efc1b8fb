//! What the network saw beside the subject and does not stand by.
//!
//! A patch that it never once thought more likely subject than not, however large, is background: it would be a ghost in
//! the cutout. So is a stray patch, far smaller than the subject, that it was sure of nowhere: a reed, a passer-by's leg,
//! a reflection. On the development set clearing those of less than a twentieth took the masks of fgnet-384 version 3 from an IoU
//! of .9577 to .9584 (ccp) and from .9803 to .9811 (`product_composite`); up to a tenth, and with more wanted of them, those of
//! version 7 from .9035 to .9043 (ecssd) and from .9629 to .9633 (ccp). No set got worse by more than a ten-thousandth.

use super::patches::patches;
use super::trimap::BACKGROUND;
use crate::image::Mask;

/// A patch is stray when its likely cells are less than one in so many of the largest patch's.
const STRAY: usize = 10;
/// A stray patch is kept when the network was this sure of it anywhere.
const SURE: f32 = 0.985;

/// Clears every such patch.
pub(super) fn clear(mask: &mut Mask) {
    let patches = patches(&mask.values, mask.size.width as usize, |value| value > BACKGROUND);
    let likely = |patch: &Vec<usize>| patch.iter().filter(|&&at| mask.values[at] >= 0.5).count();
    let likely: Vec<usize> = patches.iter().map(likely).collect();
    let largest = likely.iter().copied().max().unwrap_or(0);
    for (patch, likely) in patches.into_iter().zip(likely) {
        let surest = patch.iter().fold(0.0, |surest, &at| f32::max(surest, mask.values[at]));
        let needed = if likely * STRAY < largest { SURE } else { 0.5 };
        if surest < needed {
            patch.into_iter().for_each(|at| mask.values[at] = 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Size;

    /// A subject of 20 × 20 cells, and beside it a patch of `width` × 4 of which one cell is `surest` and the rest 0.6.
    fn beside(width: usize, surest: f32) -> Mask {
        let mut mask = Mask { size: Size::new(60, 30), values: vec![0.0; 60 * 30] };
        for y in 0..20 {
            (0..20).for_each(|x| mask.values[y * 60 + x] = 1.0);
        }
        for y in 10..14 {
            (30..30 + width).for_each(|x| mask.values[y * 60 + x] = surest.min(0.6));
        }
        mask.values[10 * 60 + 30] = surest;
        mask
    }

    fn is_cleared(mut mask: Mask) -> bool {
        let before = mask.clone();
        clear(&mut mask);
        assert!(mask.values[..20].iter().all(|&value| value == 1.0), "the subject stays");
        let gone = mask.values[10 * 60 + 30] == 0.0;
        let mut patch = (0..60 * 30).filter(|at| at % 60 >= 30).map(|at| (mask.values[at], before.values[at]));
        assert!(patch.all(|(after, before)| after == if gone { 0.0 } else { before }), "all of it or nothing");
        gone
    }

    #[test]
    fn a_patch_that_is_likely_nowhere_is_cleared_whatever_its_size() {
        assert!(is_cleared(beside(2, 0.49)));
        assert!(is_cleared(beside(25, 0.49)));
    }

    #[test]
    fn a_stray_patch_stays_when_the_network_is_sure_of_it_anywhere() {
        assert!(is_cleared(beside(4, 0.98)));
        assert!(!is_cleared(beside(4, 0.99)));
    }

    #[test]
    fn a_second_subject_need_not_be_sure() {
        assert!(!is_cleared(beside(10, 0.6)));
    }

    #[test]
    fn a_small_subject_is_not_stray_when_it_is_alone() {
        let mut mask = Mask { size: Size::new(30, 30), values: vec![0.0; 900] };
        mask.values[400] = 0.6;
        let before = mask.clone();
        clear(&mut mask);
        assert_eq!(mask, before);
        mask.values[400] = 0.0;
        clear(&mut mask);
        assert_eq!(mask.values, vec![0.0; 900]);
    }
}
