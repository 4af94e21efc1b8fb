//! What lies behind the subject.
//!
//! A picture is resampled to the canvas a few rows at a time, so that it is never there in full. The source's own
//! background, blurred, is made from a [`Plate`]: the source reduced until its blur is two cells wide, in which what the
//! subject touched is filled from around it *before* the blur (pull-push), so that nothing of it bleeds out. Where the
//! canvas reaches beyond the source, the background is mirrored.

use super::resample::{Part, Strips, unpremultiply_row};
use super::{Background, Fit, Layout, Scene};
use crate::image::color::{Color, encoded8_of_linear16, linear16_of_encoded8};
use crate::image::{Frame, Rect, Size};
use backdrop_kernels::dst_over::cpu::{self as dst_over, Row, Under};
use backdrop_kernels::gaussian::{self, Border};
use backdrop_kernels::pull_push;
use rayon::prelude::*;

/// Rows that are worked on together.
pub(super) const BAND: u32 = 64;
/// The blur of full intensity, as a share of the source's longer side.
const WIDEST: f32 = 0.05;
/// Cells of the largest plate. The narrowest blur of the largest picture is 4 pixels wide; here it is still more than
/// one cell.
const MOST_CELLS: usize = 2 << 20;
/// The blur on the canvas, at least, in its pixels: a plate that is shrunk must not flicker.
const LEAST_BLUR: f32 = 0.5;

/// A reduced copy of a source, taken before its background is lost.
#[derive(Debug)]
pub struct Plate {
    source: Size,
    /// Pixels of the source on a side of a cell.
    cell: u32,
    size: Size,
    /// Means, in premultiplied linear light.
    cells: Vec<[u16; 4]>,
    /// Of the blur, in pixels of the source.
    sigma: f32,
}

impl Scene {
    /// What of `frame` has to be kept for the background, taken before it is cut out.
    #[must_use]
    pub fn plate(&self, frame: &Frame) -> Option<Plate> {
        match self.background {
            Background::Blurred { intensity, .. } => Some(Plate::of(frame, intensity)),
            Background::Clear | Background::Color(_) | Background::Picture { .. } | Background::EdgeColor => None,
        }
    }
}

impl Plate {
    /// What a plate and the work on it take, in pixels of four bytes.
    pub(super) fn most_pixels(source: Size, intensity: u8) -> usize {
        // Two for the plate, four for the same in f32, a third of those for its pyramid, and the mask.
        Self::grid(source, Self::cell(source, Self::sigma(source, intensity))).area() * 8
    }

    fn sigma(source: Size, intensity: u8) -> f32 {
        f32::from(intensity) / 100.0 * WIDEST * source.longest() as f32
    }

    fn cell(source: Size, sigma: f32) -> u32 {
        let mut cell = ((sigma / 2.0) as u32).max(1);
        while Self::grid(source, cell).area() > MOST_CELLS {
            cell += 1;
        }
        cell
    }

    const fn grid(source: Size, cell: u32) -> Size {
        Size::new(source.width.div_ceil(cell), source.height.div_ceil(cell))
    }

    fn of(frame: &Frame, intensity: u8) -> Self {
        let source = frame.size();
        let sigma = Self::sigma(source, intensity);
        let cell = Self::cell(source, sigma);
        let size = Self::grid(source, cell);
        let linear = linear16_of_encoded8();
        let mut cells = vec![[0; 4]; size.area()];
        let row = source.width as usize * 4;
        let bands = frame.pixels().par_chunks(row * cell as usize);
        cells.par_chunks_mut(size.width as usize).zip(bands).for_each(|(cells, band)| {
            let mut sums = vec![[0_u64; 4]; cells.len()];
            for pixels in band.chunks_exact(row) {
                for (sums, pixels) in sums.iter_mut().zip(pixels.as_chunks::<4>().0.chunks(cell as usize)) {
                    for &[red, green, blue, alpha] in pixels {
                        let light = |encoded: u8| u64::from(linear[usize::from(encoded)]) * u64::from(alpha);
                        for (sum, light) in sums.iter_mut().zip([light(red), light(green), light(blue)]) {
                            *sum += light;
                        }
                        sums[3] += 65535 * u64::from(alpha);
                    }
                }
            }
            let rows = (band.len() / row) as u64;
            for ((mean, sums), first) in cells.iter_mut().zip(sums).zip((0..source.width).step_by(cell as usize)) {
                let pixels = 255 * rows * u64::from(cell.min(source.width - first));
                *mean = sums.map(|sum| ((sum + pixels / 2) / pixels) as u16);
            }
        });
        Self { source, cell, size, cells, sigma }
    }

