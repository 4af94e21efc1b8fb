//! Upscaling: bicubic enlargement plus a residual from the network, tile by tile.
//!
//! Each tile is computed with the pixels around it that its result depends on, so there are no seams: the result does not
//! depend on the tiling. Outside the picture its border is repeated, for bicubic and for the network: the zeros that
//! convolutions are padded with would be an edge, which the network would sharpen (by up to 10 levels of 255 at the border
//! of a plain red picture). In addition to the two pictures only the current rows of each tile are in memory.
//!
//! Transparent pictures: colours are upscaled after alpha bleeding ([`OpaqueColours`]), and alpha as a grey picture of its
//! own, all in encoded values, as the network was trained. Premultiplied colours, the usual input of a resampling filter, do
//! not suit a network that sharpens: it also sharpens the edge to black, and differently from that of alpha, because nothing
//! is lighter than white; their quotient had a bright ring around every soft edge. Tiles of constant alpha skip its pass.
//!
//! Where colour or alpha is constant around a pixel, the result is exactly that value: the trained network is only nearly
//! exact there, and a plain white background has to stay white. Alpha stays within that of the pixels around.

mod alpha_bleed;
mod bicubic;
mod cpu;
mod picture;
mod upscaler;

use backdrop_kernels::conv::Tile;
use rayon::prelude::*;

use self::alpha_bleed::OpaqueColours;
use self::bicubic::{Phase, REACH, ROWS, blend, phases};
use self::picture::Picture;
use super::SegmentError;
use crate::image::{Buffer, Frame, Size};

pub(super) use cpu::CpuUpscaler;
pub(super) use upscaler::{Source, Upscaler};

/// Rounds of tiles at most.
const ROUNDS: usize = 8;

/// `frame`, upscaled.
pub(super) fn enlarged(frame: &Frame, upscaler: &dyn Upscaler) -> Result<Frame, SegmentError> {
    let Size { width, height } = frame.size();
    if frame.size().area() == 0 {
        return Err(SegmentError::Device("a frame without pixels".to_owned()));
    }
    let factor = upscaler.factor().get();
    let (Some(wide), Some(high)) = (width.checked_mul(factor), height.checked_mul(factor)) else {
        return Err(SegmentError::Device(format!("{} cannot be enlarged {factor} times", frame.size())));
    };
    let size = Size::new(wide, high);
    let mut pixels = vec![0; size.area() * 4];
    let picture = Picture::new(frame);
    let phases = phases(upscaler.factor());
    let tiles = split_tiles(&mut pixels, picture.extent, upscaler.tile(picture.extent), phases.len());
    let run = |(tile, rows)| TileTask { picture: &picture, phases: &phases, tile, rows }.run(upscaler);
    match upscaler.waiting() {
        None => {
            // In rounds: a worker begins other pictures' work only when there are no more tiles to take over. In few, because
            // this picture then waits for what its own worker has begun.
            let in_round = tiles.len().div_ceil(ROUNDS).max(2 * rayon::current_num_threads());
            let mut tiles = tiles.into_iter().peekable();
            while tiles.peek().is_some() {
                let round: Vec<_> = tiles.by_ref().take(in_round).collect();
                round.into_par_iter().try_for_each(run)?;
            }
        }
        Some(threads) => {
            let waiting = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let waiting = waiting.map_err(|error| SegmentError::Device(error.to_string()))?;
            waiting.install(|| tiles.into_par_iter().try_for_each(run))?;
        }
    }
    Ok(Frame::new(size, Buffer::from(pixels)))
}

/// The tiles of a picture, each with its rows of the upscaled one.
fn split_tiles(
    pixels: &mut [u8],
    [width, height]: [usize; 2],
    [columns, rows]: [usize; 2],
    factor: usize,
) -> Vec<(Tile, Vec<&mut [u8]>)> {
    let mut tiles = Vec::new();
    let row = width * factor * 4;
    for (band, pixels) in pixels.chunks_mut(rows * factor * row).enumerate() {
        let first = tiles.len();
        let top = band * rows;
        for left in (0..width).step_by(columns) {
            let tile = Tile { left, top, width: columns.min(width - left), height: rows.min(height - top) };
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

/// The colours of row `y` from column `x` on, without end, in 0..=1: those of `opaque`, or the picture's own.
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

/// The work on one tile.
struct TileTask<'a> {
    picture: &'a Picture<'a>,
    phases: &'a [Phase],
    tile: Tile,
    /// The tile's rows of the result.
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

    /// The rows of the result that row `y` of the picture becomes, with their phases.
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
                    // Beside a step both overshoot, which in alpha is a rim.
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

/// A value clamped to 0..=1, in 255ths.
fn byte(value: f32) -> u8 {
    // The conversion saturates at 0 and 255.
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
    /// The row in the middle.
    at: Option<usize>,
}

impl<'a> Window<'a> {
    fn new(picture: &'a Picture<'a>, opaque: Option<&'a OpaqueColours>, tile: Tile) -> Self {
        let row = || vec![[0.0; 4]; tile.width + 2 * REACH];
        Self { picture, opaque, tile, rows: std::array::from_fn(|_| row()), at: None }
    }

    /// Puts row `y` in the middle.
    fn move_to(&mut self, y: usize) {
        // Counted from `REACH` rows above the picture. One step down needs one new row.
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

    /// Row `offset` of the window, counted from the top.
    fn row(&self, offset: usize) -> &[[f32; 4]] {
        &self.rows[(self.at.unwrap_or(0) + offset) % ROWS]
    }

    /// The window's rows under one phase of the columns' axis.
    fn blended(&self, phase: &Phase) -> Vec<[f32; 4]> {
        let [a, b, c, d] = std::array::from_fn(|tap| self.row(phase.first + tap));
        let columns = a.iter().zip(b).zip(c).zip(d);
        columns.map(|(((&a, &b), &c), &d)| blend([a, b, c, d], phase.weights)).collect()
    }

    /// For each pixel of the tile's row the lowest and the highest alpha of the pixels around it.
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

    /// For each pixel of the tile's row the colour of all pixels around it, if it is the same.
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
