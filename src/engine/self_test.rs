//! The device's self-test on a synthetic picture, and the validation of every mask it returns.
//!
//! The picture is a bright disc on a dark background. A device whose mask of it is constant, or not of probabilities, is
//! broken, even if it reports success. Because this test was passed, an all-zero mask of a caller's picture is valid: it means
//! "no subject" and not "not computed".

use crate::image::{Buffer, Frame, Mask, Size};

const SIDE: u32 = 160;
const RADIUS: f32 = 48.0;
const BACKGROUND: [u8; 4] = [24, 28, 36, 255];
const DISC: [u8; 4] = [242, 205, 96, 255];
/// Values outside 0..=1 by more than this are invalid and not rounding.
const ROUNDING: f32 = 1e-3;
/// A mask that varies less than this is constant.
const VARIATION: f32 = 1e-2;

/// The synthetic picture.
pub(super) fn picture() -> Frame {
    let centre = SIDE as f32 / 2.0 - 0.5;
    let pixels = (0..SIDE * SIDE).flat_map(|index| {
        let (x, y) = ((index % SIDE) as f32, (index / SIDE) as f32);
        if (x - centre).hypot(y - centre) < RADIUS { DISC } else { BACKGROUND }
    });
    Frame::new(Size::new(SIDE, SIDE), Buffer::from(pixels.collect::<Vec<_>>()))
}

/// Validates the mask of [`picture`]; returns the grid that every later mask must have.
pub(super) fn validate(masks: &[Mask]) -> Result<Size, String> {
    let [mask] = masks else { return Err(format!("{} masks for one picture", masks.len())) };
    check(masks, 1, mask.size)?;
    let (low, high) = mask.values.iter().fold((f32::MAX, f32::MIN), |(low, high), &v| (low.min(v), high.max(v)));
    if high - low < VARIATION {
        return Err(format!("the mask of a disc on a dark background is {low} everywhere"));
    }
    Ok(mask.size)
}

/// Whether `masks` are valid for `pictures` pictures: one each, on `grid`, probabilities throughout.
pub(super) fn check(masks: &[Mask], pictures: usize, grid: Size) -> Result<(), String> {
    if masks.len() != pictures {
        return Err(format!("{} masks for {pictures} pictures", masks.len()));
    }
    for mask in masks {
        if mask.size != grid || mask.values.len() != grid.area() || mask.values.is_empty() {
            return Err(format!("a mask of {} with {} values instead of {grid}", mask.size, mask.values.len()));
        }
        // Not written as `< || >`: NaN has to fail too.
        if let Some(value) = mask.values.iter().find(|value| !(-ROUNDING..=1.0 + ROUNDING).contains(*value)) {
            return Err(format!("a mask value of {value}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(values: [f32; 4]) -> Mask {
        Mask { size: Size::new(2, 2), values: values.to_vec() }
    }

    #[test]
    fn a_mask_that_varies_passes() {
        assert_eq!(validate(&[mask([0.0, 0.2, 0.9, 1.0])]), Ok(Size::new(2, 2)));
    }

    #[test]
    fn constant_and_missing_masks_fail_the_self_test() {
        assert!(validate(&[mask([0.0; 4])]).is_err());
        assert!(validate(&[mask([0.5; 4])]).is_err());
        assert!(validate(&[]).is_err());
        assert!(validate(&[Mask { size: Size::new(0, 0), values: Vec::new() }]).is_err());
    }

    #[test]
    fn values_outside_of_probabilities_are_invalid() {
        let grid = Size::new(2, 2);
        assert!(check(&[mask([0.0; 4])], 1, grid).is_ok(), "an all-zero mask is valid");
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.5, 1.5] {
            assert!(check(&[mask([0.0, 0.5, bad, 1.0])], 1, grid).is_err(), "{bad}");
        }
        assert!(check(&[mask([0.0; 4])], 2, grid).is_err());
        assert!(check(&[mask([0.0; 4])], 1, Size::new(4, 1)).is_err());
        assert!(check(&[Mask { size: grid, values: vec![0.5; 3] }], 1, grid).is_err());
    }
}