    /// The background as if what `cutout` covers were not there, blurred. Nothing when that is all there is.
    fn without(self, cutout: &Frame, layout: &Layout) -> Option<Blurred> {
        let Self { source, cell, size, cells, sigma } = self;
        if cutout.size() != source {
            return None; // No caller does that, and there is no telling where the subject would be.
        }
        let touched = touched(cutout, cell, size);
        let width = size.width as usize;
        let mut samples = vec![[0.0; 4]; cells.len()];
        samples.par_chunks_mut(width).zip(cells.par_chunks(width)).enumerate().for_each(|(y, (samples, cells))| {
            // One more cell on each side: a lens spreads a little of the subject's light beyond its edge.
            let rows = y.saturating_sub(1)..(y + 2).min(size.height as usize);
            for (x, (sample, &mean)) in samples.iter_mut().zip(cells).enumerate() {
                let columns = x.saturating_sub(1)..(x + 2).min(width);
                let near = rows.clone().any(|row| touched[row * width..][columns.clone()].contains(&true));
                if !near {
                    *sample = mean.map(|value| f32::from(value) / 65535.0);
                }
            }
        });
        drop((touched, cells));
        if !pull_push::cpu::fill(&mut samples, width) {
            return None;
        }
        let shrunk = layout.from.width as f32 / layout.place.width as f32;
        let sigma = sigma.max(LEAST_BLUR * shrunk);
        // What averaging and sampling add, as for a shadow.
        let squared = (cell * cell) as f32;
        let reduced = (sigma * sigma - (squared - 1.0) / 4.0).max(0.0).sqrt() / cell as f32;
        gaussian::cpu::blur(&mut samples, width, reduced, Border::Clamp);
        let Layout { canvas, from, place, .. } = *layout;
        let cell = cell as f32;
        let columns = (0..canvas.width)
            .map(|x| Between::new(x, (place.left, place.width), (from.left, from.width), source.width, cell))
            .collect();
        let rows = (0..canvas.height)
            .map(|y| Between::new(y, (place.top, place.height), (from.top, from.height), source.height, cell))
            .collect();
        Some(Blurred { samples, width, columns, rows })
    }
}

/// Whether anything of each cell is covered.
fn touched(cutout: &Frame, cell: u32, size: Size) -> Vec<bool> {
    let row = cutout.size().width as usize * 4;
    let mut touched = vec![false; size.area()];
    let bands = cutout.pixels().par_chunks(row * cell as usize);
    touched.par_chunks_mut(size.width as usize).zip(bands).for_each(|(touched, band)| {
        for pixels in band.chunks_exact(row) {
            for (touched, pixels) in touched.iter_mut().zip(pixels.as_chunks::<4>().0.chunks(cell as usize)) {
                *touched |= pixels.iter().any(|pixel| pixel[3] > 0);
            }
        }
    });
    touched
}

/// The two cells that a pixel of the canvas lies between.
#[derive(Clone, Copy)]
struct Between {
    first: u32,
    second: u32,
    /// How near it is to the second, 0 to 1.
    share: f32,
}

impl Between {
    /// For the middle of a pixel, where `place` of the canvas shows `from` of the source (start and length each), which
    /// is `side` pixels long.
    ///
    /// Beyond the source's edge it is mirrored there: its own last pixels, drawn out, would be streaks.
    fn new(pixel: u32, place: (u32, u32), from: (u32, u32), side: u32, cell: f32) -> Self {
        let shown = (pixel as f32 + 0.5 - place.0 as f32) / place.1 as f32 * from.1 as f32 + from.0 as f32;
        let side = side as f32;
        let folded = shown.rem_euclid(2.0 * side);
        let mirrored = folded.min(2.0 * side - folded);
        let cells = (side / cell).ceil() as u32;
        let at = (mirrored / cell - 0.5).clamp(0.0, (cells - 1) as f32);
        let first = at as u32;
        Self { first, second: (first + 1).min(cells - 1), share: at - first as f32 }
    }
}

/// A blurred plate, and what of it lies behind each pixel of the canvas.
pub(super) struct Blurred {
    /// Linear light.
    samples: Vec<[f32; 4]>,
    width: usize,
    columns: Vec<Between>,
    rows: Vec<Between>,
}

