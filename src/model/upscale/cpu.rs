//! The upscaling network "upscale" on the CPU kernels, as a cascade over tiles.

use backdrop_kernels::conv::{Activation, Cascade, Isa, Layer, Tile};

use super::{Source, Upscaler};
use crate::model::pack::Packer;
use crate::model::weights::architecture::upscale::PAIRS;
use crate::model::weights::{Weights, WeightsError};
use crate::model::{Factor, SegmentError};

/// Maximum columns of a tile. Seven rings of six rows of 32 channels are then 0.8 MB, which fits a second-level cache.
const COLUMNS: usize = 128;

/// Minimum and maximum rows of a tile. Seven rows are computed twice at every seam, which makes lower tiles expensive;
/// higher ones leave too few tiles for the threads.
const ROWS: [usize; 2] = [32, 128];

/// Tiles for each thread, for a balanced load.
const SHARE: usize = 6;

#[derive(Debug)]
pub(in crate::model) struct CpuUpscaler {
    cascade: Cascade,
    factor: Factor,
}

impl CpuUpscaler {
    /// Packs `weights` for `isa`.
    ///
    /// # Errors
    /// When they are for another network.
    ///
    /// # Panics
    /// When this machine lacks `isa`.
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

impl Upscaler for CpuUpscaler {
    fn factor(&self) -> Factor {
        self.factor
    }

    fn tile(&self, [width, height]: [usize; 2]) -> [usize; 2] {
        // Tiles of nearly equal width, a multiple of the micro-kernels' pixels.
        let stripes = width.div_ceil(COLUMNS);
        let columns = width.div_ceil(stripes).next_multiple_of(4);
        let bands = (SHARE * rayon::current_num_threads()).div_ceil(stripes);
        let [least, most] = ROWS;
        [columns, height.div_ceil(bands).clamp(least, most)]
    }

    fn rows(&self, tile: Tile, source: &Source<'_>, sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), SegmentError> {
        // The pixels that the tile reads, with a border wide enough that the zero padding is never read.
        let reach = self.cascade.reach();
        let outer = Tile { left: tile.left + reach, top: tile.top + reach, ..tile };
        let extent = [outer.left + tile.width + reach, outer.top + tile.height + reach];
        let inner = |at: usize| at as isize - reach as isize;
        let source = |y: usize, x: usize, to: &mut [f32]| source(inner(y), inner(x), to);
        self.cascade.run(extent, outer, source, |y, row| sink(y - reach, row));
        Ok(())
    }
}
