//! Estimates foreground colours where the subject covers a pixel only partly.
//!
//! A pixel of hair before a red wall is part red, and would glow on a new background. So inside the band the colour is
//! unmixed by multilevel foreground estimation (Germer et al. 2020, [`backdrop_kernels::foreground`]): from a picture
//! of one pixel up to full size, each level initialised by the coarser one. Only tiles that the band needs are computed
//! and stored. Pixels of full coverage keep the source's colour, bit for bit; pixels of zero coverage become zero.

use super::edge::is_partial;
use super::pyramid::{self, LevelPixels, Pyramid};
use crate::image::{AlphaMatte, Buffer, Frame};
use backdrop_kernels::foreground::cpu::Tile;
use backdrop_kernels::foreground::steps;
use backdrop_kernels::linear_alpha::cpu as linear_alpha;
use backdrop_kernels::recycled::Recycled;
use rayon::prelude::*;
use std::ops::Range;

/// Side of a tile in pixels.
pub(super) const TILE: usize = 32;
const AREA: usize = TILE * TILE;
/// Planes of a tile: three of the foreground's colour, three of the background's.
const PLANES: usize = 6;

/// Writes unmixed colours into the frame where coverage is partial, and zero where it is 0. Returns the matte with
/// coverage in linear light, which requires the colours on both sides of the edge.
///
/// # Panics
/// When frame and matte differ in size.
pub fn estimate(frame: &mut Frame, matte: &AlphaMatte) -> AlphaMatte {
    let width = matte.size().width as usize;
    let unmixed = unmix(frame, Pyramid::of(frame), matte);
    let mut lit = matte.clone();
    let (pixels, _) = frame.pixels_mut().as_chunks_mut::<4>();
    let strips = pixels.par_chunks_mut(TILE * width).zip(lit.coverage_mut().par_chunks_mut(TILE * width));
    strips.enumerate().for_each(|(strip, (pixels, coverage))| {
        for (pixel, coverage) in pixels.iter_mut().zip(coverage.iter()) {
            if *coverage == 0 {
                *pixel = [0, 0, 0, pixel[3]];
            }
        }
        unmixed.each(strip, |at, [red, green, blue, in_light]| {
            pixels[at] = [red, green, blue, pixels[at][3]];
            coverage[at] = in_light;
        });
    });
    lit
}

/// Colour of the subject and coverage in linear light of the partly covered pixels.
pub(super) struct Unmixed {
    width: usize,
    tiles: Tiles,
    /// The pixels of each needed tile; fully covered and uncovered ones are zero.
    pixels: Buffer,
}

impl Unmixed {
    /// Calls `write` with index, colour and coverage of each partly covered pixel of a strip of [`TILE`] rows.
    pub(super) fn each(&self, strip: usize, mut write: impl FnMut(usize, [u8; 4])) {
        let (tiles, _) = self.pixels.as_chunks::<{ 4 * AREA }>();
        for column in 0..self.tiles.columns {
            let Some(tile) = self.tiles.index(column, strip) else { continue };
            for (row, pixels) in tiles[tile].as_chunks::<4>().0.chunks_exact(TILE).enumerate() {
                let start = row * self.width + column * TILE;
                for (at, &pixel) in (start..).zip(pixels).filter(|(_, pixel)| pixel[3] > 0) {
                    write(at, pixel);
                }
            }
        }
    }
}

