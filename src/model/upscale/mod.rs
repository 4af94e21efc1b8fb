//! Upscaling: bicubic enlargement plus a residual from the network, tile by tile in bands of rows.
//!
//! Each tile is computed with the surrounding pixels on which its result depends, so there are no seams: the result
//! does not depend on the tiling. Outside the picture its border is repeated, for bicubic and for the network. With the
//! zero padding of convolutions the network would sharpen an edge at the border (by up to 10 levels of 255 in a plain
//! red picture). Besides both pictures, only the current rows of each tile are in memory.
//!
//! Transparent pictures: colours are upscaled after alpha bleeding ([`OpaqueColours`]), and alpha as a separate grey
//! picture, all in encoded values, as in training. Premultiplied colours, the usual input of a resampling filter, do
//! not suit a network that sharpens: it would sharpen their edge to black differently from alpha's, because nothing is
//! lighter than white, and the quotient has a bright ring at every soft edge. Tiles of constant alpha need no pass for
//! alpha.
//!
//! Where colour or alpha is constant around a pixel, the result is exactly that value: the network is only nearly
//! exact, and a plain white background has to stay white. Alpha stays within the range of the surrounding pixels.

mod alpha_bleed;
mod bicubic;
mod cpu;
mod enlargement;
mod picture;
mod upscaler;

use std::ops::Range;

use backdrop_kernels::conv::Tile;
use rayon::prelude::*;

use self::alpha_bleed::OpaqueColours;
use self::bicubic::{Phase, REACH, ROWS, blend, phases};
use self::picture::Picture;
use super::SegmentError;
use crate::image::Size;

pub(super) use cpu::CpuUpscaler;
pub use enlargement::{Band, Enlargement};
pub(super) use upscaler::{Source, Upscaler};

/// Maximum bands of a picture. Between bands a picture waits for other requests, so there are few.
const BANDS: usize = 8;

/// Minimum tiles of a band for each thread.
const TILES_PER_THREAD: usize = 2;

pub(super) fn enlarge_band(enlargement: &mut Enlargement, upscaler: &dyn Upscaler) -> Result<(), SegmentError> {
    assert_eq!(enlargement.factor(), upscaler.factor(), "the network upscales by another factor");
    let Size { width, height } = enlargement.frame().size();
    let extent = [width as usize, height as usize];
    let tile = upscaler.tile(extent);
    let rows = band_rows(extent, tile, upscaler.waiting().unwrap_or_else(rayon::current_num_threads));
    enlargement.compute(rows as u32, |band| {
        let picture = Picture::new(band.frame);
        let phases = phases(band.factor);
        let rows = band.rows.start as usize..band.rows.end as usize;
        let tiles = split_tiles(band.pixels, width as usize, rows, tile, phases.len());
        let run = |(tile, rows)| TileTask { picture: &picture, phases: &phases, tile, rows }.run(upscaler);
        let Some(threads) = upscaler.waiting() else {
            return tiles.into_par_iter().try_for_each(run);
        };
        let waiting = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let waiting = waiting.map_err(|error| SegmentError::Device(error.to_string()))?;
        waiting.install(|| tiles.into_par_iter().try_for_each(run))
    })
}

/// Rows of a band, in whole tiles: at most [`BANDS`] bands of at least [`TILES_PER_THREAD`] tiles per thread.
fn band_rows([width, height]: [usize; 2], [columns, rows]: [usize; 2], parallel: usize) -> usize {
    let bands = height.div_ceil(rows).div_ceil(BANDS);
    let enough = (TILES_PER_THREAD * parallel).div_ceil(width.div_ceil(columns));
    (bands.max(enough) * rows).min(height)
}

/// The tiles of `band` (rows of a picture of this width), each with its rows of the upscaled picture.
fn split_tiles(
    pixels: &mut [u8],
    width: usize,
    band: Range<usize>,
    [columns, rows]: [usize; 2],
    factor: usize,
) -> Vec<(Tile, Vec<&mut [u8]>)> {
    let mut tiles = Vec::new();
    let row = width * factor * 4;
    for (top, pixels) in band.clone().step_by(rows).zip(pixels.chunks_mut(rows * factor * row)) {
        let first = tiles.len();
        for left in (0..width).step_by(columns) {
            let tile = Tile { left, top, width: columns.min(width - left), height: rows.min(band.end - top) };
            tiles.push((tile, Vec::with_capacity(tile.height * factor)));
        }
        for row in pixels.chunks_exact_mut(row) {
            for ((_, parts), part) in tiles[first..].iter_mut().zip(row.chunks_mut(columns * factor * 4)) {
                parts.push(part);
            }
        }
    }
    tiles
}

