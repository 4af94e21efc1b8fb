//! The picture to upscale: reads with a repeated border, and a test for constant alpha.

use backdrop_kernels::conv::Tile;

use crate::image::{Frame, Size};
use crate::model::weights::architecture::upscale::RECEPTIVE_RADIUS;

/// Radius in pixels of the highest alpha, by which a pixel's own colour is weighted.
pub(super) const WEIGHT_RADIUS: usize = 2;

pub(super) struct Picture<'a> {
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

    /// The endless pixels of row `y` from column `x` on; outside the picture the border is repeated.
    pub(super) fn pixels_from(&self, y: isize, x: isize) -> impl Iterator<Item = [u8; 4]> {
        let inside = |at: isize, extent: usize| at.clamp(0, extent as isize - 1) as usize;
        let row = self.row(inside(y, self.extent[1]));
        (x..).map(move |x| row[inside(x, row.len())])
    }

    pub(super) fn alphas(&self, y: isize, x: isize, to: &mut [f32]) {
        for (to, [.., alpha]) in to.as_chunks_mut::<3>().0.iter_mut().zip(self.pixels_from(y, x)) {
            *to = [f32::from(alpha) / 255.0; 3];
        }
    }

    /// The common alpha of all pixels on which the upscaling of a tile depends, if there is one.
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
