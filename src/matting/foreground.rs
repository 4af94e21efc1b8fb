//! Estimates foreground colours where the subject covers a pixel only partly.
//!
//! A pixel of hair over a red wall is part red; on a new background it would glow. So inside the band, and only there,
//! the colour is unmixed by multilevel foreground estimation (Germer et al. 2020, [`backdrop_kernels::foreground`]): from
//! a picture of one pixel up to full size, each level starting from the one below. Only tiles that the band needs are
//! computed. Where coverage is full the source's pixel stays, bit for bit; where it is zero the colour becomes zero.

use super::{linear_alpha, pyramid};
use crate::image::{AlphaMatte, Frame};
use backdrop_kernels::foreground::cpu::Tile;
use backdrop_kernels::foreground::{SMALL, STEPS, STEPS_SMALL};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// Side of a tile in pixels.
const TILE: usize = 64;

/// Foreground and background colour of a pixel, as levels pass them on.
type Pair = [[u8; 3]; 2];

struct Level<'a> {
    size: [usize; 2],
    pixels: Cow<'a, [[u8; 4]]>,
    coverage: Cow<'a, [u8]>,
    /// Whether each tile has to be computed, row after row.
    needed: Vec<bool>,
}

/// Writes unmixed colours into the frame where coverage is partial, zero where there is none. Returns the matte with
/// coverage in linear light, now that the colours on both sides of the edge are known.
///
/// # Panics
/// When frame and matte differ in size.
pub fn estimate(frame: &mut Frame, matte: &AlphaMatte) -> AlphaMatte {
    assert_eq!(frame.size(), matte.size(), "the matte is of another picture");
    let width = matte.size().width as usize;
    let unmixed = unmix(frame, matte);
    let mut lit = matte.clone();
    let (pixels, _) = frame.pixels_mut().as_chunks_mut::<4>();
    let strips = pixels.par_chunks_mut(TILE * width).zip(lit.coverage_mut().par_chunks_mut(TILE * width)).zip(unmixed);
    strips.for_each(|((pixels, coverage), unmixed)| {
        for (pixel, coverage) in pixels.iter_mut().zip(coverage.iter()) {
            if *coverage == 0 {
                *pixel = [0, 0, 0, pixel[3]];
            }
        }
        for Unmixed { at, subject: [red, green, blue], coverage: in_light } in unmixed {
            let pixel = &mut pixels[at as usize];
            *pixel = [red, green, blue, pixel[3]];
            coverage[at as usize] = in_light;
        }
    });
    lit
}

/// A partly covered pixel.
struct Unmixed {
    /// Where in its strip.
    at: u32,
    /// The subject's colour.
    subject: [u8; 3],
    /// Its coverage, in linear light.
    coverage: u8,
}

/// For each strip of [`TILE`] rows its partly covered pixels.
fn unmix(frame: &Frame, matte: &AlphaMatte) -> Vec<Vec<Unmixed>> {
    let levels = levels(frame, matte);
    let mut coarser: Option<(Vec<Pair>, [usize; 2])> = None;
    for level in levels[1..].iter().rev() {
        let mut plane = vec![[[0; 3]; 2]; level.pixels.len()];
        plane.par_chunks_mut(TILE * level.size[0]).enumerate().for_each_init(Tile::default, |tile, (strip, rows)| {
            level.relax_strip(strip, coarser.as_ref(), tile, |x, y, _, pair| rows[y % TILE * level.size[0] + x] = pair);
        });
        coarser = Some((plane, level.size));
    }
    let level = &levels[0];
    (0..level.size[1].div_ceil(TILE))
        .into_par_iter()
        .map_init(Tile::default, |tile, strip| {
            let mut unmixed = Vec::new();
            level.relax_strip(strip, coarser.as_ref(), tile, |x, y, coverage, pair| {
                if coverage != 0 && coverage != 255 {
                    let at = (y % TILE * level.size[0] + x) as u32;
                    unmixed.push(Unmixed { at, subject: pair[0], coverage: linear_alpha::coverage(coverage, pair) });
                }
            });
            unmixed
        })
        .collect()
}

fn levels<'a>(frame: &'a Frame, matte: &'a AlphaMatte) -> Vec<Level<'a>> {
    let size = [matte.size().width as usize, matte.size().height as usize];
    let (pixels, _) = frame.pixels().as_chunks::<4>();
    let mut levels = vec![Level {
        size,
        pixels: Cow::Borrowed(pixels),
        coverage: Cow::Borrowed(matte.coverage()),
        needed: tiles_of_band(matte.coverage(), size),
    }];
    while let Some(level) = levels.last()
        && level.size[0].max(level.size[1]) > 1
    {
        let size = pyramid::half_size(level.size);
        let pixels = pyramid::halved(&level.pixels, level.size, pyramid::mean_colour);
        let coverage = pyramid::halved(&level.coverage, level.size, |four| {
            let sum: u16 = four.into_iter().map(u16::from).sum();
            ((sum + 2) / 4) as u8
        });
        let needed = level.tiles_beneath(size);
        levels.push(Level { size, pixels: Cow::Owned(pixels), coverage: Cow::Owned(coverage), needed });
    }
    levels
}

