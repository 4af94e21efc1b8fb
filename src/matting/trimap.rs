//! Computes a trimap from the cleaned mask: certain pixels, and the unknown band ([`backdrop_kernels::trimap`]).

use super::clean::CleanMask;
use super::hair::Hair;
use crate::image::{Size, Trimap};
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use backdrop_kernels::recycled::Recycled;
use backdrop_kernels::trimap::Params;
use backdrop_kernels::trimap::cpu::{self, Labeller};

/// Minimum probability of certain subject.
pub(super) const FOREGROUND: f32 = 0.95;
/// Maximum probability of certain background.
pub(super) const BACKGROUND: f32 = 0.1;

/// Half-width of the band at a sharp edge along an axis: in cells of the network's grid, and a minimum in pixels.
const RADIUS_CELLS: f32 = 2.0;
const RADIUS_PX: f32 = 1.5;

/// The trimap of `mask` at `size`, with a wider band where there may be `hair`.
#[must_use]
pub fn from_mask(mask: &CleanMask, size: Size, hair: Option<&Hair>) -> Trimap {
    let extremes = Extremes::of(mask, size, hair);
    let mut labels = vec![Trimap::UNKNOWN; size.area()];
    cpu::label(&extremes.labeller(size), &mut labels, size.width as usize);
    Trimap::new(size, labels)
}

/// Width and height of a cell of `grid` in pixels of a picture of `size`.
fn cell_px((columns, rows): (usize, usize), size: Size) -> [f32; 2] {
    [size.width as f32 / columns as f32, size.height as f32 / rows as f32]
}

pub(super) fn params(grid: (usize, usize), size: Size) -> Params {
    let radii = cell_px(grid, size).map(|cell_px| f32::max(RADIUS_CELLS, RADIUS_PX / cell_px));
    Params { radii, foreground: FOREGROUND, background: BACKGROUND }
}

/// The mask around each cell raised for `hair`, on its grid; 0 elsewhere.
#[cfg(feature = "gpu")]
pub(super) fn raised_by(hair: &Hair, mask: &CleanMask, size: Size) -> Vec<f32> {
    let grid = (mask.size().width as usize, mask.size().height as usize);
    let [width, height] = cell_px(grid, size);
    let mut raised = vec![0.0; mask.values().len()];
    hair.widen(mask.values(), grid, size, width.min(height), &mut raised);
    raised
}

/// Lowest and highest value of the mask around each cell of its grid.
pub(super) struct Extremes {
    grid: (usize, usize),
    low: Recycled<Vec<f32>>,
    high: Recycled<Vec<f32>>,
    params: Params,
}

impl Extremes {
    pub(super) fn of(mask: &CleanMask, size: Size, hair: Option<&Hair>) -> Self {
        let grid = (mask.size().width as usize, mask.size().height as usize);
        let cell_px = cell_px(grid, size);
        let params = params(grid, size);
        let (low, mut high) = cpu::extremes(mask.values(), grid, &params);
        if let Some(hair) = hair {
            hair.widen(mask.values(), grid, size, cell_px[0].min(cell_px[1]), &mut high);
        }
        Self { grid, low, high, params }
    }

    pub(super) fn labeller(&self, size: Size) -> Labeller<'_> {
        let picture = (size.width as usize, size.height as usize);
        let [low, high] = [&self.low, &self.high].map(|values| Upsampled::new(values, self.grid, picture));
        Labeller { low, high, params: self.params }
    }
}
