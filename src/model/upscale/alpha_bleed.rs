//! Alpha bleeding: extends the colours of visible pixels into transparent ones, for the network's input.

use backdrop_kernels::conv::Tile;

use super::bicubic;
use super::picture::{Picture, WEIGHT_RADIUS};
use crate::model::weights::architecture::upscale::RECEPTIVE_RADIUS;

/// Alpha from which a pixel's colour is reliable: below it, eight bits barely represent the colour.
const OWN_COLOUR: u8 = 16;

/// Radius of the mean colour that pixels without alpha take. It includes all pixels on which a visible pixel's result
/// depends: the network's receptive field, and bicubic's reach beyond the last visible pixel.
const MEAN_RADIUS: usize = RECEPTIVE_RADIUS + bicubic::REACH;

/// The colours of a tile and [`RECEPTIVE_RADIUS`] pixels around it, clipped to the picture. The weight of a pixel's own
/// colour is its alpha divided by [`OWN_COLOUR`], or by the highest alpha around it ([`WEIGHT_RADIUS`]) if that is
/// lower: a shadow next to its subject keeps its colour, and the faint end of an edge takes surrounding colours. The
/// result does not depend on the tiling, because all sums are integers.
pub(super) struct OpaqueColours {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    colours: Vec<[f32; 3]>,
}

/// Sums over pixels: red, green and blue times alpha, and alpha.
type Sums = [u32; 4];

impl OpaqueColours {
    pub(super) fn new(picture: &Picture<'_>, tile: Tile) -> Self {
        let [columns, rows] = picture.extent;
        let (left, top) = (tile.left.saturating_sub(RECEPTIVE_RADIUS), tile.top.saturating_sub(RECEPTIVE_RADIUS));
        let (right, bottom) = (
            (tile.left + tile.width + RECEPTIVE_RADIUS).min(columns),
            (tile.top + tile.height + RECEPTIVE_RADIUS).min(rows),
        );
        let (width, height) = (right - left, bottom - top);
        // Range of the windows' columns, and column sums over the windows' rows.
        let (first, end) = (left.saturating_sub(MEAN_RADIUS), (right + MEAN_RADIUS).min(columns));
        let mut sums: Vec<Sums> = vec![[0; 4]; end - first];
        let mut colours = Vec::with_capacity(width * height);
        let (mut added, mut dropped) = (top.saturating_sub(MEAN_RADIUS), top.saturating_sub(MEAN_RADIUS));
        for y in top..bottom {
            while added < (y + MEAN_RADIUS + 1).min(rows) {
                change(&mut sums, &picture.row(added)[first..end], u32::wrapping_add);
                added += 1;
            }
            while dropped + MEAN_RADIUS < y {
                change(&mut sums, &picture.row(dropped)[first..end], u32::wrapping_sub);
                dropped += 1;
            }
            let mut before: Vec<Sums> = Vec::with_capacity(sums.len() + 1);
            let mut total = [0; 4];
            before.push(total);
            before.extend(sums.iter().map(|sum| {
                total = std::array::from_fn(|channel| total[channel] + sum[channel]);
                total
            }));
            let highest = highest_alphas(picture, y, left..right);
            for (x, highest) in (left..right).zip(highest) {
                let (from, to) = (x.saturating_sub(MEAN_RADIUS).max(first), (x + MEAN_RADIUS + 1).min(end));
                let around: Sums =
                    std::array::from_fn(|channel| before[to - first][channel] - before[from - first][channel]);
                colours.push(opaque_colour(picture.row(y)[x], highest, around));
            }
        }
        Self { left, top, width, height, colours }
    }

    /// The colour of a pixel that the tile reads. Outside the picture the border is repeated.
    pub(super) fn colour(&self, y: isize, x: isize) -> [f32; 3] {
        let inside =
            |at: isize, first: usize, extent: usize| (at - first as isize).clamp(0, extent as isize - 1) as usize;
        self.colours[inside(y, self.top, self.height) * self.width + inside(x, self.left, self.width)]
    }
}

fn change(sums: &mut [Sums], row: &[[u8; 4]], by: fn(u32, u32) -> u32) {
    for (sum, &[red, green, blue, alpha]) in sums.iter_mut().zip(row) {
        let alpha = u32::from(alpha);
        let pixel = [u32::from(red) * alpha, u32::from(green) * alpha, u32::from(blue) * alpha, alpha];
        *sum = std::array::from_fn(|channel| by(sum[channel], pixel[channel]));
    }
}

/// The highest alpha up to [`WEIGHT_RADIUS`] pixels away from row `y`, for each of these columns.
fn highest_alphas(picture: &Picture<'_>, y: usize, columns: std::ops::Range<usize>) -> Vec<u8> {
    let [width, height] = picture.extent;
    let rows = y.saturating_sub(WEIGHT_RADIUS)..(y + WEIGHT_RADIUS + 1).min(height);
    let near = |x: usize| x.saturating_sub(WEIGHT_RADIUS)..(x + WEIGHT_RADIUS + 1).min(width);
    let highest = |x: usize| rows.clone().flat_map(|y| &picture.row(y)[near(x)]).map(|pixel| pixel[3]).max();
    columns.map(|x| highest(x).unwrap_or(0)).collect()
}

/// Mixes a pixel's own colour, by its weight, with the mean colour around it.
fn opaque_colour([red, green, blue, alpha]: [u8; 4], highest: u8, [sums @ .., weight]: Sums) -> [f32; 3] {
    let own = [red, green, blue].map(|value| f32::from(value) / 255.0);
    if alpha == highest && alpha > 0 {
        return own;
    }
    if weight == 0 {
        return [0.0; 3];
    }
    let share = (f32::from(alpha) / f32::from(highest.clamp(1, OWN_COLOUR))).min(1.0);
    std::array::from_fn(|channel| {
        // In double precision, because the sums exceed the integers of single precision.
        let mean = (f64::from(sums[channel]) / (255.0 * f64::from(weight))) as f32;
        own[channel] * share + mean * (1.0 - share)
    })
}
