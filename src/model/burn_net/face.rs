//! The face detection network "face" ([`face`]) on a burn device, by the convolutions of `backdrop_kernels`.

use backdrop_kernels::conv::Activation;
use backdrop_kernels::conv::gpu::{Dense, Residual};
use burn::tensor::{Device, Tensor};

use super::layers::{InvertedResidual, Loader, Separable};
use crate::model::weights::Weights;
use crate::model::weights::architecture::face::{self, STRIDES, TAPS};

/// The network on a device.
#[derive(Debug)]
pub struct BurnFace {
    stem: Dense,
    blocks: Vec<InvertedResidual>,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    lateral: Dense,
    refine: Separable,
    head: Dense,
}

impl BurnFace {
    /// Builds the network on `device`.
    ///
    /// # Panics
    /// When the weights are for another network.
    #[must_use]
    pub fn new(weights: &Weights, device: &Device) -> Self {
        let load = Loader { weights, device };
        let blocks = face::BLOCKS.into_iter().enumerate();
        let level = |stride: usize| Level {
            lateral: load.dense(&format!("lat{stride}"), 1, Activation::Relu),
            refine: load.separable(["dw", "pw"].map(|part| format!("neck.{stride}.{part}")), 1),
            head: load.dense(&format!("head.{stride}"), 1, Activation::Linear),
        };
        Self {
            stem: load.dense("stem", 2, Activation::Relu6),
            blocks: blocks.map(|(index, block)| load.block(|part| format!("blocks.{index}.{part}"), block)).collect(),
            levels: STRIDES.into_iter().map(level).collect(),
        }
    }

    /// `input`: f32 `[N, H, W, 3]`, RGB in -1..=1, H and W multiples of 32. Returns f32 `[N, H/s, W/s, 15]` for each s of
    /// [`STRIDES`], in that order.
    #[must_use]
    pub fn forward(&self, input: Tensor<4>) -> Vec<Tensor<4>> {
        let mut x = self.stem.run(input, Residual::None);
        let mut taps = Vec::with_capacity(TAPS.len());
        for (index, block) in self.blocks.iter().enumerate() {
            x = block.forward(x);
            if TAPS.contains(&index) {
                taps.push(x.clone());
            }
        }
        let mut coarser = Residual::None;
        let mut cells = Vec::with_capacity(STRIDES.len());
        for (level, tap) in self.levels.iter().zip(taps).rev() {
            let sum = level.lateral.run(tap, coarser);
            cells.push(level.head.run(level.refine.forward(sum.clone()), Residual::None));
            coarser = Residual::Upsampled(sum);
        }
        cells.reverse();
        cells
    }
}
