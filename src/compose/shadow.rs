//! The shadow that a subject casts: its coverage, moved and blurred.
//!
//! A soft shadow has no detail: where the blur is wide, coverage is averaged over squares of pixels, blurred on that
//! grid and sampled from it bilinearly. Averaging over `k` pixels adds a variance of `(k² - 1) / 12`, the interpolation
//! twice that (its mean over all positions), which the blur leaves out.
//!
//! Where the subject lies against a border of the canvas because its picture ends there, its coverage goes on beyond that
//! border ([`Beyond`]): else the shadow would end there with a straight rim.

use super::Shadow;
use crate::image::{Rect, Size};
use backdrop_kernels::gaussian::{self, Border};
use rayon::prelude::*;

/// The blur's deviation on a reduced grid, at least: below it the grid would show.
const LEAST_REDUCED: f32 = 4.0;
/// A blur beyond this, in pixels, spreads a shadow over more than any canvas.
const FAR: f32 = 1e6;

/// Pixels beyond which a shadow of this softness leaves nothing.
pub(super) fn reach(sigma: f32) -> usize {
    gaussian::reach(sigma)
}

/// How many pixels on a side become one before they are blurred.
pub(super) fn reduction(sigma: f32) -> usize {
    ((sigma / LEAST_REDUCED) as usize).max(1)
}

/// Pixels of the canvas, at `scale`, beyond which `shadow` leaves nothing, without its offset.
pub(super) fn reach_of(shadow: &Shadow, scale: f32) -> f32 {
    let sigma = (shadow.sigma * scale).clamp(0.0, FAR);
    // What a reduced grid and its interpolation add.
    (reach(sigma) + 3 * reduction(sigma)) as f32
}

/// Pixels by which a coverage goes on beyond each side of its bounds, as it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beyond {
    pub(super) left: u32,
    pub(super) top: u32,
    pub(super) right: u32,
    pub(super) bottom: u32,
}

/// A blurred shadow on a grid of its own, moved.
#[derive(Debug)]
pub(super) struct Cast {
    shade: Vec<[f32; 1]>,
    width: usize,
    /// Pixels of the canvas on a side of a cell.
    cell: usize,
    /// Where the grid begins on the canvas.
    left: f32,
    top: f32,
}

impl Cast {
    /// The shadow of what `covers` says of each row of a canvas of `size`, all of it inside `bounds`: 0..=255 for each
    /// column of the bounds, and `beyond` them what is at their sides. `scale` canvas pixels are one of the shadow's.
    pub(super) fn new<C>(size: Size, bounds: Rect, beyond: Beyond, shadow: &Shadow, scale: f32, covers: C) -> Self
    where
        C: Fn(u32, u32) -> u8 + Sync,
    {
        debug_assert!(bounds.left + bounds.width <= size.width && bounds.top + bounds.height <= size.height);
        let sigma = (shadow.sigma * scale).clamp(0.0, FAR);
        Self::reduced(bounds, beyond, shadow, scale, covers, reduction(sigma))
    }

    fn reduced<C>(bounds: Rect, beyond: Beyond, shadow: &Shadow, scale: f32, covers: C, cell: usize) -> Self
    where
        C: Fn(u32, u32) -> u8 + Sync,
    {
        let sigma = (shadow.sigma * scale).clamp(0.0, FAR);
        let squared = (cell * cell) as f32;
        let sigma = (sigma * sigma - (squared - 1.0) / 4.0).max(0.0).sqrt() / cell as f32;
        // One more, for the interpolation.
        let border = reach(sigma) + 1;
        // From the first pixel to the one behind the last, which may lie beyond the canvas, and those with a coverage of
        // their own.
        let axis = |first: u32, length: u32, before: u32, after: u32| {
            let (low, high) = (i64::from(first), i64::from(first) + i64::from(length));
            (low - i64::from(before), high + i64::from(after), move |at: i64| at.clamp(low, high - 1) as u32)
        };
        let (left, right, column_of) = axis(bounds.left, bounds.width, beyond.left, beyond.right);
        let (top, bottom, row_of) = axis(bounds.top, bounds.height, beyond.top, beyond.bottom);
        let columns = ((right - left) as usize).div_ceil(cell);
        let rows = ((bottom - top) as usize).div_ceil(cell);
        let width = columns + 2 * border;
        let mut shade = vec![[0.0]; width * (rows + 2 * border)];
        shade[border * width..(border + rows) * width].par_chunks_mut(width).enumerate().for_each(|(row, shade)| {
            let top = top + (row * cell) as i64;
            let mut sums = vec![0_u32; columns];
            for y in (top..(top + cell as i64).min(bottom)).map(&row_of) {
                for (x, column) in (left..right).map(&column_of).zip(0..) {
                    sums[column / cell] += u32::from(covers(x, y));
                }
            }
            for (shade, sum) in shade[border..].iter_mut().zip(sums) {
                *shade = [sum as f32 / (255.0 * squared)];
            }
        });
        gaussian::cpu::blur(&mut shade, width, sigma, Border::Zero);
        let start = |first: i64, offset: f32| first as f32 - (border * cell) as f32 + finite(offset * scale);
        Self { shade, width, cell, left: start(left, shadow.dx), top: start(top, shadow.dy) }
    }

