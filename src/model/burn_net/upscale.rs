//! The upscaling network "upscale" ([`upscale`]) on a burn device, by the convolutions of `backdrop_kernels`.

use backdrop_kernels::conv::Activation;
use backdrop_kernels::conv::gpu::{Dense, Residual};
use burn::tensor::{Device, Tensor};

use super::layers::{Loader, Pair};
use crate::model::weights::Weights;
use crate::model::weights::architecture::upscale;

/// The network up to its tail, before the pixel shuffle.
#[derive(Debug)]
pub struct BurnUpscale {
    head: Dense,
    body: Vec<Pair>,
    tail: Dense,
}

impl BurnUpscale {
    /// Builds the network on `device`.
    ///
    /// # Panics
    /// When the weights are for another network.
    #[must_use]
    pub fn new(weights: &Weights, device: &Device) -> Self {
        let load = Loader { weights, device };
        Self {
            head: load.dense("head", 1, Activation::Relu),
            body: (0..upscale::PAIRS).map(|pair| load.pair(&format!("body.{pair}"))).collect(),
            tail: load.dense("tail", 1, Activation::Linear),
        }
    }

    /// `input`: f32 `[N, H, W, 3]`, encoded RGB in 0..=1. Returns the residual of a bicubic enlargement before the
    /// pixel shuffle, f32 `[N, H, W, 3·F²]`. The zero padding affects eight pixels on every side.
    #[must_use]
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let x = self.body.iter().fold(self.head.run(input, Residual::None), |x, pair| pair.forward(x));
        self.tail.run(x, Residual::None)
    }
}
