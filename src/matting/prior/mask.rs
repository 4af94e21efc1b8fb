//! The prior of closed-form matting from the network's mask: expected alpha, on the network's grid.

use crate::image::Size;
use crate::matting::clean::CleanMask;
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use backdrop_kernels::recycled::Recycled;

/// Expected alpha inside the band for each cell of the network's grid.
#[derive(Clone, Debug)]
pub struct MaskPrior {
    size: Size,
    alpha: Recycled<Vec<f32>>,
}

/// The mask is stretched around one half by this factor: alpha of a third over a whole region is hardly ever right.
const CONTRAST: f32 = 1.6;

impl MaskPrior {
    /// γ: weight of the mask beside the colours, which anchors them where they do not discriminate. With a tenth of it at edges, which
    /// colours locate, the boundary is worse (`docs/quality.md`).
    pub(in crate::matting) const WEIGHT: f32 = 1e-3;

    /// The mask itself, with more contrast.
    #[must_use]
    pub fn of(mask: &CleanMask) -> Self {
        let alpha = mask.values().iter().map(|&value| (0.5 + (value - 0.5) * CONTRAST).clamp(0.0, 1.0));
        Self { size: mask.size(), alpha: Recycled::collected(alpha) }
    }

    /// Expected alpha for each cell.
    #[cfg(feature = "gpu")]
    pub(in crate::matting) fn values(&self) -> &[f32] {
        &self.alpha
    }

    /// Expected alpha, stretched over a picture of `size`.
    pub(in crate::matting) fn upsampled(&self, [width, height]: [usize; 2]) -> Upsampled<'_> {
        let grid = (self.size.width as usize, self.size.height as usize);
        Upsampled::new(&self.alpha, grid, (width, height))
    }
}
