//! Estimates foreground colours where the subject covers a pixel only partly.
//!
//! A pixel of hair over a red wall is part red; on a new background it would glow. So inside the band, and only there,
//! the colour is unmixed by multilevel foreground estimation (Germer et al. 2020, [`backdrop_kernels::foreground`]): from
//! a picture of one pixel up to full size, each level starting from the one below. Only tiles that the band needs are
//! computed. Where coverage is full the source's pixel stays, bit for bit; where it is zero the colour becomes zero.

use super::edge::is_partial;
use super::pyramid::{self, Pyramid};
use crate::image::{AlphaMatte, Frame};
use backdrop_kernels::foreground::cpu::Tile;
use backdrop_kernels::foreground::{SMALL, STEPS, STEPS_SMALL};
use backdrop_kernels::linear_alpha::cpu as linear_alpha;
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// Side of a tile in pixels.
pub(super) const TILE: usize = 32;

struct Level<'a> {
    size: [usize; 2],
    pixels: &'a [[u8; 4]],
    coverage: Cow<'a, [u8]>,
    /// Whether each tile has to be computed, row after row.
    needed: Vec<bool>,
}

/// Colours of a level: three planes of the foreground, three of the background. Undefined outside of the needed tiles.
struct Colours {
    size: [usize; 2],
    planes: [Vec<u8>; 6],
}

/// Writes unmixed colours into the frame where coverage is partial, zero where there is none. Returns the matte with
/// coverage in linear light, now that the colours on both sides of the edge are known.
///
/// # Panics
/// When frame and matte differ in size.
pub fn estimate(frame: &mut Frame, matte: &AlphaMatte) -> AlphaMatte {
    let width = matte.size().width as usize;
    let unmixed = unmix(frame, &Pyramid::of(frame), matte);
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
pub(super) struct Unmixed {
    /// Where in its strip.
    pub(super) at: u32,
    /// The subject's colour.
    pub(super) subject: [u8; 3],
    /// Its coverage, in linear light.
    pub(super) coverage: u8,
}

/// For each strip of [`TILE`] rows its partly covered pixels. `pyramid` is that of `frame`.
///
/// # Panics
/// When frame and matte differ in size.
pub(super) fn unmix(frame: &Frame, pyramid: &Pyramid, matte: &AlphaMatte) -> Vec<Vec<Unmixed>> {
    assert_eq!(frame.size(), matte.size(), "the matte is of another picture");
    let levels = levels(frame, pyramid, matte);
    let mut coarser: Option<Colours> = None;
    for level in levels[1..].iter().rev() {
        coarser = Some(level.colours(coarser.as_ref()));
    }
    let level = &levels[0];
    let width = level.size[0];
    (0..level.size[1].div_ceil(TILE))
        .into_par_iter()
        .map_init(Tile::default, |tile, strip| {
            let mut unmixed = Vec::new();
            level.relax_strip(strip, coarser.as_ref(), tile, |tile, across, down, [left, top]| {
                for y in down {
                    let coverage = &level.coverage[y * width..][across.clone()];
                    for (x, &coverage) in across.clone().zip(coverage).filter(|&(_, &value)| is_partial(&[value])) {
                        let (foreground, background) = tile.colours((x - left, y - top));
                        let pair =
                            [foreground, background].map(|colour| colour.map(|value| (value * 255.0 + 0.5) as u8));
                        let at = (y % TILE * width + x) as u32;
                        let coverage = linear_alpha::coverage(coverage, pair);
                        unmixed.push(Unmixed { at, subject: pair[0], coverage });
                    }
                }
            });
            unmixed
        })
        .collect()
}

fn levels<'a>(frame: &'a Frame, pyramid: &'a Pyramid, matte: &'a AlphaMatte) -> Vec<Level<'a>> {
    let size = [matte.size().width as usize, matte.size().height as usize];
    let (pixels, coverage) = (frame.pixels().as_chunks::<4>().0, matte.coverage());
    let needed = tiles_of_band(coverage, size);
    let mut levels = vec![Level { size, pixels, coverage: Cow::Borrowed(coverage), needed }];
    for coarser in &pyramid.levels {
        let level = levels.last().expect("the picture itself");
        let coverage = pyramid::halved(&level.coverage, level.size, pyramid::mean_coverage);
        let needed = level.tiles_beneath(coarser.size);
        levels.push(Level { size: coarser.size, pixels: &coarser.pixels, coverage: Cow::Owned(coverage), needed });
    }
    levels
}