/// Unmixes the partly covered pixels of `frame`. `pyramid`: the frame's.
///
/// # Panics
/// When frame and matte differ in size.
pub(super) fn unmix(frame: &Frame, mut pyramid: Pyramid, matte: &AlphaMatte) -> Unmixed {
    assert_eq!(frame.size(), matte.size(), "the matte is of another picture");
    let size = [matte.size().width as usize, matte.size().height as usize];
    let picture =
        ColourLevel { size, pixels: LevelPixels::Stored(frame.pixels().as_chunks().0), coverage: matte.coverage() };
    let (mut needed, mut coverages) = (vec![picture.tiles_of_band()], Vec::<Buffer>::new());
    let mut finer = size;
    for coarser in &pyramid.levels {
        let mut coverage = frame.buffer(coarser.size[0] * coarser.size[1]);
        let of_finer = coverages.last().map_or(picture.coverage, |coverage| coverage);
        pyramid::halve(of_finer, finer, pyramid::mean_coverage, &mut coverage);
        needed.push(needed[needed.len() - 1].beneath(finer, coarser.size));
        coverages.push(coverage);
        finer = coarser.size;
    }
    // A level's memory is freed when the next finer one is computed.
    let mut coarser: Option<Colours> = None;
    while let (Some(level), Some(coverage)) = (pyramid.levels.pop(), coverages.pop()) {
        let level = ColourLevel { size: level.size, pixels: level.pixels(frame), coverage: &coverage };
        let tiles = needed.pop().expect("tiles of each level");
        let planes = frame.buffer(tiles.places.len() * PLANES * AREA);
        coarser = Some(level.colours(tiles, planes, coarser.as_ref()));
    }
    let tiles = needed.pop().expect("tiles of the picture itself");
    let mut pixels = frame.buffer(tiles.places.len() * 4 * AREA);
    let each = pixels.as_chunks_mut::<{ 4 * AREA }>().0.par_iter_mut().zip(&*tiles.places);
    each.for_each_init(Recycled::<Scratch>::take, |scratch, (pixels, &[column, strip])| {
        pixels.fill(0);
        let [left, top] = picture.relax([column, strip], coarser.as_ref(), scratch);
        let [across, down] = picture.own([column, strip]);
        for (row, y) in pixels.as_chunks_mut::<4>().0.chunks_exact_mut(TILE).zip(down) {
            let coverage = &picture.coverage[y * size[0]..][across.clone()];
            for ((pixel, x), &coverage) in row.iter_mut().zip(across.clone()).zip(coverage) {
                if is_partial(&[coverage]) {
                    let (foreground, background) = scratch.tile.colours((x - left, y - top));
                    let pair = [foreground, background].map(|colour| colour.map(|value| (value * 255.0 + 0.5) as u8));
                    let [red, green, blue] = pair[0];
                    *pixel = [red, green, blue, linear_alpha::coverage(coverage, pair)];
                }
            }
        }
    });
    Unmixed { width: size[0], tiles, pixels }
}

struct Tiles {
    /// Tiles in a row, needed or not.
    columns: usize,
    /// Number of each tile among the needed ones, row after row, or `NOT_NEEDED`.
    numbers: Recycled<Vec<u32>>,
    /// Column and strip of each needed tile.
    places: Recycled<Vec<[usize; 2]>>,
}

const NOT_NEEDED: u32 = u32::MAX;

impl Tiles {
    /// Numbers the tiles that are not marked `NOT_NEEDED`.
    fn new(columns: usize, mut numbers: Recycled<Vec<u32>>) -> Self {
        let mut places = Recycled::<Vec<_>>::take();
        places.clear();
        for (at, number) in numbers.iter_mut().enumerate().filter(|(_, number)| **number != NOT_NEEDED) {
            *number = places.len() as u32;
            places.push([at % columns, at / columns]);
        }
        Self { columns, numbers, places }
    }

    fn index(&self, column: usize, strip: usize) -> Option<usize> {
        let number = self.numbers[strip * self.columns + column];
        (number != NOT_NEEDED).then_some(number as usize)
    }

    /// The tiles that these tiles of a level of `size` start from, in the next coarser level of `coarser` pixels.
    fn beneath(&self, size: [usize; 2], coarser: [usize; 2]) -> Self {
        let columns = coarser[0].div_ceil(TILE);
        let mut beneath = Recycled::filled(columns * coarser[1].div_ceil(TILE), NOT_NEEDED);
        for &place in &*self.places {
            let [across, down] = reach(size, place);
            // Bilinear interpolation reads one more pixel on either side.
            let tiles = |range: Range<usize>, len: usize| {
                (range.start / 2).saturating_sub(1) / TILE..=(range.end / 2 + 1).min(len - 1) / TILE
            };
            for strip in tiles(down, coarser[1]) {
                for column in tiles(across.clone(), coarser[0]) {
                    beneath[strip * columns + column] = 0;
                }
            }
        }
        Self::new(columns, beneath)
    }
}

/// The part of a level of `size` on which a tile depends: each step reaches one pixel further. It begins at an even
/// pixel, because `TILE` and the numbers of steps are even.
fn reach(size: [usize; 2], [column, strip]: [usize; 2]) -> [Range<usize>; 2] {
    let steps = steps(size);
    let grown = |tile: usize, len: usize| (tile * TILE).saturating_sub(steps)..((tile + 1) * TILE + steps).min(len);
    [grown(column, size[0]), grown(strip, size[1])]
}