impl Blurred {
    /// The background of a row of the canvas, where `canvas` lets it through. `line` is scratch.
    fn row(&self, y: u32, canvas: &[u8], line: &mut Vec<[f32; 3]>, to: &mut [u8]) {
        let row = self.rows[y as usize];
        let [above, below] =
            [row.first, row.second].map(|row| &self.samples[row as usize * self.width..][..self.width]);
        line.clear();
        // In the steps of the table, so that nothing but rounding is left for each pixel.
        let scaled = |value: f32| value * 65535.0;
        line.extend(above.iter().zip(below).map(|(a, b)| mixed(first_three(a), first_three(b), row.share).map(scaled)));
        let encoded = encoded8_of_linear16();
        let pixels = to.as_chunks_mut::<4>().0.iter_mut().zip(canvas.as_chunks::<4>().0);
        for ((to, subject), column) in pixels.zip(&self.columns) {
            if subject[3] == 255 {
                continue;
            }
            let light = mixed(line[column.first as usize], line[column.second as usize], column.share);
            let [red, green, blue] = light.map(|light| encoded[usize::from((light + 0.5) as u16)]);
            *to = [red, green, blue, 255];
        }
    }
}

fn first_three(&[red, green, blue, _]: &[f32; 4]) -> [f32; 3] {
    [red, green, blue]
}

fn mixed(first: [f32; 3], second: [f32; 3], share: f32) -> [f32; 3] {
    std::array::from_fn(|channel| first[channel] + share * (second[channel] - first[channel]))
}

/// A picture that fills the canvas.
pub(super) struct Fitted<'a> {
    picture: &'a Frame,
    part: Part,
    place: Rect,
    behind: Color,
    strips: Strips<'a>,
    band: Vec<u8>,
}

impl<'a> Fitted<'a> {
    fn new(picture: &'a Frame, fit: Fit, behind: Color, canvas: Size) -> Self {
        let size = picture.size();
        let (part, place) = fitted(size, fit, canvas);
        let strips = Strips::new(picture.pixels(), size, part, place.size());
        Self { picture, part, place, behind, strips, band: Vec::new() }
    }

    /// `rows` rows of a canvas that is `width` wide, packed RGBA8.
    fn rows(&mut self, first: u32, rows: u32, width: usize) -> &[u8] {
        let Self { place, part, behind: Color(behind), .. } = *self;
        self.band.clear();
        self.band.resize(rows as usize * width * 4, 0);
        let (top, bottom) = (first.max(place.top), (first + rows).min(place.top + place.height));
        if top < bottom {
            let band = self.band[(top - first) as usize * width * 4..].par_chunks_mut(width * 4);
            let columns = place.left as usize * 4..(place.left + place.width) as usize * 4;
            // A picture of the very size is not blurred by a filter.
            if part.width == f64::from(place.width) && part.height == f64::from(place.height) {
                let row = self.picture.size().width as usize * 4;
                let source = &self.picture.pixels()[(part.top as usize + (top - place.top) as usize) * row..];
                let start = part.left as usize * 4;
                band.zip(source.par_chunks(row))
                    .take((bottom - top) as usize)
                    .for_each(|(to, from)| to[columns.clone()].copy_from_slice(&from[start..start + columns.len()]));
            } else {
                let resampled = self.strips.rows(top - place.top, bottom - top).par_chunks(place.width as usize);
                band.zip(resampled).for_each(|(to, from)| unpremultiply_row(from, &mut to[columns.clone()]));
            }
        }
        let layers = Row { background: Under::Color(behind), ..Row::default() };
        self.band.par_chunks_mut(width * 4).for_each(|row| dst_over::row(row, &layers));
        &self.band
    }
}

/// The part of a picture that shows, and its place on the canvas.
fn fitted(picture: Size, fit: Fit, canvas: Size) -> (Part, Rect) {
    let whole = Part::from(Rect::whole(picture));
    match fit {
        Fit::Stretch => (whole, Rect::whole(canvas)),
        Fit::Contain => {
            let Size { width, height } = picture.fitted(canvas);
            let (left, top) = ((canvas.width - width) / 2, (canvas.height - height) / 2);
            (whole, Rect { left, top, width, height })
        }
        Fit::Cover => {
            let across = whole.width / f64::from(canvas.width);
            let down = whole.height / f64::from(canvas.height);
            let scale = across.min(down);
            // The side that decides is exactly the picture's own.
            let width = if across <= down { whole.width } else { scale * f64::from(canvas.width) };
            let height = if across <= down { scale * f64::from(canvas.height) } else { whole.height };
            let (mut left, mut top) = ((whole.width - width) / 2.0, (whole.height - height) / 2.0);
            if scale == 1.0 {
                // Nothing to resample: half a pixel less or more is not worth a blur.
                (left, top) = (left.floor(), top.floor());
            }
            (Part { left, top, width, height }, Rect::whole(canvas))
        }
    }
}

