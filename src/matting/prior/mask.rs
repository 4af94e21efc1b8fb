//! The prior of closed-form matting from the network's mask: expected alpha and its weight, on the network's grid.

use super::color_distance::color_distances;
use crate::image::{Frame, Size};
use crate::matting::clean::CleanMask;
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use backdrop_kernels::recycled::Recycled;

/// Expected alpha inside the band for each cell of the network's grid, with its weight.
#[derive(Clone, Debug)]
pub struct MaskPrior {
    size: Size,
    alpha: Recycled<Vec<f32>>,
    hardness: Recycled<Vec<f32>>,
    gamma: Recycled<Vec<f32>>,
}

/// The mask's contrast around one half is multiplied by this, because alpha is hardly ever a third over a whole region.
pub(in crate::matting) const CONTRAST: f32 = 1.6;
/// σ of the hardness, a normal density of the distance between the colours of subject and background. The hardness is
/// one half at 4.1 standard deviations of the colours.
const SIGMA: f32 = 3.5;
/// γ is this power of the hardness: 1/16 at 4.1 standard deviations.
pub(in crate::matting) const POWER: i32 = 4;
/// γ where colours discriminate.
const LEAST_GAMMA: f32 = 1e-3;
/// γ where colours discriminate and the mask has at least two by two cells a pixel, which measure coverage. With
/// IS-Net's masks of 1024 cells a side on pictures of 200 to 500 pixels this keeps the boundary IoU of white goods on
/// white, of which matting lost 0.01; other differences are chance.
const LEAST_GAMMA_OF_FINE: f32 = 0.1;

/// γ where colours discriminate, for a mask with `cells` along its longer side and a picture with `pixels`.
pub(in crate::matting) const fn least_gamma(cells: usize, pixels: usize) -> f32 {
    if cells >= 2 * pixels { LEAST_GAMMA_OF_FINE } else { LEAST_GAMMA }
}

impl MaskPrior {
    /// The expected alpha from `mask`, with more contrast, and its weight by the colours of `frame`.
    #[must_use]
    pub fn of(frame: &Frame, mask: &CleanMask) -> Self {
        let size = mask.size();
        let alpha = mask.values().iter().map(|&value| (0.5 + (value - 0.5) * CONTRAST).clamp(0.0, 1.0));
        let distances = color_distances(frame, mask.values(), size);
        let hardness = distances.map(|squared| (-squared / (2.0 * SIGMA * SIGMA)).exp()).upsampled(size);
        let least = least_gamma(size.longest() as usize, frame.size().longest() as usize);
        let gamma = hardness.iter().map(|hardness| hardness.powi(POWER).max(least));
        Self { size, alpha: Recycled::collected(alpha), gamma: Recycled::collected(gamma), hardness }
    }

    /// Weight of a hard edge for each cell, 0 to 1: the solution does not measure coverage where colours are alike.
    #[cfg(feature = "gpu")]
    pub(in crate::matting) fn hardness(&self) -> &[f32] {
        &self.hardness
    }

    /// Expected alpha and its weight γ, upsampled to a picture of `size`.
    pub(in crate::matting) fn expected(&self, size: [usize; 2]) -> [Upsampled<'_>; 2] {
        [self.upsampled(&self.alpha, size), self.upsampled(&self.gamma, size)]
    }

    /// Weight of a hard edge, upsampled to a picture of `size`.
    pub(in crate::matting) fn hardness_over(&self, size: [usize; 2]) -> Upsampled<'_> {
        self.upsampled(&self.hardness, size)
    }

    fn upsampled<'a>(&self, values: &'a [f32], [width, height]: [usize; 2]) -> Upsampled<'a> {
        Upsampled::new(values, (self.size.width as usize, self.size.height as usize), (width, height))
    }
}