fn tiles_of_band(coverage: &[u8], [width, height]: [usize; 2]) -> Vec<bool> {
    let columns = width.div_ceil(TILE);
    let strips = coverage.par_chunks(TILE * width).flat_map_iter(|rows| {
        let mut needed = vec![false; columns];
        for row in rows.chunks_exact(width) {
            for (needed, part) in needed.iter_mut().zip(row.chunks(TILE)) {
                *needed = *needed || part.iter().any(|&coverage| coverage != 0 && coverage != 255);
            }
        }
        needed
    });
    let needed: Vec<bool> = strips.collect();
    debug_assert_eq!(needed.len(), columns * height.div_ceil(TILE));
    needed
}

impl Level<'_> {
    const fn steps(&self) -> usize {
        if self.size[0] <= SMALL && self.size[1] <= SMALL { STEPS_SMALL } else { STEPS }
    }

    const fn columns(&self) -> usize {
        self.size[0].div_ceil(TILE)
    }

    /// The part of the level that a tile's pixels depend on: each step reaches one pixel further.
    fn reach(&self, column: usize, strip: usize) -> [Range<usize>; 2] {
        let grown = |tile: usize, len: usize| {
            (tile * TILE).saturating_sub(self.steps())..((tile + 1) * TILE + self.steps()).min(len)
        };
        [grown(column, self.size[0]), grown(strip, self.size[1])]
    }

    /// The tiles of the next coarser level, of `size`, that this level's tiles start from.
    fn tiles_beneath(&self, size: [usize; 2]) -> Vec<bool> {
        let columns = size[0].div_ceil(TILE);
        let mut beneath = vec![false; columns * size[1].div_ceil(TILE)];
        for at in (0..self.needed.len()).filter(|&at| self.needed[at]) {
            let [across, down] = self.reach(at % self.columns(), at / self.columns());
            // Bilinear: a pixel further to either side.
            let tiles = |range: Range<usize>, len: usize| {
                (range.start / 2).saturating_sub(1) / TILE..=(range.end / 2 + 1).min(len - 1) / TILE
            };
            for strip in tiles(down, size[1]) {
                for column in tiles(across.clone(), size[0]) {
                    beneath[strip * columns + column] = true;
                }
            }
        }
        beneath
    }

    /// Estimates the needed tiles of one strip; `write(x, y, coverage, colours)` for each of their pixels.
    fn relax_strip(
        &self,
        strip: usize,
        coarser: Option<&(Vec<Pair>, [usize; 2])>,
        tile: &mut Tile,
        mut write: impl FnMut(usize, usize, u8, Pair),
    ) {
        let width = self.size[0];
        for column in (0..self.columns()).filter(|&column| self.needed[strip * self.columns() + column]) {
            let [across, down] = self.reach(column, strip);
            tile.resize(across.len(), down.len());
            for y in down.clone() {
                for x in across.clone() {
                    let colour: [f32; 3] = {
                        let [red, green, blue, _] = self.pixels[y * width + x];
                        [red, green, blue].map(|value| f32::from(value) / 255.0)
                    };
                    let [foreground, background] = coarser.map_or([colour; 2], |coarser| start(coarser, x, y));
                    let alpha = f32::from(self.coverage[y * width + x]) / 255.0;
                    tile.set((x - across.start, y - down.start), alpha, colour, foreground, background);
                }
            }
            tile.relax(self.steps());
            for y in strip * TILE..((strip + 1) * TILE).min(self.size[1]) {
                for x in column * TILE..((column + 1) * TILE).min(width) {
                    let (foreground, background) = tile.colours((x - across.start, y - down.start));
                    let bytes = |colour: [f32; 3]| colour.map(|value| (value * 255.0 + 0.5) as u8);
                    write(x, y, self.coverage[y * width + x], [bytes(foreground), bytes(background)]);
                }
            }
        }
    }
}

/// The coarser level's colours at pixel (`x`, `y`) of the finer one, bilinear.
fn start((plane, [width, height]): &(Vec<Pair>, [usize; 2]), x: usize, y: usize) -> [[f32; 3]; 2] {
    // The nearest parent counts three times as much as the next one over.
    let places = |at: usize, len: usize| {
        let near = at / 2;
        let far = if at.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(len - 1) };
        [(near, 3u16), (far, 1)]
    };
    let mut sums = [[0u16; 3]; 2];
    for (row, row_weight) in places(y, *height) {
        for (column, weight) in places(x, *width) {
            let pair = &plane[row * width + column];
            for (sums, colour) in sums.iter_mut().zip(pair) {
                for (sum, &value) in sums.iter_mut().zip(colour) {
                    *sum += row_weight * weight * u16::from(value);
                }
            }
        }
    }
    sums.map(|colour| colour.map(|sum| f32::from(sum) * (1.0 / (16.0 * 255.0))))
}