fn tiles_of_band(coverage: &[u8], [width, height]: [usize; 2]) -> Vec<bool> {
    let columns = width.div_ceil(TILE);
    let mut needed = vec![false; columns * height.div_ceil(TILE)];
    needed.par_chunks_mut(columns).zip(coverage.par_chunks(TILE * width)).for_each(|(needed, rows)| {
        for row in rows.chunks_exact(width) {
            for (needed, part) in needed.iter_mut().zip(row.chunks(TILE)) {
                *needed |= is_partial(part);
            }
        }
    });
    needed
}

impl Level<'_> {
    const fn steps(&self) -> usize {
        if self.size[0] <= SMALL && self.size[1] <= SMALL { STEPS_SMALL } else { STEPS }
    }

    const fn columns(&self) -> usize {
        self.size[0].div_ceil(TILE)
    }

    /// The part of the level that a tile's pixels depend on: each step reaches one pixel further. It begins at an even pixel:
    /// tiles and steps are even.
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

    /// The colours of the level, from where the coarser one ended.
    fn colours(&self, coarser: Option<&Colours>) -> Colours {
        let width = self.size[0];
        let mut planes: [Vec<u8>; 6] = std::array::from_fn(|_| vec![0; self.pixels.len()]);
        let [a, b, c, d, e, f] = planes.each_mut().map(|plane| plane.par_chunks_mut(TILE * width));
        (a, b, c, d, e, f).into_par_iter().enumerate().for_each_init(Tile::default, |tile, (strip, planes)| {
            let mut planes: [&mut [u8]; 6] = planes.into();
            self.relax_strip(strip, coarser, tile, |tile, across, down, [left, top]| {
                for (plane, bytes) in planes.iter_mut().enumerate() {
                    for y in down.clone() {
                        let row = &mut bytes[y % TILE * width..][across.clone()];
                        tile.store_row(plane, y - top, across.start - left, row);
                    }
                }
            });
        });
        Colours { size: self.size, planes }
    }

    /// Estimates the needed tiles of one strip; `write(tile, columns, rows, origin)` for each of them.
    fn relax_strip(
        &self,
        strip: usize,
        coarser: Option<&Colours>,
        tile: &mut Tile,
        mut write: impl FnMut(&Tile, Range<usize>, Range<usize>, [usize; 2]),
    ) {
        let [width, height] = self.size;
        for column in (0..self.columns()).filter(|&column| self.needed[strip * self.columns() + column]) {
            let [across, down] = self.reach(column, strip);
            tile.resize(across.len(), down.len());
            for (row, y) in down.clone().enumerate() {
                let pixels = y * width + across.start..y * width + across.end;
                tile.set_row(row, &self.coverage[pixels.clone()], &self.pixels[pixels]);
                match coarser {
                    Some(coarser) => coarser.start(tile, row, across.start, y),
                    None => tile.start_from_picture(row),
                }
            }
            tile.relax(self.steps());
            let own = |at: usize, len: usize| at * TILE..((at + 1) * TILE).min(len);
            write(tile, own(column, width), own(strip, height), [across.start, down.start]);
        }
    }
}

impl Colours {
    /// Starts row `row` of a tile, which is row `y` of the finer level from column `x` on.
    fn start(&self, tile: &mut Tile, row: usize, x: usize, y: usize) {
        let [width, height] = self.size;
        let near = y / 2;
        let far = if y.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(height - 1) };
        for (index, plane) in self.planes.iter().enumerate() {
            tile.start_row(index, row, x, &plane[near * width..][..width], &plane[far * width..][..width]);
        }
    }
}
