//! Blurred background: inpaints the subject in a reduced copy of the source (a [`Plate`]) and blurs the copy.
//!
//! The source is reduced until the blur is two cells wide. Cells that the subject touches are inpainted from their
//! surroundings *before* the blur (pull-push), so that no colour of the subject bleeds into the background. Beyond the
//! source's border the background is mirrored.

use crate::compose::shadow::reduced_sigma;
use crate::compose::{Background, Layout, Scene};
use crate::image::color::linear16_of_encoded8;
use crate::image::{Frame, Size};
use backdrop_kernels::bilinear::{self, Tap};
use backdrop_kernels::gaussian::{self, Border};
use backdrop_kernels::pull_push;
use rayon::prelude::*;

/// Standard deviation of the blur at full intensity, as a share of the source's longer side.
const MAX_SIGMA_SHARE: f32 = 0.05;
/// Cells of the largest plate. The narrowest blur of the largest picture has a σ of 4 pixels, more than a cell.
const MAX_CELLS: usize = 2 << 20;
/// Smallest σ in canvas pixels: reducing a sharper plate would alias.
const MIN_CANVAS_SIGMA: f32 = 0.5;

/// A reduced copy of a source, made before cutting removes the background.
#[derive(Debug)]
pub struct Plate {
    source: Size,
    /// Side of a cell in pixels of the source.
    cell: u32,
    size: Size,
    /// Mean of each cell in premultiplied linear light.
    cells: Vec<[u16; 4]>,
    /// Standard deviation of the blur, in pixels of the source.
    sigma: f32,
}

impl Scene {
    /// The plate of `frame` for this scene's background; `None` unless it is blurred. Call it before cutting out.
    #[must_use]
    pub fn plate(&self, frame: &Frame) -> Option<Plate> {
        match self.background {
            Background::Blurred { intensity, .. } => Some(Plate::of(frame, intensity)),
            Background::Clear | Background::Color(_) | Background::Picture { .. } | Background::EdgeColor => None,
        }
    }
}

impl Plate {
    /// Upper bound on the memory of a plate and its processing, in pixels of four bytes.
    pub(in crate::compose) fn most_pixels(source: Size, intensity: u8) -> usize {
        // Per cell: two pixels for the plate, four for its copy in f32, a third of that for its pyramid, and the mask.
        Self::grid(source, Self::cell(source, Self::sigma(source, intensity))).area() * 8
    }

    #[cfg(feature = "gpu")]
    pub(crate) const fn cells(&self) -> usize {
        self.size.area()
    }

    fn sigma(source: Size, intensity: u8) -> f32 {
        f32::from(intensity) / 100.0 * MAX_SIGMA_SHARE * source.longest() as f32
    }

    fn cell(source: Size, sigma: f32) -> u32 {
        let mut cell = ((sigma / 2.0) as u32).max(1);
        while Self::grid(source, cell).area() > MAX_CELLS {
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

    /// The background without the subject, inpainted and blurred; `None` when the subject covers everything. `covers`
    /// returns whether the subject covers any of a source pixel.
    pub(in crate::compose) fn without(
        &self,
        covers: impl Fn(usize) -> bool + Sync,
        layout: &Layout,
    ) -> Option<BlurredBackground> {
        let Self { source, cell, size, ref cells, sigma } = *self;
        let covered = covered_cells(source, cell, size, covers);
        let width = size.width as usize;
        let mut samples = vec![[0.0; 4]; cells.len()];
        samples.par_chunks_mut(width).zip(cells.par_chunks(width)).enumerate().for_each(|(y, (samples, cells))| {
            // Dilated by one cell: a lens spreads some of the subject's light beyond its edge.
            let rows = y.saturating_sub(1)..(y + 2).min(size.height as usize);
            for (x, (sample, &mean)) in samples.iter_mut().zip(cells).enumerate() {
                let columns = x.saturating_sub(1)..(x + 2).min(width);
                let is_near_subject = rows.clone().any(|row| covered[row * width..][columns.clone()].contains(&true));
                if !is_near_subject {
                    *sample = mean.map(|value| f32::from(value) / 65535.0);
                }
            }
        });
        drop(covered);
        if !pull_push::cpu::fill(&mut samples, width) {
            return None;
        }
        let shrunk = layout.from.width as f32 / layout.place.width as f32;
        let sigma = reduced_sigma(sigma.max(MIN_CANVAS_SIGMA * shrunk), cell as usize);
        gaussian::cpu::blur(&mut samples, width, sigma, Border::Clamp);
        let Layout { canvas, from, place, .. } = *layout;
        let cell = cell as f32;
        let columns = (0..canvas.width)
            .map(|x| tap(x, (place.left, place.width), (from.left, from.width), source.width, cell))
            .collect();
        let rows = (0..canvas.height)
            .map(|y| tap(y, (place.top, place.height), (from.top, from.height), source.height, cell))
            .collect();
        Some(BlurredBackground { samples, width, columns, rows })
    }
}

/// For each cell, whether the subject covers any of its pixels.
fn covered_cells(source: Size, cell: u32, size: Size, covers: impl Fn(usize) -> bool + Sync) -> Vec<bool> {
    let (width, cell) = (source.width as usize, cell as usize);
    let mut covered = vec![false; size.area()];
    covered.par_chunks_mut(size.width as usize).enumerate().for_each(|(row, covered)| {
        for y in row * cell..((row + 1) * cell).min(source.height as usize) {
            for (column, covered) in covered.iter_mut().enumerate() {
                let pixels = column * cell..((column + 1) * cell).min(width);
                *covered |= pixels.into_iter().any(|x| covers(y * width + x));
            }
        }
    });
    covered
}

/// The two cells around the centre of a canvas pixel, and their weight. `place` of the canvas shows `from` of the
/// source (start and length each), whose side has `side` pixels.
///
/// Mirrored beyond the source's border: replicated pixels would be streaks.
fn tap(pixel: u32, place: (u32, u32), from: (u32, u32), side: u32, cell: f32) -> Tap {
    let shown = (pixel as f32 + 0.5 - place.0 as f32) / place.1 as f32 * from.1 as f32 + from.0 as f32;
    let side = side as f32;
    let folded = shown.rem_euclid(2.0 * side);
    let mirrored = folded.min(2.0 * side - folded);
    let cells = (side / cell).ceil() as u32;
    let at = (mirrored / cell - 0.5).clamp(0.0, (cells - 1) as f32);
    let first = at as u32;
    Tap { first, second: (first + 1).min(cells - 1), share: at - first as f32 }
}

/// A blurred plate, and the cells of each column and row of the canvas.
pub(in crate::compose) struct BlurredBackground {
    /// Linear light, in rows of `width` cells.
    pub(in crate::compose) samples: Vec<[f32; 4]>,
    pub(in crate::compose) width: usize,
    pub(in crate::compose) columns: Vec<Tap>,
    pub(in crate::compose) rows: Vec<Tap>,
}

impl BlurredBackground {
    /// Writes the background of canvas row `y` where `canvas` is not opaque. `line` is scratch.
    pub(super) fn row(&self, y: u32, canvas: &[u8], line: &mut Vec<[f32; 3]>, to: &mut [u8]) {
        bilinear::cpu::row(&self.samples, self.width, (&self.columns, self.rows[y as usize]), canvas, line, to);
    }
}
