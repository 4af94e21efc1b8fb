//! Pictures made larger: bicubic, and what the network adds to it.
//!
//! A picture is cut into tiles, and of each tile the network sees as much around it as its result depends on, so that
//! there are no seams: the result is the same however the picture was cut. Outside the picture its border goes on, for
//! bicubic and for the network: zeros, which convolutions are padded with, would be an edge to it, and it would sharpen
//! that (by up to 10 levels of 255 at the border of a plain red picture). Beside the two pictures only the rows that are
//! being worked on are in memory.
//!
//! Transparent pictures: colours are enlarged as if nothing were transparent ([`Solid`]), and alpha as a grey picture of
//! its own, all in encoded values, as the network was trained. Colours that are multiplied by alpha, as one resamples
//! them with a filter, do not do for a network that sharpens: it sharpens the edge to black too, and otherwise than that
//! of alpha, because nothing is lighter than white; their quotient had a bright ring around every soft edge. What is opaque or
//! clear everywhere is never looked at for alpha.
//!
//! Where colour or alpha is the same all around a pixel, it is exactly that after enlarging: what is trained is only
//! nearly so exact, and a plain white ground has to stay white.

mod bicubic;
mod cpu;
mod solid;

use backdrop_kernels::conv::Tile;
use rayon::prelude::*;

use self::bicubic::{Phase, REACH, ROWS, blend, phases};
use self::solid::{Solid, TRUST};
use super::weights::architecture::upscale::PAIRS;
use super::{Factor, SegmentError};
use crate::image::{Buffer, Frame, Size};

pub(super) use cpu::UpscaleNet;

/// Pixels on every side of a pixel that its enlargement depends on: one for each convolution.
const SIGHT: usize = 2 * PAIRS + 2;

/// A network that tells what bicubic enlargement lacks.
pub(super) trait Detail: Sync {
    /// How much larger it makes a picture.
    fn factor(&self) -> Factor;

    /// Columns and rows of the tiles that it takes a picture of so many columns and rows in.
    fn tile(&self, picture: [usize; 2]) -> [usize; 2];

    /// Computes one tile of a picture. `source` fills what the tile sees. `sink(y, pixels)` is given the tile's rows, from
    /// the top: for each pixel what has to be added to the pixels it becomes, in the order of
    /// [`tail_channels`](super::weights::architecture::upscale::tail_channels).
    fn rows(&self, tile: Tile, source: &Source<'_>, sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), SegmentError>;
}

/// `source(y, x, pixels)` fills `pixels` (red, green, blue) from column `x` of row `y` on. Both may lie outside the
/// picture, whose border goes on there.
pub(super) type Source<'a> = dyn Fn(isize, isize, &mut [f32]) + 'a;

/// `frame`, enlarged.
pub(super) fn enlarged(frame: &Frame, detail: &dyn Detail) -> Result<Frame, SegmentError> {
    let Size { width, height } = frame.size();
    if frame.size().area() == 0 {
        return Err(SegmentError::Device("a frame without pixels".to_owned()));
    }
    let factor = detail.factor().get();
    let (Some(wide), Some(high)) = (width.checked_mul(factor), height.checked_mul(factor)) else {
        return Err(SegmentError::Device(format!("{} cannot be enlarged {factor} times", frame.size())));
    };
    let size = Size::new(wide, high);
    let mut pixels = vec![0; size.area() * 4];
    let picture = Picture::new(frame);
    let phases = phases(detail.factor());
    cut(&mut pixels, picture.extent, detail.tile(picture.extent), phases.len())
        .into_par_iter()
        .try_for_each(|(tile, rows)| Enlarging { picture: &picture, phases: &phases, tile, rows }.run(detail))?;
    Ok(Frame::new(size, Buffer::from(pixels)))
}

/// The tiles of a picture, each with its rows of the enlarged one.
fn cut(
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

/// The picture to enlarge.
struct Picture<'a> {
    /// Columns and rows.
    extent: [usize; 2],
    pixels: &'a [[u8; 4]],
    opaque: bool,
}

impl<'a> Picture<'a> {
    fn new(frame: &'a Frame) -> Self {
        let Size { width, height } = frame.size();
        let pixels = frame.pixels().as_chunks::<4>().0;
        Self { extent: [width as usize, height as usize], pixels, opaque: !frame.has_transparency() }
    }