/// The endless colours of row `y` from column `x` on, in 0..=1, from `opaque` if given, else from the picture.
fn colours<'a>(
    picture: &'a Picture<'_>,
    opaque: Option<&'a OpaqueColours>,
    y: isize,
    x: isize,
) -> impl Iterator<Item = [f32; 3]> {
    picture.pixels_from(y, x).zip(x..).map(move |([red, green, blue, _], x)| {
        opaque.map_or_else(|| [red, green, blue].map(|value| f32::from(value) / 255.0), |opaque| opaque.colour(y, x))
    })
}

struct TileTask<'a> {
    picture: &'a Picture<'a>,
    phases: &'a [Phase],
    tile: Tile,
    rows: Vec<&'a mut [u8]>,
}

impl TileTask<'_> {
    fn run(mut self, upscaler: &dyn Upscaler) -> Result<(), SegmentError> {
        let (picture, tile) = (self.picture, self.tile);
        let alpha = picture.constant_alpha(tile);
        let opaque = if alpha.is_some() { None } else { Some(OpaqueColours::new(picture, tile)) };
        let mut window = Window::new(picture, opaque.as_ref(), tile);
        match alpha {
            Some(0) => return Ok(()),
            Some(alpha) => {
                for row in &mut self.rows {
                    row.as_chunks_mut::<4>().0.iter_mut().for_each(|pixel| pixel[3] = alpha);
                }
            }
            None => {
                let source = |y: isize, x: isize, to: &mut [f32]| picture.alphas(y, x, to);
                upscaler.rows(tile, &source, &mut |y, tail| {
                    window.move_to(y);
                    self.write_alpha(y, &window, tail);
                })?;
            }
        }
        let source = |y: isize, x: isize, to: &mut [f32]| {
            for (to, colour) in to.as_chunks_mut::<3>().0.iter_mut().zip(colours(picture, opaque.as_ref(), y, x)) {
                *to = colour;
            }
        };
        upscaler.rows(tile, &source, &mut |y, tail| {
            window.move_to(y);
            self.write_colours(y, &window, tail);
        })
    }

    /// The rows of the result for row `y` of the picture, with their phases.
    fn results(&mut self, y: usize) -> impl Iterator<Item = (usize, &Phase, &mut [[u8; 4]])> {
        let factor = self.phases.len();
        let rows = &mut self.rows[(y - self.tile.top) * factor..][..factor];
        let results = rows.iter_mut().zip(self.phases).enumerate();
        results.map(|(dy, (row, phase))| (dy, phase, row.as_chunks_mut::<4>().0))
    }

    fn write_alpha(&mut self, y: usize, window: &Window<'_>, tail: &[f32]) {
        let (phases, factor) = (self.phases, self.phases.len());
        let range = window.alpha_range();
        for (dy, phase, row) in self.results(y) {
            let blended = window.blended(phase);
            let sources = row.chunks_exact_mut(factor).zip(tail.chunks_exact(3 * factor * factor)).enumerate();
            for (x, (pixels, tail)) in sources {
                for (dx, (pixel, phase)) in pixels.iter_mut().zip(phases).enumerate() {
                    let [.., alpha] = blend(four(&blended[x + phase.first..]), phase.weights);
                    let added: f32 = tail[dy * factor + dx..].iter().step_by(factor * factor).sum();
                    // Next to a step both overshoot, which in alpha is a rim.
                    let [lowest, highest] = range[x];
                    pixel[3] = byte((alpha + added / 3.0).clamp(lowest, highest));
                }
            }
        }
    }

    fn write_colours(&mut self, y: usize, window: &Window<'_>, tail: &[f32]) {
        let (phases, factor) = (self.phases, self.phases.len());
        let constant = window.constant_colours();
        for (dy, phase, row) in self.results(y) {
            let blended = window.blended(phase);
            let sources = row.chunks_exact_mut(factor).zip(tail.chunks_exact(3 * factor * factor)).enumerate();
            for (x, (pixels, tail)) in sources {
                for (dx, (pixel, phase)) in pixels.iter_mut().zip(phases).enumerate() {
                    if pixel[3] == 0 {
                        continue;
                    }
                    if let Some(colour) = constant[x] {
                        pixel[..3].copy_from_slice(&colour.map(byte));
                        continue;
                    }
                    let colour = blend(four(&blended[x + phase.first..]), phase.weights);
                    for channel in 0..3 {
                        pixel[channel] = byte(colour[channel] + tail[(channel * factor + dy) * factor + dx]);
                    }
                }
            }
        }
    }
}

