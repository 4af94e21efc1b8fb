//! Self-test of a loaded network on a synthetic picture, on any device, and the validation of every mask it returns.
//!
//! The picture is a bright disc on a dark background. A device whose mask of it is constant, or not of probabilities, is
//! broken, even if it reports success. After this test an all-zero mask of a caller's picture is valid: it means "no subject" and not
//! "not computed".

use crate::image::{Buffer, Frame, RawMask, Size};

const SIDE: u32 = 160;
const RADIUS: f32 = 48.0;
const BACKGROUND: [u8; 4] = [24, 28, 36, 255];
const DISC: [u8; 4] = [242, 205, 96, 255];
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
pub(super) fn validate(masks: &[RawMask]) -> Result<Size, String> {
    let [mask] = masks else { return Err(format!("{} masks for one picture", masks.len())) };
    check(masks, 1, Some(mask.size()))?;
    let (low, high) = mask.values().iter().fold((f32::MAX, f32::MIN), |(low, high), &v| (low.min(v), high.max(v)));
    if high - low < VARIATION {
        return Err(format!("the mask of a disc on a dark background is {low} everywhere"));
    }
    Ok(mask.size())
}

/// Whether `masks` are valid for `pictures` pictures: one mask for each, all on `grid` if there is one.
pub(super) fn check(masks: &[RawMask], pictures: usize, grid: Option<Size>) -> Result<(), String> {
    if masks.len() != pictures {
        return Err(format!("{} masks for {pictures} pictures", masks.len()));
    }
    let other = grid.and_then(|grid| masks.iter().map(RawMask::size).find(|size| *size != grid).zip(Some(grid)));
    other.map_or(Ok(()), |(size, grid)| Err(format!("a mask of {size} instead of {grid}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(values: [f32; 4]) -> RawMask {
        RawMask::new(Size::new(2, 2), values.to_vec()).expect("probabilities")
    }

    #[test]
    fn only_one_mask_that_varies_passes_the_self_test() {
        assert_eq!(validate(&[mask([0.0, 0.2, 0.9, 1.0])]), Ok(Size::new(2, 2)));
        for masks in [&[mask([0.0; 4])][..], &[mask([0.5; 4])], &[]] {
            assert!(validate(masks).is_err(), "{masks:?}");
        }
    }

    #[test]
    fn masks_are_checked_for_their_number_and_grid() {
        let grid = Some(Size::new(2, 2));
        assert!(check(&[mask([0.0; 4])], 1, grid).is_ok(), "an all-zero mask is valid");
        assert!(check(&[mask([0.0; 4])], 2, grid).is_err());
        assert!(check(&[mask([0.0; 4])], 1, Some(Size::new(4, 1))).is_err());
    }
}
