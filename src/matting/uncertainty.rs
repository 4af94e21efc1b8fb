//! Predicts the probability that a cutout is bad, from its mask alone.
//!
//! If the mask's probabilities are calibrated, they predict their own errors after classification at one half: the
//! *picture's error*, the mean of min(p, 1 − p), is the expected mean absolute error, and the *subject's error* is the
//! expected shortfall of the intersection over union from 1. The first underrates small subjects, the second overrates
//! their edges; the geometric mean ranks real errors better than either. A logistic curve over its logarithm, with its
//! middle at the error that counts as bad, turns it into a probability.
//!
//! Middle and slope are not fitted to particular weights. On the 178 pictures of the development set with version 1 of
//! fgnet-384, a fit of both to all sets but the evaluated one was worse (log loss 0.230) than the fixed curve (0.225):
//! of the cutouts with predictions below 0.05, 0.05 to 0.2, to 0.5, to 0.8 and above, 0, 5, 30, 55 and 100 % were bad.
//! For version 7 the predictions were slightly too high (0.08 on average, 7 % were bad; versions 8 to 10: 0.10), for
//! U²-Netp's less certain masks far too high (0.36 on average over 700 photos, 25 % were bad), with equally good
//! ranking. `backdrop eval` measures the calibration for other weights and pictures.

use crate::image::RawMask;

/// Mean absolute error above which a cutout is bad: one pixel of the picture in twenty.
pub const BAD_MAE: f64 = 0.05;

/// Slope of the logistic curve: twice the expected error has 2³ times the odds.
const SLOPE: i32 = 3;

/// Probability that a cutout from `mask` is bad: that its mean absolute error is above [`BAD_MAE`].
///
/// 0 for a mask that is certain everywhere, with or without a subject. Never falls when a cell becomes less certain.
#[must_use]
pub fn uncertainty(mask: &RawMask) -> f32 {
    let odds = (expected_error(mask) / BAD_MAE).powi(SLOPE);
    (odds / (1.0 + odds)) as f32
}

/// Expected error: the geometric mean of the picture's and the subject's error.
fn expected_error(mask: &RawMask) -> f64 {
    // Number of cells more likely subject than not, expected number of subject cells among them, and among the others.
    let (mut inside, mut kept, mut missed) = (0.0, 0.0, 0.0);
    for value in mask.values().iter().map(|&value| f64::from(value)) {
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
    (wrong / mask.values().len() as f64 * (wrong / union)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Size;

    /// 40×40 cells: `inside` in the middle 20×20, `outside` around them.
    fn square(inside: f32, outside: f32) -> RawMask {
        let is_inside = |i: usize| (10..30).contains(&(i % 40)) && (10..30).contains(&(i / 40));
        let values: Vec<f32> = (0..1600).map(|i| if is_inside(i) { inside } else { outside }).collect();
        RawMask::new(Size::new(40, 40), values).expect("probabilities")
    }

    #[test]
    fn a_certain_mask_has_no_uncertainty_whatever_it_shows() {
        for mask in [square(0.0, 0.0), square(1.0, 1.0), square(1.0, 0.0)] {
            assert_eq!(uncertainty(&mask), 0.0);
        }
    }

    #[test]
    fn a_mask_of_one_half_is_almost_certainly_bad() {
        let unsure = uncertainty(&square(0.5, 0.5));
        assert!((0.998..=1.0).contains(&unsure), "{unsure}");
    }

    #[test]
    fn the_expected_error_assumes_a_calibrated_mask() {
        // A quarter is subject with probability 0.9: an error of 40 cells of 1600, and of 40 of 400 of the union.
        assert!((expected_error(&square(0.9, 0.0)) - (0.025 * 0.1_f64).sqrt()).abs() < 1e-7);
        // 12 of the 1200 other cells are subject too: 52 of 1600, 52 of 412.
        assert!((expected_error(&square(0.9, 0.01)) - (52.0 / 1600.0 * 52.0 / 412.0_f64).sqrt()).abs() < 1e-7);
    }

    #[test]
    fn the_odds_are_even_where_the_expected_error_is_bad() {
        assert!((uncertainty(&square(0.9, 0.0)) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn less_certain_cells_never_lower_the_uncertainty() {
        let levels = [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.49];
        for pair in levels.windows(2) {
            for other in levels {
                let (less, more) = (pair[0], pair[1]);
                assert!(uncertainty(&square(1.0 - less, other)) <= uncertainty(&square(1.0 - more, other)));
                assert!(uncertainty(&square(1.0 - other, less)) <= uncertainty(&square(1.0 - other, more)));
            }
        }
    }
}
