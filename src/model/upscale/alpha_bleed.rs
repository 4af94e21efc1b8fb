//! Colours as if nothing were transparent: what the network is shown of a picture with soft edges.

use backdrop_kernels::conv::Tile;

use super::{Picture, SIGHT};

/// A pixel without alpha takes the mean of the colours up to so far away. All that a visible pixel's enlargement
/// depends on is nearer: the network's reach, and that of bicubic beyond the last visible pixel.
const REACH: usize = SIGHT + super::bicubic::REACH;

/// A pixel's colour counts by its share of the highest alpha up to so far away. What is half clear all around keeps its
/// colours; the thin end of an edge takes those beside it, because there bytes hardly tell them.
pub(super) const TRUST: usize = 2;

/// The colours of a tile and [`SIGHT`] pixels around it, as far as the picture goes. A function of the picture: how it
/// is cut into tiles makes no difference, because all sums are of whole numbers.
pub(super) struct Solid {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    /// In 0..=1.
    colours: Vec<[f32; 3]>,
}

/// Sums over pixels: red, green and blue times alpha, and alpha.
type Sums = [u32; 4];

impl Solid {
    pub(super) fn new(picture: &Picture<'_>, tile: Tile) -> Self {
        let [columns, rows] = picture.extent;
        let (left, top) = (tile.left.saturating_sub(SIGHT), tile.top.saturating_sub(SIGHT));
        let (right, bottom) =
            ((tile.left + tile.width + SIGHT).min(columns), (tile.top + tile.height + SIGHT).min(rows));
        let (width, height) = (right - left, bottom - top);
        // The columns under the windows, and the sums over the rows under them.
        let (first, end) = (left.saturating_sub(REACH), (right + REACH).min(columns));
        let mut sums: Vec<Sums> = vec![[0; 4]; end - first];
        let mut colours = Vec::with_capacity(width * height);
        let (mut added, mut dropped) = (top.saturating_sub(REACH), top.saturating_sub(REACH));
        for y in top..bottom {
            while added < (y + REACH + 1).min(rows) {
                change(&mut sums, &picture.row(added)[first..end], u32::wrapping_add);
                added += 1;
            }
            while dropped + REACH < y {
                change(&mut sums, &picture.row(dropped)[first..end], u32::wrapping_sub);
                dropped += 1;
            }
            // Over all columns up to each.
            let mut before: Vec<Sums> = Vec::with_capacity(sums.len() + 1);
            let mut total = [0; 4];
            before.push(total);
            before.extend(sums.iter().map(|sum| {
                total = std::array::from_fn(|channel| total[channel] + sum[channel]);
                total
            }));
            let highest = highest_alphas(picture, y, left..right);
            for (x, highest) in (left..right).zip(highest) {
                let (from, to) = (x.saturating_sub(REACH).max(first), (x + REACH + 1).min(end));
                let around: Sums =
                    std::array::from_fn(|channel| before[to - first][channel] - before[from - first][channel]);
                colours.push(solid(picture.row(y)[x], highest, around));
            }
        }
        Self { left, top, width, height, colours }
    }

    /// The colour of a pixel that the tile sees. Outside the picture its border goes on.
    pub(super) fn colour(&self, y: isize, x: isize) -> [f32; 3] {
        let inside =
            |at: isize, first: usize, extent: usize| (at - first as isize).clamp(0, extent as isize - 1) as usize;
        self.colours[inside(y, self.top, self.height) * self.width + inside(x, self.left, self.width)]
    }
}

/// Adds a row to the sums, or takes it away.
fn change(sums: &mut [Sums], row: &[[u8; 4]], by: fn(u32, u32) -> u32) {
    for (sum, &[red, green, blue, alpha]) in sums.iter_mut().zip(row) {
        let alpha = u32::from(alpha);
        let pixel = [u32::from(red) * alpha, u32::from(green) * alpha, u32::from(blue) * alpha, alpha];
        *sum = std::array::from_fn(|channel| by(sum[channel], pixel[channel]));
    }
}

/// For each of these columns the highest alpha up to [`TRUST`] pixels away from row `y`.
fn highest_alphas(picture: &Picture<'_>, y: usize, columns: std::ops::Range<usize>) -> Vec<u8> {
    let [width, height] = picture.extent;
    let rows = y.saturating_sub(TRUST)..(y + TRUST + 1).min(height);
    let near = |x: usize| x.saturating_sub(TRUST)..(x + TRUST + 1).min(width);
    let highest = |x: usize| rows.clone().flat_map(|y| &picture.row(y)[near(x)]).map(|pixel| pixel[3]).max();
    columns.map(|x| highest(x).unwrap_or(0)).collect()
}

/// A pixel's own colour as far as it counts, and the mean around it for the rest.
fn solid([red, green, blue, alpha]: [u8; 4], highest: u8, [sums @ .., weight]: Sums) -> [f32; 3] {
    let own = [red, green, blue].map(|value| f32::from(value) / 255.0);
    if alpha == highest && alpha > 0 {
        return own;
    }
    if weight == 0 {
        return [0.0; 3];
    }
    let share = f32::from(alpha) / f32::from(highest.max(1));
    std::array::from_fn(|channel| {
        // In double precision, because the sums are beyond the whole numbers of single precision.
        let mean = (f64::from(sums[channel]) / (255.0 * f64::from(weight))) as f32;
        own[channel] * share + mean * (1.0 - share)
    })
}
