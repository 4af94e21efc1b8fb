//! What is known about a matte beforehand: in a clip, from the frame before.

use crate::image::{AlphaMatte, Size, Trimap};
use rayon::prelude::*;

/// Coverages so far apart have nothing to do with each other.
const ANOTHER: u8 = 128;

/// Coverage that a picture's unknown band is expected to have. Known pixels are not looked at.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Width and height of the picture.
    pub size: Size,
    /// Expected coverage, row after row.
    pub coverage: Vec<u8>,
    /// How much that counts beside what the picture itself says: 0 nothing, 255 all.
    pub weight: Vec<u8>,
}

impl Carried {
    /// Expected coverage and its weight, both 0 to 1, at a pixel counted row after row.
    pub(super) fn at(&self, pixel: usize) -> (f32, f32) {
        (f32::from(self.coverage[pixel]) / 255.0, f32::from(self.weight[pixel]) / 255.0)
    }

    /// The mean weight in the band, 0 to 1.
    pub(super) fn known(&self, labels: &[u8]) -> f32 {
        let band = self.weight.par_iter().zip(labels).with_min_len(1 << 16);
        let (sum, count) = band
            .map(|(&weight, &label)| if label == Trimap::UNKNOWN { (u64::from(weight), 1_u64) } else { (0, 0) })
            .reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        sum as f32 / (255 * count.max(1)) as f32
    }

    /// Mixes what is expected into what was found, inside the band: less the further they are apart, and not at all from
    /// [`ANOTHER`] on, which is no noise of matting but an edge that is not where it was expected.
    pub(super) fn blend(&self, trimap: &Trimap, found: &mut AlphaMatte) {
        let expected = self.coverage.par_iter().zip(&self.weight);
        found.coverage.par_iter_mut().zip(expected).zip(&trimap.labels).with_min_len(1 << 16).for_each(
            |((value, (&expected, &weight)), &label)| {
                if label == Trimap::UNKNOWN && weight > 0 {
                    let near = ANOTHER.saturating_sub(value.abs_diff(expected));
                    let [found, expected] = [*value, expected].map(u32::from);
                    let (weight, whole) = (u32::from(weight) * u32::from(near), 255 * u32::from(ANOTHER));
                    *value = ((found * (whole - weight) + expected * weight + whole / 2) / whole) as u8;
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_band_is_mixed_and_only_with_what_is_near() {
        let size = Size::new(6, 1);
        let trimap = Trimap { size, labels: vec![0, 255, 128, 128, 128, 128] };
        let mut found = AlphaMatte { size, coverage: vec![0, 255, 100, 100, 100, 10] };
        let expected = vec![90, 200, 100, 110, 100 + ANOTHER, 20];
        let carried = Carried { size, coverage: expected, weight: vec![255, 255, 255, 255, 255, 0] };
        assert!((carried.known(&trimap.labels) - 0.75).abs() < 1e-6);
        carried.blend(&trimap, &mut found);
        assert_eq!(found.coverage, [0, 255, 100, 109, 100, 10]);
    }
}
