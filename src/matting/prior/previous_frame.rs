//! Temporal prior of a clip: the previous frame's matte, moved by optical flow, with a weight for each pixel.

use crate::image::{AlphaMatte, Size, Trimap};
use backdrop_kernels::recycled::Recycled;
use backdrop_kernels::temporal_prior::cpu::{Past, blended, toward};
use rayon::prelude::*;

/// Expected coverage of a picture's unknown band. Known pixels are ignored.
#[derive(Clone, Debug)]
pub struct TemporalPrior {
    size: Size,
    coverage: Recycled<Vec<u8>>,
    weight: Recycled<Vec<u8>>,
}

impl TemporalPrior {
    /// Moves the previous frame's matte along the motion to the current frame, in the unknown band of `trimap`.
    ///
    /// # Panics
    /// When the sizes of the planes differ.
    #[must_use]
    pub fn warped(past: &Past<'_>, trimap: &Trimap) -> Self {
        let size = trimap.size();
        let [mut coverage, mut weight] = [(); 2].map(|()| Recycled::filled(size.area(), 0_u8));
        past.warp(trimap.labels(), &mut coverage, &mut weight);
        Self { size, coverage, weight }
    }

    /// Width and height of the picture.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// Moves `start`, in 0..=1, towards the expected coverage of the pixel with this index.
    pub(in crate::matting) fn toward(&self, start: f32, pixel: usize) -> f32 {
        toward(start, self.coverage[pixel], self.weight[pixel])
    }

    /// Blends the expected coverage into the solved one, inside the band.
    pub(in crate::matting) fn blend(&self, solved: &mut AlphaMatte) {
        let expected = self.coverage.par_iter().zip(&*self.weight);
        let pixels = solved.coverage_mut().par_iter_mut().zip(expected).with_min_len(1 << 16);
        pixels.filter(|(_, (_, weight))| **weight > 0).for_each(|(value, (&expected, &weight))| {
            *value = blended(*value, expected, weight);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backdrop_kernels::temporal_prior::UNRELATED;

    #[test]
    fn only_the_band_is_blended_and_only_with_similar_coverage() {
        let size = Size::new(6, 1);
        let mut solved = AlphaMatte::new(size, vec![0, 255, 100, 100, 100, 10]);
        let coverage = vec![90, 200, 100, 110, 100 + UNRELATED, 20].into();
        // Known pixels get weight 0.
        let prior = TemporalPrior { size, coverage, weight: vec![0, 0, 255, 255, 255, 0].into() };
        prior.blend(&mut solved);
        assert_eq!(solved.coverage(), [0, 255, 100, 109, 100, 10]);
    }
}
