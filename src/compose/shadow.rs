//! Drop shadow: the subject's coverage, shifted and blurred with a Gaussian.
//!
//! A wide blur has no detail, so it runs on a reduced grid: coverage is averaged over squares of pixels, blurred on
//! that grid and sampled bilinearly. Averaging over `k` pixels adds a variance of `(k² - 1) / 12`, and interpolation
//! adds twice that (its mean over all positions); both are subtracted from the blur's variance.
//!
//! At a border where the subject is anchored, its coverage is extended beyond the canvas ([`Extension`]): otherwise the
//! shadow would end there with a straight rim.

use super::Shadow;
use crate::image::{Rect, Size};
use backdrop_kernels::gaussian::{self, Border};
use backdrop_kernels::shadow_grid::{self, Cells, Placement};

/// Smallest σ on a reduced grid; below it the grid would be visible.
const MIN_REDUCED_SIGMA: f32 = 4.0;
/// Maximum of lengths and σ in pixels, far beyond any canvas, so that sums do not overflow.
pub(super) const MAX_LENGTH: f32 = 1e6;

/// Radius in pixels of the blur of this σ.
pub(super) fn reach(sigma: f32) -> usize {
    gaussian::reach(sigma)
}

/// Side in pixels of a cell of the reduced grid for this σ.
pub(super) fn reduction(sigma: f32) -> usize {
    ((sigma / MIN_REDUCED_SIGMA) as usize).max(1)
}

/// σ, in cells, of the blur of averaged coverage that equals a blur of `sigma` pixels.
pub(super) fn reduced_sigma(sigma: f32, cell: usize) -> f32 {
    let squared = (cell * cell) as f32;
    (sigma * sigma - (squared - 1.0) / 4.0).max(0.0).sqrt() / cell as f32
}

/// Radius of `shadow` in canvas pixels at `scale`, without its offset.
pub(super) fn reach_of(shadow: &Shadow, scale: f32) -> f32 {
    let sigma = (shadow.sigma * scale).clamp(0.0, MAX_LENGTH);
    // The reduced grid and its interpolation widen it.
    (reach(sigma) + 3 * reduction(sigma)) as f32
}

/// Pixels by which coverage is extended beyond each side of its bounds, replicating its border.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extension {
    pub(super) left: u32,
    pub(super) top: u32,
    pub(super) right: u32,
    pub(super) bottom: u32,
}

/// Parameters of a shadow's grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct GridPlan {
    pub(super) cells: Cells,
    /// σ of the blur, in cells.
    pub(super) sigma: f32,
    pub(super) at: Placement,
}

impl GridPlan {
    /// The plan for coverage within `bounds`, extended by `extension`. `scale` is canvas pixels per shadow pixel.
    pub(super) fn new(bounds: Rect, extension: Extension, shadow: &Shadow, scale: f32) -> Self {
        Self::reduced(bounds, extension, shadow, scale, reduction((shadow.sigma * scale).clamp(0.0, MAX_LENGTH)))
    }

    fn reduced(bounds: Rect, extension: Extension, shadow: &Shadow, scale: f32, cell: usize) -> Self {
        let sigma = reduced_sigma((shadow.sigma * scale).clamp(0.0, MAX_LENGTH), cell);
        // One more cell for the interpolation.
        let border = reach(sigma) + 1;
        let Rect { left, top, width, height } = bounds;
        let bounds = [left, top, left + width, top + height];
        let Extension { left, top, right, bottom } = extension;
        let cells = Cells { bounds, extension: [left, top, right, bottom], cell, border };
        let start = |first: i64, offset: f32| first as f32 - (border * cell) as f32 + finite(offset * scale);
        let [left, top] = cells.start();
        let at = Placement { cell: cell as f32, left: start(left, shadow.dx), top: start(top, shadow.dy) };
        Self { cells, sigma, at }
    }
}

/// Coverage of a shadow on a reduced grid, with its offset on the canvas.
#[derive(Debug)]
pub(super) struct ShadowGrid {
    shade: Vec<[f32; 1]>,
    width: usize,
    at: Placement,
}

