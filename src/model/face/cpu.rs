//! The face detection network "face" on the CPU kernels.

use std::sync::{Mutex, PoisonError};

use backdrop_kernels::conv::{Activation, Dense, InvertedResidual, Isa, Plane, Residual, Separable, Shape};

use super::FaceDetector;
use crate::model::SegmentError;
use crate::model::pack::Packer;
use crate::model::weights::architecture::face::{BLOCKS, CELL, STRIDES, TAPS};
use crate::model::weights::{Weights, WeightsError};

#[derive(Debug)]
pub(in crate::model) struct CpuFaceDetector {
    threshold: f32,
    stem: Dense,
    /// The first block, which has no expansion.
    first: Separable,
    blocks: Vec<InvertedResidual>,
    levels: Vec<PyramidHead>,
    /// Unused working memory. Never more than the number of pictures that were processed simultaneously.
    idle: Mutex<Vec<Arena>>,
}

#[derive(Debug)]
struct PyramidHead {
    lateral: Dense,
    refine: Separable,
    head: Dense,
}

/// All activations of one picture.
#[derive(Debug)]
struct Arena {
    /// Padded by one pixel, as every input of a 3×3 kernel.
    input: Plane,
    stem: Plane,
    expanded: Plane,
    blocks: Vec<Plane>,
    /// For each of [`STRIDES`]: the sum, its refinement, and the cells.
    sums: Vec<Plane>,
    refined: Vec<Plane>,
    cells: Vec<Plane>,
}

impl Arena {
    fn new() -> Self {
        let nothing = || Plane::new(Shape::new(0, 0, 0, 0));
        let planes = |count: usize| (0..count).map(|_| nothing()).collect();
        let levels = STRIDES.len();
        Self {
            input: nothing(),
            stem: nothing(),
            expanded: nothing(),
            blocks: planes(BLOCKS.len()),
            sums: planes(levels),
            refined: planes(levels),
            cells: planes(levels),
        }
    }
}

impl CpuFaceDetector {
    /// Packs `weights` for `isa`.
    ///
    /// # Errors
    /// When they are for another network.
    ///
    /// # Panics
    /// When this machine lacks `isa`.
    pub(in crate::model) fn new(weights: &Weights, isa: Isa) -> Result<Self, WeightsError> {
        let threshold = weights.card().threshold()?;
        let pack = Packer { isa, weights };
        let separable = |index: usize| {
            let name = |part: &str| format!("blocks.{index}.{part}");
            let depthwise = pack.depthwise(&name("dw"), BLOCKS[index].stride, 1, Activation::Relu6)?;
            Ok::<_, WeightsError>(Separable::new(depthwise, pack.dense(&name("project"), 1, 1, Activation::Linear)?))
        };
        let block = |index: usize| {
            let expand = pack.dense(&format!("blocks.{index}.expand"), 1, 1, Activation::Relu6)?;
            Ok::<_, WeightsError>(InvertedResidual::new(expand, separable(index)?, BLOCKS[index].is_residual()))
        };
        let level = |stride: usize| {
            let [depthwise, pointwise] = ["dw", "pw"].map(|part| format!("neck.{stride}.{part}"));
            Ok::<_, WeightsError>(PyramidHead {
                // The sum with the coarser level is activated together with this output.
                lateral: pack.dense(&format!("lat{stride}"), 1, 1, Activation::Relu)?,
                refine: pack.refinement([&depthwise, &pointwise], 1)?,
                head: pack.dense(&format!("head.{stride}"), 1, 1, Activation::Linear)?,
            })
        };
        assert!(!BLOCKS[0].expands() && BLOCKS[0].is_residual(), "the first block has no expansion and adds its input");
        Ok(Self {
            threshold,
            stem: pack.dense("stem", 3, 2, Activation::Relu6)?,
            first: separable(0)?,
            blocks: (1..BLOCKS.len()).map(block).collect::<Result<_, _>>()?,
            levels: STRIDES.into_iter().map(level).collect::<Result<_, _>>()?,
            idle: Mutex::default(),
        })
    }

    fn compute(&self, arena: &mut Arena) {
        let run = |layer: &Dense, input: &Plane, pad: usize, output: &mut Plane| {
            output.reshape(layer.output_shape(input.shape(), pad));
            layer.run(input, Residual::None, output);
        };
        run(&self.stem, &arena.input, 1, &mut arena.stem);
        arena.blocks[0].reshape(self.first.output_shape(arena.stem.shape(), 0));
        self.first.run(&arena.stem, Residual::Same(&arena.stem), &mut arena.blocks[0]);
        for (index, block) in self.blocks.iter().enumerate() {
            let (before, after) = arena.blocks.split_at_mut(index + 1);
            after[0].reshape(block.output_shape(before[index].shape(), 0));
            block.run(&before[index], &mut arena.expanded, &mut after[0]);
        }
        for (at, level) in self.levels.iter().enumerate().rev() {
            let tap = &arena.blocks[TAPS[at]];
            let (finer, coarser) = arena.sums.split_at_mut(at + 1);
            let sum = &mut finer[at];
            sum.reshape(level.lateral.output_shape(tap.shape(), 1));
            let residual = coarser.first().map_or(Residual::None, Residual::Upsampled);
            level.lateral.run(tap, residual, sum);
            arena.refined[at].reshape(level.refine.output_shape(sum.shape(), 0));
            level.refine.run(sum, Residual::Same(sum), &mut arena.refined[at]);
            run(&level.head, &arena.refined[at], 0, &mut arena.cells[at]);
        }
    }
}

impl FaceDetector for CpuFaceDetector {
    fn threshold(&self) -> f32 {
        self.threshold
    }

    fn cells(
        &self,
        [width, height]: [usize; 2],
        fill: &dyn Fn(&mut [f32], usize),
    ) -> Result<[Vec<[f32; CELL]>; 3], SegmentError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut arena = idle.unwrap_or_else(Arena::new);
        arena.input.reshape(Shape::new(height, width, 3, 1));
        arena.input.data_mut().fill(0.0);
        fill(arena.input.data_mut(), 1);
        self.compute(&mut arena);
        // Unpadded, so that the memory holds the cells alone.
        let cells = |level: usize| arena.cells[level].data().as_chunks::<CELL>().0.to_vec();
        let cells = std::array::from_fn(cells);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(arena);
        Ok(cells)
    }
}
