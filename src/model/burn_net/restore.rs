//! The face restoration network "restore" ([`restore`]) on a burn device, by the convolutions of `backdrop_kernels`.

use backdrop_kernels::conv::Activation;
use backdrop_kernels::conv::gpu::{Dense, Residual};
use burn::tensor::{Device, Tensor};

use super::layers::{Loader, Pair, pixel_shuffled};
use crate::model::weights::Weights;
use crate::model::weights::architecture::restore;

/// The network on a device.
#[derive(Debug)]
pub struct BurnRestore {
    encoder: Vec<Stage>,
    /// From the coarsest level to the finest.
    decoder: Vec<Fusion>,
    out: Dense,
}

#[derive(Debug)]
struct Stage {
    down: Dense,
    pairs: Vec<Pair>,
}

#[derive(Debug)]
struct Fusion {
    lateral: Dense,
    up: Dense,
    pair: Pair,
}

impl BurnRestore {
    /// Builds the network on `device`.
    ///
    /// # Panics
    /// When the weights are for another network.
    #[must_use]
    pub fn new(weights: &Weights, device: &Device) -> Self {
        let load = Loader { weights, device };
        let stage = |level: usize| Stage {
            down: load.dense(&format!("down{}", level + 1), 2, Activation::Relu),
            pairs: restore::encoder_pairs(level).iter().map(|name| load.pair(name)).collect(),
        };
        let fusion = |scale: usize| Fusion {
            lateral: load.dense(&format!("lat{scale}"), 1, Activation::Relu),
            up: load.dense(&format!("up{}", scale + 1), 1, Activation::Linear),
            pair: load.pair(&format!("dec{scale}")),
        };
        Self {
            encoder: (0..restore::CHANNELS.len()).map(stage).collect(),
            decoder: [2, 1].map(fusion).into(),
            out: load.dense("out", 1, Activation::Linear),
        }
    }

    /// `input`: f32 `[N, H, W, 3]`, encoded RGB in 0..=1, H and W multiples of 8. Returns the residual, `[N, H, W, 3]`.
    #[must_use]
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let mut levels = Vec::with_capacity(self.encoder.len());
        let mut x = input;
        for stage in &self.encoder {
            x = stage.pairs.iter().fold(stage.down.run(x, Residual::None), |x, pair| pair.forward(x));
            levels.push(x.clone());
        }
        levels.pop();
        for (fusion, finer) in self.decoder.iter().zip(levels.into_iter().rev()) {
            let coarser = Residual::Upsampled(fusion.up.run(x, Residual::None));
            x = fusion.pair.forward(fusion.lateral.run(finer, coarser));
        }
        pixel_shuffled(self.out.run(x, Residual::None), 2)
    }
}
