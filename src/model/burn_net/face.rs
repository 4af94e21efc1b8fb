//! The face detection network "face" ([`face`]) as burn modules.

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use super::layers::{Activation, Convolution, InvertedResidual, Loader, Separable, doubled};
use crate::model::weights::Weights;
use crate::model::weights::architecture::face::{self, STRIDES, TAPS};

/// The whole network.
#[derive(Module, Debug)]
pub struct BurnFace {
    stem: Convolution,
    blocks: Vec<InvertedResidual>,
    /// One for each of [`STRIDES`].
    levels: Vec<Level>,
}

#[derive(Module, Debug)]
struct Level {
    lateral: Convolution,
    refine: Separable,
    head: Convolution,
}

impl BurnFace {
    /// Builds the network on `device`.
    ///
    /// # Panics
    /// When the weights are another network's.
    #[must_use]
    pub fn new(weights: &Weights, device: &Device) -> Self {
        let load = Loader { weights, device };
        let blocks = face::BLOCKS.into_iter().enumerate();
        let level = |stride: usize| Level {
            lateral: load.dense(&format!("lat{stride}"), 1, Activation::None),
            refine: load.separable(["dw", "pw"].map(|part| format!("neck.{stride}.{part}")), 1),
            head: load.dense(&format!("head.{stride}"), 1, Activation::None),
        };
        Self {
            stem: load.dense("stem", 2, Activation::Relu6),
            blocks: blocks.map(|(index, block)| load.block(|part| format!("blocks.{index}.{part}"), block)).collect(),
            levels: STRIDES.into_iter().map(level).collect(),
        }
    }

    /// `input`: f32 `[N, 3, H, W]`, RGB in -1..=1, H and W multiples of 32. Returns f32 `[N, 15, H/s, W/s]` for each s of
    /// [`STRIDES`], in that order.
    #[must_use]
    pub fn forward(&self, input: Tensor<4>) -> Vec<Tensor<4>> {
        let mut x = self.stem.forward(input);
        let mut taps = Vec::with_capacity(TAPS.len());
        for (index, block) in self.blocks.iter().enumerate() {
            x = block.forward(x);
            if TAPS.contains(&index) {
                taps.push(x.clone());
            }
        }
        let mut coarser: Option<Tensor<4>> = None;
        let mut cells = Vec::with_capacity(STRIDES.len());
        for (level, tap) in self.levels.iter().zip(taps).rev() {
            let lateral = level.lateral.forward(tap);
            let sum = relu(match coarser {
                Some(coarser) => lateral + doubled(coarser),
                None => lateral,
            });
            cells.push(level.head.forward(level.refine.forward(sum.clone())));
            coarser = Some(sum);
        }
        cells.reverse();
        cells
    }
}
