//! The interface of an upscaling network.

use backdrop_kernels::conv::Tile;

use crate::model::{Factor, SegmentError};

/// An upscaling network on some device: computes the residual to add to a bicubic enlargement.
pub(in crate::model) trait Upscaler: Sync {
    /// The factor it upscales by.
    fn factor(&self) -> Factor;

    /// Columns and rows of the tiles for a picture of so many columns and rows.
    fn tile(&self, picture: [usize; 2]) -> [usize; 2];

    /// How many tiles wait for a device at once, on threads of their own instead of those of the caller's pool, which compute. `None`
    /// for a network that these compute.
    fn waiting(&self) -> Option<usize> {
        None
    }

    /// Computes one tile of a picture. `source` fills the rows that the tile reads. `sink(y, pixels)` receives the tile's
    /// rows, from the top: for each pixel the residuals of the pixels it becomes, in the order of
    /// [`tail_channels`](crate::model::weights::architecture::upscale::tail_channels).
    fn rows(&self, tile: Tile, source: &Source<'_>, sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), SegmentError>;
}

/// `source(y, x, pixels)` fills `pixels` (red, green, blue) from column `x` of row `y` on. Both may lie outside the
/// picture, where its border is repeated.
pub(in crate::model) type Source<'a> = dyn Fn(isize, isize, &mut [f32]) + 'a;
