//! Temporal prior of a clip: the previous frame's matte, moved by optical flow, with a weight for each pixel.

use crate::image::{AlphaMatte, Size, Trimap};
use backdrop_kernels::recycled::Recycled;
use rayon::prelude::*;

/// Coverages this far apart are unrelated.
const UNRELATED: u8 = 128;

/// Expected coverage of a picture's unknown band. Known pixels are ignored.
#[derive(Clone, Debug)]
pub struct TemporalPrior {
    size: Size,
    coverage: Recycled<Vec<u8>>,
    weight: Recycled<Vec<u8>>,
}

impl TemporalPrior {
    /// The expected `coverage` of a picture of `size`, row after row, and its `weight` beside the picture itself: 0 none,
    /// 255 all.
    ///
    /// # Panics
    /// When there are more or fewer of either than pixels.
    #[must_use]
    pub fn new(size: Size, coverage: impl Into<Recycled<Vec<u8>>>, weight: impl Into<Recycled<Vec<u8>>>) -> Self {
        let (coverage, weight) = (coverage.into(), weight.into());
        assert!(
            coverage.len() == size.area() && weight.len() == size.area(),
            "a prior of {size} needs coverage and weight for each pixel"
        );
        Self { size, coverage, weight }
    }

    /// Width and height of the picture.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// Expected coverage and its weight, both 0 to 1, at a pixel counted row after row.
    pub(in crate::matting) fn at(&self, pixel: usize) -> (f32, f32) {
        (f32::from(self.coverage[pixel]) / 255.0, f32::from(self.weight[pixel]) / 255.0)
    }

    /// Blends the expected coverage into the solved one, inside the band: less the further they are apart, and not at all
    /// from [`UNRELATED`] on, which is no noise of matting but an edge elsewhere than expected.
    pub(in crate::matting) fn blend(&self, trimap: &Trimap, solved: &mut AlphaMatte) {
        let expected = self.coverage.par_iter().zip(&*self.weight);
        solved.coverage_mut().par_iter_mut().zip(expected).zip(trimap.labels()).with_min_len(1 << 16).for_each(
            |((value, (&expected, &weight)), &label)| {
                if label == Trimap::UNKNOWN && weight > 0 {
                    let near = UNRELATED.saturating_sub(value.abs_diff(expected));
                    let [solved, expected] = [*value, expected].map(u32::from);
                    let (weight, whole) = (u32::from(weight) * u32::from(near), 255 * u32::from(UNRELATED));
                    *value = ((solved * (whole - weight) + expected * weight + whole / 2) / whole) as u8;
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_band_is_blended_and_only_with_what_is_near() {
        let size = Size::new(6, 1);
        let trimap = Trimap::new(size, vec![0, 255, 128, 128, 128, 128]);
        let mut solved = AlphaMatte::new(size, vec![0, 255, 100, 100, 100, 10]);
        let expected = vec![90, 200, 100, 110, 100 + UNRELATED, 20];
        let prior = TemporalPrior::new(size, expected, vec![255, 255, 255, 255, 255, 0]);
        prior.blend(&trimap, &mut solved);
        assert_eq!(solved.coverage(), [0, 255, 100, 109, 100, 10]);
    }
}