impl ShadowGrid {
    /// The shadow of the coverage `covers(x, y)`, 0..=255, on a canvas of `size`. The coverage is zero outside
    /// of `bounds` and `extension`. `scale` is canvas pixels per shadow pixel.
    pub(super) fn new<C>(size: Size, bounds: Rect, extension: Extension, shadow: &Shadow, scale: f32, covers: C) -> Self
    where
        C: Fn(u32, u32) -> u8 + Sync,
    {
        debug_assert!(bounds.left + bounds.width <= size.width && bounds.top + bounds.height <= size.height);
        Self::planned(&GridPlan::new(bounds, extension, shadow, scale), covers)
    }

    fn planned<C>(plan: &GridPlan, covers: C) -> Self
    where
        C: Fn(u32, u32) -> u8 + Sync,
    {
        let GridPlan { cells, sigma, at } = *plan;
        let mut shade = shadow_grid::cpu::cells(covers, &cells);
        let [width, _] = cells.size();
        gaussian::cpu::blur(&mut shade, width, sigma, Border::Zero);
        Self { shade, width, at }
    }

    /// Wraps computed coverage: `width` cells a row, `cell` canvas pixels a side, with the corner at (`left`, `top`).
    pub(super) fn from_cells(shade: Vec<[f32; 1]>, width: usize, cell: usize, left: f32, top: f32) -> Self {
        Self { shade, width, at: Placement { cell: cell as f32, left, top } }
    }

    /// Coverage of each cell, cells a row, and their position on the canvas.
    #[cfg(feature = "gpu")]
    pub(super) fn into_cells(self) -> (Vec<f32>, usize, Placement) {
        (self.shade.into_flattened(), self.width, self.at)
    }

    #[cfg(test)]
    pub(super) fn cells(&self) -> usize {
        self.shade.len()
    }

    /// Coverage, 0..=1, of canvas row `y`; `None` when the row has no shadow. `line` is scratch.
    pub(super) fn row<'a>(&self, y: u32, line: &mut Vec<f32>, shade: &'a mut [f32]) -> Option<&'a [f32]> {
        shadow_grid::cpu::row((&self.shade, self.width), self.at, y, line, shade)
    }
}

