//! The prior of closed-form matting from the network's mask: expected alpha and its weight, on the network's grid.

use crate::image::Size;
use crate::matting::clean::CleanMask;
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use backdrop_kernels::recycled::Recycled;
use backdrop_kernels::trimap;

/// Expected alpha inside the band, and γ, the weight of that, for each cell of the network's grid.
#[derive(Clone, Debug)]
pub struct MaskPrior {
    size: Size,
    alpha: Recycled<Vec<f32>>,
    weight: Recycled<Vec<f32>>,
}

/// γ: weight of the mask beside the colours where it has an edge, and where it is uncertain all around.
const WEIGHT_AT_EDGES: f32 = 1e-4;
const WEIGHT_ELSEWHERE: f32 = 1e-3;
/// Cells from an edge at which it no longer counts as near.
const EDGE_CELLS: f32 = 4.0;
/// The mask is stretched around one half by this factor: alpha of a third over a whole region is hardly ever right.
const CONTRAST: f32 = 1.6;

impl MaskPrior {
    /// Where the mask crosses one half there is an edge, and colours locate it better; where it is uncertain all around,
    /// colours have no anchor for many pixels and the solution would drift, so the mask has more weight there.
    #[must_use]
    pub fn of(mask: &CleanMask) -> Self {
        let grid = (mask.size().width as usize, mask.size().height as usize);
        let disc = trimap::Params { radii: [EDGE_CELLS; 2], foreground: 0.5, background: 0.5 };
        let (low, high) = trimap::cpu::extremes(mask.values(), grid, &disc);
        let at_edge = |(&low, &high): (&f32, &f32)| low < 0.5 && high >= 0.5;
        let weight =
            low.iter().zip(&**high).map(|range| if at_edge(range) { WEIGHT_AT_EDGES } else { WEIGHT_ELSEWHERE });
        let alpha = mask.values().iter().map(|&value| (0.5 + (value - 0.5) * CONTRAST).clamp(0.0, 1.0));
        Self { size: mask.size(), weight: Recycled::collected(weight), alpha: Recycled::collected(alpha) }
    }

    /// Expected alpha and its weight for each cell.
    #[cfg(feature = "gpu")]
    pub(in crate::matting) fn planes(&self) -> [&[f32]; 2] {
        [&self.alpha, &self.weight]
    }

    /// Expected alpha and its weight, stretched over a picture of `size`.
    pub(in crate::matting) fn upsampled(&self, [width, height]: [usize; 2]) -> [Upsampled<'_>; 2] {
        let grid = (self.size.width as usize, self.size.height as usize);
        [&self.alpha, &self.weight].map(|values| Upsampled::new(values, grid, (width, height)))
    }
}
