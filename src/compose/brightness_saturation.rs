//! Raises brightness and saturation of the subject (kernel `enhance`).

use super::Enhance;
use backdrop_kernels::enhance::cpu::Curve;
use rayon::prelude::*;
use std::ops::Range;

/// Enhances the pixels of `columns` in each row of `canvas`, packed RGBA8; alpha is unchanged.
pub(super) fn enhance(canvas: &mut [u8], row: usize, columns: Range<usize>, Enhance(strength): Enhance) {
    let Some(curve) = Curve::new(strength) else { return };
    canvas.par_chunks_mut(row * 4).for_each(|row| {
        row.as_chunks_mut::<4>().0[columns.clone()].iter_mut().for_each(|pixel| *pixel = curve.enhanced(*pixel));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enhanced(pixels: &[[u8; 4]], strength: f32) -> Vec<[u8; 4]> {
        let mut pixels = pixels.to_vec();
        let width = pixels.len();
        enhance(pixels.as_flattened_mut(), width, 0..width, Enhance(strength));
        pixels
    }

    fn noise() -> Vec<[u8; 4]> {
        (0..5000_u32).map(|seed| (seed.wrapping_mul(2_654_435_761) ^ (seed << 7)).to_le_bytes()).collect()
    }

    #[test]
    fn no_strength_is_the_identity_bit_for_bit() {
        for strength in [0.0, -1.0, f32::NAN] {
            assert_eq!(enhanced(&noise(), strength), noise());
        }
    }

    #[test]
    fn every_pixel_follows_the_formula() {
        for strength in [0.05_f64, 0.2, 0.5] {
            for (before, after) in noise().iter().zip(enhanced(&noise(), strength as f32)) {
                if before[3] == 0 {
                    assert_eq!(*before, after);
                    continue;
                }
                let unit = |channel: usize| f64::from(before[channel]) / 255.0;
                let luma = 0.2126 * unit(0) + 0.7152 * unit(1) + 0.0722 * unit(2);
                let lifted = 1.0 - (1.0 - luma).powf(1.0 + strength);
                for channel in 0..3 {
                    let exact = (lifted + (1.0 + strength) * (unit(channel) - luma)).clamp(0.0, 1.0) * 255.0;
                    assert!((f64::from(after[channel]) - exact).abs() < 0.6, "{before:?} became {after:?}: {exact}");
                }
                assert_eq!(after[3], before[3]);
            }
        }
    }

    #[test]
    fn only_the_given_columns_change() {
        let mut pixels = [[100, 100, 100, 255]; 8];
        enhance(pixels.as_flattened_mut(), 4, 1..3, Enhance(0.5));
        let changed = pixels.map(|pixel| pixel[0] != 100);
        assert_eq!(changed, [false, true, true, false, false, true, true, false]);
    }
}