    fn row(&self, y: usize) -> &[[u8; 4]] {
        &self.pixels[y * self.extent[0]..][..self.extent[0]]
    }

    /// The pixels of row `y` from column `x` on, without end; outside the picture its border goes on.
    fn pixels_from(&self, y: isize, x: isize) -> impl Iterator<Item = [u8; 4]> {
        let inside = |at: isize, extent: usize| at.clamp(0, extent as isize - 1) as usize;
        let row = self.row(inside(y, self.extent[1]));
        (x..).map(move |x| row[inside(x, row.len())])
    }

    /// Alpha as grey.
    fn alphas(&self, y: isize, x: isize, to: &mut [f32]) {
        for (to, [.., alpha]) in to.as_chunks_mut::<3>().0.iter_mut().zip(self.pixels_from(y, x)) {
            *to = [f32::from(alpha) / 255.0; 3];
        }
    }

    /// The one alpha that all pixels have which the enlargement of a tile depends on.
    fn only_alpha(&self, tile: Tile) -> Option<u8> {
        if self.opaque {
            return Some(255);
        }
        let [width, height] = self.extent;
        let reach = SIGHT + TRUST;
        let columns = tile.left.saturating_sub(reach)..(tile.left + tile.width + reach).min(width);
        let mut rows = tile.top.saturating_sub(reach)..(tile.top + tile.height + reach).min(height);
        let alpha = self.row(tile.top)[tile.left][3];
        rows.all(|y| self.row(y)[columns.clone()].iter().all(|pixel| pixel[3] == alpha)).then_some(alpha)
    }
}

/// The colours of row `y` from column `x` on, without end, in 0..=1: those of `solid`, or the picture's own.
fn colours<'a>(
    picture: &'a Picture<'_>,
    solid: Option<&'a Solid>,
    y: isize,
    x: isize,
) -> impl Iterator<Item = [f32; 3]> {
    picture.pixels_from(y, x).zip(x..).map(move |([red, green, blue, _], x)| {
        solid.map_or_else(|| [red, green, blue].map(|value| f32::from(value) / 255.0), |solid| solid.colour(y, x))
    })
}

/// One tile at work.
struct Enlarging<'a> {
    picture: &'a Picture<'a>,
    phases: &'a [Phase],
    tile: Tile,
    /// The tile's rows of the result.
    rows: Vec<&'a mut [u8]>,
}

