//! The face restoration network "restore" ([`restore`]) as burn modules.

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use super::layers::{Activation, Convolution, Loader, Pair, doubled, pixel_shuffled};
use crate::model::weights::Weights;
use crate::model::weights::architecture::restore;

/// The whole network.
#[derive(Module, Debug)]
pub struct BurnRestore {
    encoder: Vec<Stage>,
    /// From the coarsest level up.
    decoder: Vec<Fusion>,
    out: Convolution,
}

#[derive(Module, Debug)]
struct Stage {
    down: Convolution,
    pairs: Vec<Pair>,
}

#[derive(Module, Debug)]
struct Fusion {
    lateral: Convolution,
    up: Convolution,
    pair: Pair,
}

impl BurnRestore {
    /// Builds the network on `device`.
    ///
    /// # Panics
    /// When the weights are another network's.
    #[must_use]
    pub fn new(weights: &Weights, device: &Device) -> Self {
        let load = Loader { weights, device };
        let stage = |level: usize| Stage {
            down: load.dense(&format!("down{}", level + 1), 2, Activation::Relu),
            pairs: restore::encoder_pairs(level).iter().map(|name| load.pair(name)).collect(),
        };
        let fusion = |scale: usize| Fusion {
            lateral: load.dense(&format!("lat{scale}"), 1, Activation::None),
            up: load.dense(&format!("up{}", scale + 1), 1, Activation::None),
            pair: load.pair(&format!("dec{scale}")),
        };
        Self {
            encoder: (0..restore::CHANNELS.len()).map(stage).collect(),
            decoder: [2, 1].map(fusion).into(),
            out: load.dense("out", 1, Activation::None),
        }
    }

    /// `input`: f32 `[N, 3, H, W]`, encoded RGB in 0..=1, H and W multiples of 8. Returns f32 `[N, 3, H, W]`, the residual to add to
    /// it.
    #[must_use]
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let mut levels = Vec::with_capacity(self.encoder.len());
        let mut x = input;
        for stage in &self.encoder {
            x = stage.pairs.iter().fold(stage.down.forward(x), |x, pair| pair.forward(x));
            levels.push(x.clone());
        }
        levels.pop();
        for (fusion, finer) in self.decoder.iter().zip(levels.into_iter().rev()) {
            x = fusion.pair.forward(relu(fusion.lateral.forward(finer) + doubled(fusion.up.forward(x))));
        }
        pixel_shuffled(self.out.forward(x), 2)
    }
}