/// `length` clamped to [`MAX_LENGTH`]; 0 for a NaN.
pub(super) fn finite(length: f32) -> f32 {
    if length.is_nan() { 0.0 } else { length.clamp(-MAX_LENGTH, MAX_LENGTH) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::color::Color;

    const SIZE: Size = Size::new(200, 160);
    const BOUNDS: Rect = Rect { left: 60, top: 50, width: 70, height: 61 };

    fn shadow(dx: f32, dy: f32, sigma: f32) -> Shadow {
        Shadow { color: Color::BLACK, opacity: 1.0, dx, dy, sigma }
    }

    /// A disc with a comb along its upper side.
    fn covers(x: u32, y: u32) -> u8 {
        let (dx, dy) = (x as f32 - 94.0, y as f32 - 80.0);
        if dx.hypot(dy) < 30.0 || (y < 80 && x.is_multiple_of(4)) { 255 } else { 0 }
    }

    /// Coverage of the shadow of [`covers`] at each pixel.
    fn shaded(shadow: &Shadow) -> Vec<f32> {
        shade(&ShadowGrid::new(SIZE, BOUNDS, Extension::default(), shadow, 1.0, covers))
    }

    fn shade(grid: &ShadowGrid) -> Vec<f32> {
        let mut shade = Vec::new();
        for y in 0..SIZE.height {
            let mut row = vec![0.0; SIZE.width as usize];
            let got = grid.row(y, &mut Vec::new(), &mut row).map(<[f32]>::to_vec);
            shade.extend(got.unwrap_or_else(|| vec![0.0; SIZE.width as usize]));
        }
        shade
    }

    /// Sum, mean column and mean row.
    fn moments(shade: &[f32]) -> (f64, f64, f64) {
        let (mut sum, mut across, mut down) = (0.0, 0.0, 0.0);
        for (at, &value) in shade.iter().enumerate() {
            sum += f64::from(value);
            across += f64::from(value) * (at % SIZE.width as usize) as f64;
            down += f64::from(value) * (at / SIZE.width as usize) as f64;
        }
        (sum, across / sum, down / sum)
    }

    fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn a_shadow_is_shifted_by_exactly_its_offset_and_keeps_its_sum() {
        let (sum, x, y) = moments(&shaded(&shadow(0.0, 0.0, 0.0)));
        let diagonal = 12.0 * std::f32::consts::FRAC_1_SQRT_2;
        for (dx, dy) in [(0.0, 0.0), (12.0, 0.0), (0.0, -12.0), (diagonal, diagonal), (-diagonal, diagonal)] {
            for sigma in [0.0, 0.5, 3.0, 8.0, 10.0, 13.5] {
                let (moved_sum, moved_x, moved_y) = moments(&shaded(&shadow(dx, dy, sigma)));
                assert!((moved_sum / sum - 1.0).abs() < 1e-3, "{sum} became {moved_sum} for {sigma}");
                let off = (moved_x - x - f64::from(dx)).abs().max((moved_y - y - f64::from(dy)).abs());
                // A comb in step with the reduced grid has its weight in the middle of the cells.
                assert!(off < if sigma < 8.0 { 0.002 } else { 0.05 }, "{off} off for {dx},{dy} and {sigma}");
            }
        }
    }

    #[test]
    fn lengths_are_scaled() {
        let half = ShadowGrid::new(SIZE, BOUNDS, Extension::default(), &shadow(20.0, -8.0, 12.0), 0.5, covers);
        assert_eq!(shade(&half), shaded(&shadow(10.0, -4.0, 6.0)));
    }

    #[test]
    fn a_reduced_shadow_equals_the_full_one_within_rounding() {
        for sigma in [8.0, 10.0, 12.0, 17.0, 25.0] {
            assert!(reduction(sigma) > 1);
            for offset in [0.0, 0.4, 7.7] {
                let shadow = shadow(offset, -offset, sigma);
                let reduced = shaded(&shadow);
                let plan = GridPlan::reduced(BOUNDS, Extension::default(), &shadow, 1.0, 1);
                let full = shade(&ShadowGrid::planned(&plan, covers));
                let off = largest_difference(&reduced, &full) * 255.0;
                assert!(off < 1.5, "{off} of 255 off for {sigma}");
            }
        }
    }

    #[test]
    fn the_comparison_detects_a_shift_by_half_a_pixel() {
        let [here, there] = [0.0, 0.5].map(|dx| shaded(&shadow(dx, 0.0, 10.0)));
        assert!(largest_difference(&here, &there) * 255.0 > 2.0);
    }

    #[test]
    fn extended_coverage_has_a_shadow_without_a_rim_at_the_border() {
        // A bar over all rows of the canvas.
        let bounds = Rect { left: 60, top: 0, width: 70, height: 160 };
        let bar = |_, _| 255;
        for (dx, dy, sigma) in [(8.0, 12.0, 10.0), (8.0, -12.0, 10.0), (0.0, -40.0, 0.0), (0.0, 30.0, 3.0)] {
            let shadow = shadow(dx, dy, sigma);
            let at = |extension: Extension| {
                let shade = shade(&ShadowGrid::new(SIZE, bounds, extension, &shadow, 1.0, bar));
                [0, 80, 159].map(|y| shade[y * SIZE.width as usize + 95])
            };
            let [top, middle, bottom] = at(Extension { top: 80, bottom: 80, ..Extension::default() });
            assert!((top - middle).abs() < 2e-3 && (bottom - middle).abs() < 2e-3, "{top} {middle} {bottom} at {dy}");
            let [top, middle, bottom] = at(Extension::default());
            assert!((top - middle).abs().max((bottom - middle).abs()) > 0.3, "without an extension there is a rim");
        }
        let aside = ShadowGrid::new(
            SIZE,
            bounds,
            Extension { left: 60, right: 70, ..Extension::default() },
            &shadow(0.0, 0.0, 0.0),
            1.0,
            bar,
        );
        assert!(shade(&aside).iter().all(|shade| *shade == 1.0), "all of the canvas");
    }

    #[test]
    fn non_finite_lengths_give_finite_coverage() {
        for length in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
            assert!(shaded(&shadow(length, length, length)).iter().all(|value| value.is_finite()));
        }
    }
}
