//! The interface of an upscaling network.

use backdrop_kernels::conv::Tile;

use crate::model::{Factor, SegmentError};

/// An upscaling network on some device: computes the residual to add to a bicubic enlargement.
pub(in crate::model) trait Upscaler: Sync {
    /// The factor of the enlargement.
    fn factor(&self) -> Factor;

    /// Columns and rows of the tiles for a picture of this size.
    fn tile(&self, picture: [usize; 2]) -> [usize; 2];

    /// Number of tiles that wait for a device simultaneously, on their own threads instead of the caller's pool. `None`
    /// for a network that the pool computes.
    fn waiting(&self) -> Option<usize> {
        None
    }

    /// Computes one tile of a picture. `source` fills the rows that the tile reads. `sink(y, pixels)` receives the
    /// tile's rows from the top: for each pixel the residuals of its enlarged pixels, in the order of
    /// [`tail_channels`](crate::model::weights::architecture::upscale::tail_channels).
    fn rows(&self, tile: Tile, source: &Source<'_>, sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), SegmentError>;
}

/// `source(y, x, pixels)` fills `pixels` (RGB) from column `x` of row `y` on. Outside the picture the border repeats.
pub(in crate::model) type Source<'a> = dyn Fn(isize, isize, &mut [f32]) + 'a;