impl Enlarging<'_> {
    fn run(mut self, detail: &dyn Detail) -> Result<(), SegmentError> {
        let (picture, tile) = (self.picture, self.tile);
        let alpha = picture.only_alpha(tile);
        let solid = if alpha.is_some() { None } else { Some(Solid::new(picture, tile)) };
        let mut window = Window::new(picture, solid.as_ref(), tile);
        match alpha {
            Some(0) => return Ok(()),
            Some(alpha) => {
                for row in &mut self.rows {
                    row.as_chunks_mut::<4>().0.iter_mut().for_each(|pixel| pixel[3] = alpha);
                }
            }
            None => {
                let source = |y: isize, x: isize, to: &mut [f32]| picture.alphas(y, x, to);
                detail.rows(tile, &source, &mut |y, tail| {
                    window.move_to(y);
                    self.write_alpha(y, &window, tail);
                })?;
            }
        }
        let source = |y: isize, x: isize, to: &mut [f32]| {
            for (to, colour) in to.as_chunks_mut::<3>().0.iter_mut().zip(colours(picture, solid.as_ref(), y, x)) {
                *to = colour;
            }
        };
        detail.rows(tile, &source, &mut |y, tail| {
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
        let only = window.only(|[.., alpha]| alpha);
        for (dy, phase, row) in self.results(y) {
            let blended = window.blended(phase);
            let sources = row.chunks_exact_mut(factor).zip(tail.chunks_exact(3 * factor * factor)).enumerate();
            for (x, (pixels, tail)) in sources {
                for (dx, (pixel, phase)) in pixels.iter_mut().zip(phases).enumerate() {
                    let found = || {
                        let [.., alpha] = blend(four(&blended[x + phase.first..]), phase.weights);
                        let added: f32 = tail[dy * factor + dx..].iter().step_by(factor * factor).sum();
                        alpha + added / 3.0
                    };
                    pixel[3] = byte(only[x].unwrap_or_else(found));
                }
            }
        }
    }

    fn write_colours(&mut self, y: usize, window: &Window<'_>, tail: &[f32]) {
        let (phases, factor) = (self.phases, self.phases.len());
        let only = window.only(|[red, green, blue, _]| [red, green, blue]);
        for (dy, phase, row) in self.results(y) {
            let blended = window.blended(phase);
            let sources = row.chunks_exact_mut(factor).zip(tail.chunks_exact(3 * factor * factor)).enumerate();
            for (x, (pixels, tail)) in sources {
                for (dx, (pixel, phase)) in pixels.iter_mut().zip(phases).enumerate() {
                    if pixel[3] == 0 {
                        continue;
                    }
                    if let Some(colour) = only[x] {
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

/// A value in 0..=1, or held inside, in 255ths.
fn byte(value: f32) -> u8 {
    // The conversion stops at 0 and 255.
    (value * 255.0 + 0.5) as u8
}

fn four(pixels: &[[f32; 4]]) -> [[f32; 4]; 4] {
    *pixels.first_chunk().expect("a window is two pixels wider than its tile on both sides")
}

/// The pixels around a row of a tile, [`REACH`] on every side; beyond the border its pixels go on.
struct Window<'a> {
    picture: &'a Picture<'a>,
    solid: Option<&'a Solid>,
    tile: Tile,
    /// Colours and alpha. Row `y` of the picture, moved inside it, is at `(y + REACH) % ROWS`.
    rows: [Vec<[f32; 4]>; ROWS],
    /// The row in the middle.
    at: Option<usize>,
}

impl<'a> Window<'a> {
    fn new(picture: &'a Picture<'a>, solid: Option<&'a Solid>, tile: Tile) -> Self {
        let row = || vec![[0.0; 4]; tile.width + 2 * REACH];
        Self { picture, solid, tile, rows: std::array::from_fn(|_| row()), at: None }
    }

    /// Puts row `y` in the middle.
    fn move_to(&mut self, y: usize) {
        // Counted from `REACH` rows above the picture. One step down needs one new row.
        let needed = if y > 0 && self.at == Some(y - 1) { y + ROWS - 1..y + ROWS } else { y..y + ROWS };
        let outside = |at: usize| at as isize - REACH as isize;
        for above in needed {
            let (y, x) = (outside(above), outside(self.tile.left));
            let source = colours(self.picture, self.solid, y, x).zip(self.picture.pixels_from(y, x));
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

    /// For each pixel of the tile's row what all pixels around it have of this, if it is the same.
    fn only<P: Copy + PartialEq>(&self, part: impl Fn([f32; 4]) -> P) -> Vec<Option<P>> {
        let rows: [&[[f32; 4]]; ROWS] = std::array::from_fn(|offset| self.row(offset));
        let column = |x: usize| {
            let first = part(rows[0][x]);
            rows.iter().all(|row| part(row[x]) == first).then_some(first)
        };
        let columns: Vec<Option<P>> = (0..self.tile.width + 2 * REACH).map(column).collect();
        let around = columns.windows(ROWS);
        around.map(|columns| columns[0].filter(|_| columns.iter().all(|one| *one == columns[0]))).collect()
    }
}

#[cfg(test)]
mod tests;
