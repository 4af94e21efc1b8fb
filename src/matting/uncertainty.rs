//! How likely a cutout is to be bad, told from its mask alone.
//!
//! A mask says of each cell how likely it is subject. Taken at its word, it foretells its own errors, once the cells are
//! decided at one half: the *picture's error*, the mean of the lesser chance min(p, 1 − p), is the mean absolute error to
//! be expected, and the *subject's error* is what the intersection over union will lack of 1. The first forgives all of a
//! small subject, the second makes much of the edge of one; their geometric mean ranks real errors better than either.
//! It becomes a chance by a logistic curve over its logarithm, with the middle at the error that counts as bad.
//!
//! Neither the middle nor the slope is fitted to single weights. On the 178 pictures of the development set and with version 1
//! of fgnet-384, a fit of both to all sets but the one it is judged on did worse (log loss 0.230) than the curve as it is
//! (0.225): of the cutouts it gave chances below 0.05, 0.05 to 0.2, to 0.5, to 0.8 and above, 0, 5, 30, 55 and 100 % were bad.
//! Version 7 it judges a little harshly (0.08 on average, 7 % were bad), and U²-Netp's masks, which doubt more, too harshly
//! (0.36 on average over 700 photos, 25 % were bad), but it ranks them as well. `backdrop eval` shows how well it holds for
//! other weights and pictures.

use crate::image::Mask;

/// A cutout whose mean absolute error is above this is bad: one pixel of the picture in twenty.
pub const BAD_MAE: f64 = 0.05;

/// How sharply the foretold error divides good from bad: an error foretold twice as large makes the odds 2³ times as high.
const SLOPE: i32 = 3;

/// The chance, 0 to 1, that a cutout made from `mask` is bad: that its mean absolute error is above [`BAD_MAE`].
///
/// 0 when the mask has no doubt, also when it has no subject. More doubt anywhere never makes it less.
#[must_use]
pub fn uncertainty(mask: &Mask) -> f32 {
    let odds = (foretold(mask) / BAD_MAE).powi(SLOPE);
    (odds / (1.0 + odds)) as f32
}

/// The error that the mask itself foretells: the geometric mean of that of the picture and that of the subject.
fn foretold(mask: &Mask) -> f64 {
    // Of the cells more likely subject than not: how many there are, and how many of them will be. Of the others: how
    // many will be.
    let (mut inside, mut kept, mut missed) = (0.0, 0.0, 0.0);
    for value in mask.values.iter().map(|&value| f64::from(value)) {
        if value >= 0.5 {
            inside += 1.0;
            kept += value;
        } else {
            missed += value;
        }
    }
    let union = inside + missed;
    if union == 0.0 {
        return 0.0;
    }
    let wrong = inside - kept + missed;
    (wrong / mask.values.len() as f64 * (wrong / union)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Size;

    /// 40×40 cells: `inside` in the middle 20×20, `outside` around them.
    fn square(inside: f32, outside: f32) -> Mask {
        let is_inside = |i: usize| (10..30).contains(&(i % 40)) && (10..30).contains(&(i / 40));
        let values = (0..1600).map(|i| if is_inside(i) { inside } else { outside }).collect();
        Mask { size: Size::new(40, 40), values }
    }

    #[test]
    fn a_mask_without_doubt_is_certain_whatever_it_shows() {
        for mask in [square(0.0, 0.0), square(1.0, 1.0), square(1.0, 0.0)] {
            assert_eq!(uncertainty(&mask), 0.0);
        }
        assert_eq!(uncertainty(&Mask { size: Size::new(0, 0), values: Vec::new() }), 0.0);
    }

    #[test]
    fn a_mask_that_knows_nothing_is_almost_surely_bad() {
        let unsure = uncertainty(&square(0.5, 0.5));
        assert!((0.998..=1.0).contains(&unsure), "{unsure}");
    }

    #[test]
    fn errors_are_foretold_by_the_mask_taken_at_its_word() {
        // A quarter of the picture is subject with chance 0.9: 40 cells of 1600 will be wrong, 40 of 400 of the union.
        assert!((foretold(&square(0.9, 0.0)) - (0.025 * 0.1_f64).sqrt()).abs() < 1e-7);
        // 12 of the 1200 others are subject too: 52 of 1600, 52 of 412.
        assert!((foretold(&square(0.9, 0.01)) - (52.0 / 1600.0 * 52.0 / 412.0_f64).sqrt()).abs() < 1e-7);
    }

    #[test]
    fn the_odds_are_even_where_the_foretold_error_is_bad() {
        assert!((uncertainty(&square(0.9, 0.0)) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn more_doubt_never_makes_it_more_certain() {
        let levels = [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.49];
        for pair in levels.windows(2) {
            for other in levels {
                let (less, more) = (pair[0], pair[1]);
                assert!(uncertainty(&square(1.0 - less, other)) <= uncertainty(&square(1.0 - more, other)));
                assert!(uncertainty(&square(1.0 - other, less)) <= uncertainty(&square(1.0 - other, more)));
            }
        }
    }

    #[test]
    fn the_same_doubt_weighs_more_on_a_smaller_subject() {
        let mut small = square(0.0, 0.0);
        small.values[..100].fill(0.8);
        let mut large = square(0.0, 0.0);
        large.values[..100].fill(0.8);
        large.values[100..800].fill(1.0);
        assert!(uncertainty(&small) > uncertainty(&large));
    }
}