    /// A shade that is drawn already: `width` cells a row, each `cell` pixels of the canvas, from (`left`, `top`) of it on.
    pub(super) fn of_grid(shade: Vec<[f32; 1]>, width: usize, cell: usize, left: f32, top: f32) -> Self {
        Self { shade, width, cell, left, top }
    }

    /// How many cells it has.
    #[cfg(test)]
    pub(super) fn cells(&self) -> usize {
        self.shade.len()
    }

    /// The shade, 0..=1, of a row of the canvas; nothing when it has none. `line` is scratch.
    pub(super) fn row<'a>(&self, y: u32, line: &mut Vec<f32>, shade: &'a mut [f32]) -> Option<&'a [f32]> {
        let cell = self.cell as f32;
        let at = (y as f32 + 0.5 - self.top) / cell - 0.5;
        let rows = self.shade.len() / self.width;
        let above = at.floor();
        if above < -1.0 || above >= rows as f32 {
            return None;
        }
        let share = at - above;
        let grid_row = |row: f32| {
            let start = row as usize * self.width;
            // Beyond the grid there is no shade.
            if row >= 0.0 && row < rows as f32 { &self.shade[start..start + self.width] } else { &[] }
        };
        let (first, second) = (grid_row(above), grid_row(above + 1.0));
        // With one cell of nothing on each side.
        line.clear();
        line.resize(self.width + 2, 0.0);
        for (line, [shade]) in line[1..].iter_mut().zip(first) {
            *line = (1.0 - share) * shade;
        }
        if share > 0.0 {
            for (line, [shade]) in line[1..].iter_mut().zip(second) {
                *line += share * shade;
            }
        }
        let start = (0.5 - self.left) / cell + 0.5;
        let (step, end) = (1.0 / cell, (self.width + 1) as f32);
        for (x, shade) in shade.iter_mut().enumerate() {
            let at = start + x as f32 * step;
            *shade = if (0.0..end).contains(&at) {
                // Not `floor`, which is a call.
                let left = at as u32;
                let share = at - left as f32;
                (1.0 - share) * line[left as usize] + share * line[left as usize + 1]
            } else {
                0.0
            };
        }
        Some(shade)
    }
}

