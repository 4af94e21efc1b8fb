//! The network "upscale" on the CPU kernels.

use backdrop_kernels::conv::{Activation, Cascade, Isa, Layer, Tile};

use super::{Detail, Source};
use crate::model::pack::Packer;
use crate::model::weights::architecture::upscale::PAIRS;
use crate::model::weights::{Weights, WeightsError};
use crate::model::{Factor, SegmentError};

/// Columns of a tile at most: seven rings of six rows of 32 channels are then 0.8 MB, which a second-level cache holds.
const COLUMNS: usize = 128;

/// Rows of a tile: at most so many, because a picture in fewer tiles would be shared out badly; at least so many,
/// because seven more are computed twice at every cut.
const ROWS: [usize; 2] = [32, 128];

/// Tiles for each thread, so that none waits long for another at the end.
const SHARE: usize = 6;

/// The network, packed for one instruction set.
#[derive(Debug)]
pub(in crate::model) struct UpscaleNet {
    cascade: Cascade,
    factor: Factor,
}

impl UpscaleNet {
    /// Packs `weights` for `isa`.
    ///
    /// # Errors
    /// When they are another network's.
    ///
    /// # Panics
    /// When this machine does not have `isa`.
    pub(in crate::model) fn new(weights: &Weights, isa: Isa) -> Result<Self, WeightsError> {
        let factor = weights.card().factor()?;
        let pack = Packer { isa, weights };
        let layer = |name: &str, activation: Activation, residual: bool| {
            Ok::<_, WeightsError>(Layer { dense: pack.dense(name, 3, 1, activation)?, residual })
        };
        let mut layers = vec![layer("head", Activation::Relu, false)?];
        for pair in 0..PAIRS {
            layers.push(layer(&format!("body.{pair}.a"), Activation::Relu, false)?);
            layers.push(layer(&format!("body.{pair}.b"), Activation::Relu, true)?);
        }
        layers.push(layer("tail", Activation::Linear, false)?);
        Ok(Self { cascade: Cascade::new(layers), factor })
    }
}

impl Detail for UpscaleNet {
    fn factor(&self) -> Factor {
        self.factor
    }

    fn tile(&self, [width, height]: [usize; 2]) -> [usize; 2] {
        // Tiles of about the same width, in steps that the kernels like.
        let stripes = width.div_ceil(COLUMNS);
        let columns = width.div_ceil(stripes).next_multiple_of(4);
        let bands = (SHARE * rayon::current_num_threads()).div_ceil(stripes);
        let [least, most] = ROWS;
        [columns, height.div_ceil(bands).clamp(least, most)]
    }

    fn rows(&self, tile: Tile, source: &Source<'_>, sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), SegmentError> {
        // The picture as far as the tile sees, and with so much around it that no zero outside is ever seen.
        let reach = self.cascade.reach();
        let outer = Tile { left: tile.left + reach, top: tile.top + reach, ..tile };
        let extent = [outer.left + tile.width + reach, outer.top + tile.height + reach];
        let inner = |at: usize| at as isize - reach as isize;
        let source = |y: usize, x: usize, to: &mut [f32]| source(inner(y), inner(x), to);
        self.cascade.run(extent, outer, source, |y, row| sink(y - reach, row));
        Ok(())
    }
}