struct ColourLevel<'a> {
    size: [usize; 2],
    pixels: LevelPixels<'a>,
    coverage: &'a [u8],
}

/// Reused memory of one thread for a tile.
#[derive(Default)]
struct Scratch {
    tile: Tile,
    /// Parts of two rows of a plane.
    near: Vec<u8>,
    far: Vec<u8>,
    /// Pixels of a row of a level that is not stored.
    halved: Vec<[u8; 4]>,
}

impl ColourLevel<'_> {
    fn tiles_of_band(&self) -> Tiles {
        let [width, height] = self.size;
        let columns = width.div_ceil(TILE);
        let mut numbers = Recycled::filled(columns * height.div_ceil(TILE), NOT_NEEDED);
        numbers.par_chunks_mut(columns).zip(self.coverage.par_chunks(TILE * width)).for_each(|(numbers, rows)| {
            for row in rows.chunks_exact(width) {
                for (number, part) in numbers.iter_mut().zip(row.chunks(TILE)) {
                    if is_partial(part) {
                        *number = 0;
                    }
                }
            }
        });
        Tiles::new(columns, numbers)
    }

    fn own(&self, place: [usize; 2]) -> [Range<usize>; 2] {
        std::array::from_fn(|axis| place[axis] * TILE..((place[axis] + 1) * TILE).min(self.size[axis]))
    }

    /// Estimates the colours of the level's needed `tiles` into `planes`, starting from the coarser level's colours.
    fn colours(&self, tiles: Tiles, mut planes: Buffer, coarser: Option<&Colours>) -> Colours {
        let each = planes.par_chunks_exact_mut(PLANES * AREA).zip(&*tiles.places);
        each.for_each_init(Recycled::<Scratch>::take, |scratch, (planes, &place)| {
            let [left, top] = self.relax(place, coarser, scratch);
            let [across, down] = self.own(place);
            for (plane, bytes) in planes.chunks_exact_mut(AREA).enumerate() {
                for (row, y) in bytes.chunks_exact_mut(TILE).zip(down.clone()) {
                    scratch.tile.store_row(plane, y - top, across.start - left, &mut row[..across.len()]);
                }
            }
        });
        Colours { size: self.size, tiles, planes }
    }

    /// Estimates one tile in `scratch.tile`. Returns the tile's origin.
    fn relax(&self, place: [usize; 2], coarser: Option<&Colours>, scratch: &mut Scratch) -> [usize; 2] {
        let width = self.size[0];
        let [across, down] = reach(self.size, place);
        scratch.tile.resize(across.len(), down.len());
        for (row, y) in down.clone().enumerate() {
            let pixels = self.pixels.row(width, y, across.clone(), &mut scratch.halved);
            scratch.tile.set_row(row, &self.coverage[y * width..][across.clone()], pixels);
            match coarser {
                Some(coarser) => coarser.start(scratch, row, across.clone(), y),
                None => scratch.tile.start_from_picture(row),
            }
        }
        scratch.tile.relax(steps(self.size));
        [across.start, down.start]
    }
}

struct Colours {
    size: [usize; 2],
    tiles: Tiles,
    planes: Buffer,
}

impl Colours {
    /// Initialises row `row` of a tile, which is row `y` of the finer level at the columns `across`.
    fn start(&self, scratch: &mut Scratch, row: usize, across: Range<usize>, y: usize) {
        let [width, height] = self.size;
        let near = y / 2;
        let far = if y.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(height - 1) };
        let first = (across.start / 2).saturating_sub(1);
        let columns = first..(across.end.div_ceil(2) + 1).min(width);
        let Scratch { tile, near: near_row, far: far_row, .. } = scratch;
        for plane in 0..PLANES {
            self.read(plane, near, columns.clone(), near_row);
            self.read(plane, far, columns.clone(), far_row);
            tile.start_row(plane, row, across.start - 2 * first, near_row, far_row);
        }
    }

    /// Reads a part of row `y` of a plane, which may span tiles.
    fn read(&self, plane: usize, y: usize, columns: Range<usize>, row: &mut Vec<u8>) {
        row.clear();
        let mut x = columns.start;
        while x < columns.end {
            let end = ((x / TILE + 1) * TILE).min(columns.end);
            let tile = self.tiles.index(x / TILE, y / TILE).expect("a tile that the finer level needs");
            let start = (tile * PLANES + plane) * AREA + y % TILE * TILE + x % TILE;
            row.extend_from_slice(&self.planes[start..start + end - x]);
            x = end;
        }
    }
}