fn finite(length: f32) -> f32 {
    if length.is_nan() { 0.0 } else { length.clamp(-FAR, FAR) }
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

    /// Half a plane, a disc's worth of it, with a comb along its upper side.
    fn covers(x: u32, y: u32) -> u8 {
        let (dx, dy) = (x as f32 - 94.0, y as f32 - 80.0);
        if dx.hypot(dy) < 30.0 || (y < 80 && x.is_multiple_of(4)) { 255 } else { 0 }
    }

    fn shade(cast: &Cast) -> Vec<f32> {
        let mut shade = Vec::new();
        for y in 0..SIZE.height {
            let mut row = vec![0.0; SIZE.width as usize];
            let got = cast.row(y, &mut Vec::new(), &mut row).map(<[f32]>::to_vec);
            shade.extend(got.unwrap_or_else(|| vec![0.0; SIZE.width as usize]));
        }
        shade
    }

    /// Sum, and mean column and row.
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
    fn a_shadow_is_moved_by_exactly_its_offset_and_loses_nothing() {
        let unmoved = shade(&Cast::new(SIZE, BOUNDS, Beyond::default(), &shadow(0.0, 0.0, 0.0), 1.0, covers));
        let (sum, x, y) = moments(&unmoved);
        let diagonal = 12.0 * std::f32::consts::FRAC_1_SQRT_2;
        for (dx, dy) in [(0.0, 0.0), (12.0, 0.0), (0.0, -12.0), (diagonal, diagonal), (-diagonal, diagonal)] {
            for sigma in [0.0, 0.5, 3.0, 8.0, 10.0, 13.5] {
                let (moved_sum, moved_x, moved_y) =
                    moments(&shade(&Cast::new(SIZE, BOUNDS, Beyond::default(), &shadow(dx, dy, sigma), 1.0, covers)));
                assert!((moved_sum / sum - 1.0).abs() < 1e-3, "{sum} became {moved_sum} for {sigma}");
                let off = (moved_x - x - f64::from(dx)).abs().max((moved_y - y - f64::from(dy)).abs());
                // A comb in step with the reduced grid has its weight in the middle of the cells.
                assert!(off < if sigma < 8.0 { 0.002 } else { 0.05 }, "{off} off for {dx},{dy} and {sigma}");
            }
        }
    }

    #[test]
    fn lengths_are_scaled() {
        let half = Cast::new(SIZE, BOUNDS, Beyond::default(), &shadow(20.0, -8.0, 12.0), 0.5, covers);
        let own = Cast::new(SIZE, BOUNDS, Beyond::default(), &shadow(10.0, -4.0, 6.0), 1.0, covers);
        assert_eq!(shade(&half), shade(&own));
    }

    #[test]
    fn a_hard_shadow_is_the_coverage_itself() {
        let cast = Cast::new(SIZE, BOUNDS, Beyond::default(), &shadow(3.0, 5.0, 0.0), 1.0, covers);
        for (at, value) in shade(&cast).into_iter().enumerate() {
            let (x, y) = ((at as u32 % SIZE.width).wrapping_sub(3), (at as u32 / SIZE.width).wrapping_sub(5));
            let inside = x.wrapping_sub(BOUNDS.left) < BOUNDS.width && y.wrapping_sub(BOUNDS.top) < BOUNDS.height;
            assert_eq!(value, if inside { f32::from(covers(x, y)) / 255.0 } else { 0.0 });
        }
    }

    #[test]
    fn a_reduced_shadow_cannot_be_told_from_a_full_one() {
        for sigma in [8.0, 10.0, 12.0, 17.0, 25.0] {
            assert!(reduction(sigma) > 1);
            for offset in [0.0, 0.4, 7.7] {
                let shadow = shadow(offset, -offset, sigma);
                let reduced = shade(&Cast::new(SIZE, BOUNDS, Beyond::default(), &shadow, 1.0, covers));
                let full = shade(&Cast::reduced(BOUNDS, Beyond::default(), &shadow, 1.0, covers, 1));
                let off = largest_difference(&reduced, &full) * 255.0;
                assert!(off < 1.5, "{off} of 255 off for {sigma}");
            }
        }
    }

    #[test]
    fn the_comparer_sees_a_shift_by_half_a_pixel() {
        let [here, there] = [0.0, 0.5]
            .map(|dx| shade(&Cast::new(SIZE, BOUNDS, Beyond::default(), &shadow(dx, 0.0, 10.0), 1.0, covers)));
        assert!(largest_difference(&here, &there) * 255.0 > 2.0);
    }

    #[test]
    fn coverage_that_goes_on_beyond_the_canvas_casts_a_shadow_without_a_rim() {
        // A bar over all rows of the canvas.
        let bounds = Rect { left: 60, top: 0, width: 70, height: 160 };
        let bar = |_, _| 255;
        for (dx, dy, sigma) in [(8.0, 12.0, 10.0), (8.0, -12.0, 10.0), (0.0, -40.0, 0.0), (0.0, 30.0, 3.0)] {
            let shadow = shadow(dx, dy, sigma);
            let at = |beyond: Beyond| {
                let shade = shade(&Cast::new(SIZE, bounds, beyond, &shadow, 1.0, bar));
                [0, 80, 159].map(|y| shade[y * SIZE.width as usize + 95])
            };
            let [top, middle, bottom] = at(Beyond { top: 80, bottom: 80, ..Beyond::default() });
            assert!((top - middle).abs() < 2e-3 && (bottom - middle).abs() < 2e-3, "{top} {middle} {bottom} at {dy}");
            let [top, middle, bottom] = at(Beyond::default());
            assert!((top - middle).abs().max((bottom - middle).abs()) > 0.3, "the comparer sees no rim");
        }
        let aside = Cast::new(
            SIZE,
            bounds,
            Beyond { left: 60, right: 70, ..Beyond::default() },
            &shadow(0.0, 0.0, 0.0),
            1.0,
            bar,
        );
        assert!(shade(&aside).iter().all(|shade| *shade == 1.0), "all of the canvas");
    }

    #[test]
    fn nonsense_lengths_cast_something_or_nothing() {
        for length in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
            let cast = Cast::new(SIZE, BOUNDS, Beyond::default(), &shadow(length, length, length), 1.0, covers);
            assert!(shade(&cast).iter().all(|value| value.is_finite()));
        }
    }
}