/// What lies at the bottom of a canvas.
pub(super) enum Bottom<'a> {
    Clear,
    Color(Color),
    Picture(Box<Fitted<'a>>),
    Blurred(Blurred),
}

impl<'a> Bottom<'a> {
    /// Behind `picture`, before it goes to its canvas.
    pub(super) fn new(
        background: Background,
        given: Option<&'a Frame>,
        plate: Option<Plate>,
        picture: &Frame,
        layout: &Layout,
    ) -> Self {
        match background {
            // Beyond its edge a picture is extended, not put on something.
            Background::Clear | Background::EdgeColor => Self::Clear,
            Background::Color(color) => Self::of(color),
            Background::Picture { fit, behind } => match given {
                Some(given) if given.size().area() > 0 => {
                    Self::Picture(Box::new(Fitted::new(given, fit, behind, layout.canvas)))
                }
                Some(_) | None => Self::of(behind),
            },
            Background::Blurred { behind, .. } => {
                plate.and_then(|plate| plate.without(picture, layout)).map_or_else(|| Self::of(behind), Self::Blurred)
            }
        }
    }

    fn of(color: Color) -> Self {
        if color.0[3] == 0 { Self::Clear } else { Self::Color(color) }
    }

    /// Whether there is nothing at all.
    pub(super) const fn is_clear(&self) -> bool {
        matches!(self, Self::Clear)
    }

    /// Rows that are best worked on together.
    pub(super) const fn band(&self, height: u32) -> u32 {
        match self {
            Self::Picture(_) => BAND,
            Self::Clear | Self::Color(_) | Self::Blurred(_) => height,
        }
    }

    /// `rows` rows of a canvas that is `width` wide.
    pub(super) fn rows(&mut self, first: u32, rows: u32, width: usize) -> BottomRows<'_> {
        match self {
            Self::Clear => BottomRows::Clear,
            Self::Color(color) => BottomRows::Color(*color),
            Self::Picture(fitted) => BottomRows::Pixels(fitted.rows(first, rows, width)),
            Self::Blurred(blurred) => BottomRows::Blurred(blurred),
        }
    }
}

/// Some rows of a [`Bottom`].
#[derive(Clone, Copy)]
pub(super) enum BottomRows<'a> {
    Clear,
    Color(Color),
    Pixels(&'a [u8]),
    Blurred(&'a Blurred),
}

/// Memory for the making of one row.
#[derive(Default)]
pub(super) struct Scratch {
    line: Vec<[f32; 3]>,
    pixels: Vec<u8>,
}

impl<'a> BottomRows<'a> {
    /// Row `y` of the canvas, the `index`th of these.
    pub(super) fn row<'r>(&self, index: usize, y: u32, canvas: &[u8], scratch: &'r mut Scratch) -> Under<'r>
    where
        'a: 'r,
    {
        match *self {
            Self::Clear => Under::Clear,
            Self::Color(Color(color)) => Under::Color(color),
            Self::Pixels(pixels) => Under::Pixels(&pixels[index * canvas.len()..][..canvas.len()]),
            Self::Blurred(blurred) => {
                scratch.pixels.resize(canvas.len(), 0);
                blurred.row(y, canvas, &mut scratch.line, &mut scratch.pixels);
                Under::Pixels(&scratch.pixels)
            }
        }
    }
}

/// Extends what lies in `place` of `canvas` to the borders of the canvas: each pixel beyond has the colour of the nearest
/// one in it.
pub(super) fn extend(canvas: &mut Frame, place: Rect) {
    let row = canvas.size().width as usize * 4;
    let (first, last) = (place.left as usize, (place.left + place.width) as usize - 1);
    let shown = place.top as usize * row..(place.top + place.height) as usize * row;
    let pixels = canvas.pixels_mut();
    pixels[shown.clone()].par_chunks_mut(row).for_each(|row| {
        let row = row.as_chunks_mut::<4>().0;
        let (before, after) = (row[first], row[last]);
        row[..first].fill(before);
        row[last + 1..].fill(after);
    });
    let (above, rest) = pixels.split_at_mut(shown.start);
    let (shown, below) = rest.split_at_mut(shown.len());
    let (upper, lower) = (&shown[..row], &shown[shown.len() - row..]);
    above.par_chunks_mut(row).for_each(|to| to.copy_from_slice(upper));
    below.par_chunks_mut(row).for_each(|to| to.copy_from_slice(lower));
}
