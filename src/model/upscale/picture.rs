//! The picture to upscale: reads with a repeated border, and the test for constant alpha.

use backdrop_kernels::conv::Tile;

use crate::image::{Frame, Size};
use crate::model::weights::architecture::upscale::RECEPTIVE_RADIUS;

/// A pixel's own colour is weighted by its alpha as a share of the highest alpha up to this many pixels away.
pub(super) const WEIGHT_RADIUS: usize = 2;

/// The picture to upscale.
pub(super) struct Picture<'a> {
    /// Columns and rows.
    pub(super) extent: [usize; 2],
    pixels: &'a [[u8; 4]],
    opaque: bool,
}

impl<'a> Picture<'a> {
    pub(super) fn new(frame: &'a Frame) -> Self {
        let Size { width, height } = frame.size();
        let pixels = frame.pixels().as_chunks::<4>().0;
        Self { extent: [width as usize, height as usize], pixels, opaque: !frame.has_transparency() }
    }

    pub(super) fn row(&self, y: usize) -> &[[u8; 4]] {
        &self.pixels[y * self.extent[0]..][..self.extent[0]]
    }

    /// The pixels of row `y` from column `x` on, without end; outside the picture the border is repeated.
    pub(super) fn pixels_from(&self, y: isize, x: isize) -> impl Iterator<Item = [u8; 4]> {
        let inside = |at: isize, extent: usize| at.clamp(0, extent as isize - 1) as usize;
        let row = self.row(inside(y, self.extent[1]));
        (x..).map(move |x| row[inside(x, row.len())])
    }

    /// Alpha as grey.
    pub(super) fn alphas(&self, y: isize, x: isize, to: &mut [f32]) {
        for (to, [.., alpha]) in to.as_chunks_mut::<3>().0.iter_mut().zip(self.pixels_from(y, x)) {
            *to = [f32::from(alpha) / 255.0; 3];
        }
    }

    /// The alpha of all pixels that the upscaling of a tile depends on, if they have the same.
    pub(super) fn constant_alpha(&self, tile: Tile) -> Option<u8> {
        if self.opaque {
            return Some(255);
        }
        let [width, height] = self.extent;
        let reach = RECEPTIVE_RADIUS + WEIGHT_RADIUS;
        let columns = tile.left.saturating_sub(reach)..(tile.left + tile.width + reach).min(width);
        let mut rows = tile.top.saturating_sub(reach)..(tile.top + tile.height + reach).min(height);
        let alpha = self.row(tile.top)[tile.left][3];
        rows.all(|y| self.row(y)[columns.clone()].iter().all(|pixel| pixel[3] == alpha)).then_some(alpha)
    }
}