fn byte(value: f32) -> u8 {
    (value * 255.0 + 0.5) as u8
}

fn four(pixels: &[[f32; 4]]) -> [[f32; 4]; 4] {
    *pixels.first_chunk().expect("a window is two pixels wider than its tile on both sides")
}

/// The pixels around a row of a tile, [`REACH`] on every side; outside the picture the border is repeated.
struct Window<'a> {
    picture: &'a Picture<'a>,
    opaque: Option<&'a OpaqueColours>,
    tile: Tile,
    /// Colours and alpha. Row `y` of the picture, clamped, is at `(y + REACH) % ROWS`.
    rows: [Vec<[f32; 4]>; ROWS],
    /// The middle row.
    at: Option<usize>,
}

impl<'a> Window<'a> {
    fn new(picture: &'a Picture<'a>, opaque: Option<&'a OpaqueColours>, tile: Tile) -> Self {
        let row = || vec![[0.0; 4]; tile.width + 2 * REACH];
        Self { picture, opaque, tile, rows: std::array::from_fn(|_| row()), at: None }
    }

    /// Makes `y` the middle row.
    fn move_to(&mut self, y: usize) {
        // From `REACH` rows above the picture. One step down needs one new row.
        let new_rows = if y > 0 && self.at == Some(y - 1) { y + ROWS - 1..y + ROWS } else { y..y + ROWS };
        let outside = |at: usize| at as isize - REACH as isize;
        for above in new_rows {
            let (y, x) = (outside(above), outside(self.tile.left));
            let source = colours(self.picture, self.opaque, y, x).zip(self.picture.pixels_from(y, x));
            for (to, ([red, green, blue], [.., alpha])) in self.rows[above % ROWS].iter_mut().zip(source) {
                *to = [red, green, blue, f32::from(alpha) / 255.0];
            }
        }
        self.at = Some(y);
    }

    fn row(&self, offset: usize) -> &[[f32; 4]] {
        &self.rows[(self.at.unwrap_or(0) + offset) % ROWS]
    }

    fn blended(&self, phase: &Phase) -> Vec<[f32; 4]> {
        let [a, b, c, d] = std::array::from_fn(|tap| self.row(phase.first + tap));
        let columns = a.iter().zip(b).zip(c).zip(d);
        columns.map(|(((&a, &b), &c), &d)| blend([a, b, c, d], phase.weights)).collect()
    }

    /// The range of alpha around each pixel of the tile's row.
    fn alpha_range(&self) -> Vec<[f32; 2]> {
        let rows: [&[[f32; 4]]; ROWS] = std::array::from_fn(|offset| self.row(offset));
        let around = |[low, high]: [f32; 2], alpha: f32| [low.min(alpha), high.max(alpha)];
        let column = |x: usize| rows.iter().fold([1.0, 0.0], |range, row| around(range, row[x][3]));
        let columns: Vec<[f32; 2]> = (0..self.tile.width + 2 * REACH).map(column).collect();
        let joined = columns.windows(ROWS);
        joined
            .map(|columns| columns.iter().fold([1.0, 0.0], |range, &[low, high]| around(around(range, low), high)))
            .collect()
    }

    /// The common colour of all pixels around each pixel of the tile's row, if there is one.
    fn constant_colours(&self) -> Vec<Option<[f32; 3]>> {
        let part = |[red, green, blue, _]: [f32; 4]| [red, green, blue];
        let rows: [&[[f32; 4]]; ROWS] = std::array::from_fn(|offset| self.row(offset));
        let column = |x: usize| {
            let first = part(rows[0][x]);
            rows.iter().all(|row| part(row[x]) == first).then_some(first)
        };
        let columns: Vec<Option<[f32; 3]>> = (0..self.tile.width + 2 * REACH).map(column).collect();
        let around = columns.windows(ROWS);
        around.map(|columns| columns[0].filter(|_| columns.iter().all(|one| *one == columns[0]))).collect()
    }
}

#[cfg(test)]
mod tests;
