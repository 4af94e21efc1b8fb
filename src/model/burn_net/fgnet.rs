//! The segmentation network "fgnet" as burn modules.
//!
//! fgnet ([`fgnet`]): the encoder of EfficientNet-Lite2 (Tan and Le, "EfficientNet: Rethinking Model Scaling for
//! Convolutional Neural Networks", ICML 2019), five taps at strides 2 to 32, a global context vector, and a light
//! feature-pyramid decoder of depthwise-separable residuals.
//!
//! Input: f32 `[N, 3, S, S]`, RGB in -1..=1, S a multiple of 32. Output: f32 `[N, S, S]`, probability of subject.

use burn::module::Module;
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::module::adaptive_avg_pool2d;
use burn::tensor::{Device, Tensor};

use super::layers::{Activation, Convolution, InvertedResidual, Loader, Separable, doubled, pixel_shuffled};
use crate::model::weights::Weights;
use crate::model::weights::architecture::fgnet::{self, CONTEXT_DILATIONS, TAPS};

/// The whole network.
#[derive(Module, Debug)]
pub struct BurnNet {
    stem: Convolution,
    blocks: Vec<InvertedResidual>,
    in5: Convolution,
    gp: Convolution,
    ctx: Vec<Separable>,
    top5: Convolution,
    lat4: Convolution,
    d4: Vec<Separable>,
    lat3: Convolution,
    d3: Vec<Separable>,
    top3: Convolution,
    lat2: Convolution,
    d2: Vec<Convolution>,
    up2: Convolution,
    lat1: Convolution,
    d1: Convolution,
    head: Convolution,
}

impl BurnNet {
    /// Builds the network on `device`.
    #[must_use]
    pub fn new(weights: &Weights, device: &Device) -> Self {
        let load = Loader { weights, device };
        let blocks = fgnet::blocks();
        Self {
            stem: load.dense("enc.stem.conv", 2, Activation::Relu6),
            blocks: blocks
                .into_iter()
                .enumerate()
                .map(|(index, block)| load.block(|part| format!("enc.blocks.{index}.{part}.conv"), block))
                .collect(),
            in5: load.dense("in5.conv", 1, Activation::Relu),
            gp: load.dense("gp.conv", 1, Activation::None),
            ctx: separables(&load, "ctx", &CONTEXT_DILATIONS),
            top5: load.dense("top5.conv", 1, Activation::None),
            lat4: load.dense("lat4.conv", 1, Activation::None),
            d4: separables(&load, "d4", &[1, 2]),
            lat3: load.dense("lat3.conv", 1, Activation::None),
            d3: separables(&load, "d3", &[1, 1]),
            top3: load.dense("top3.conv", 1, Activation::None),
            lat2: load.dense("lat2.conv", 1, Activation::None),
            d2: ["d2.0.conv", "d2.1.conv"].map(|name| load.dense(name, 1, Activation::Relu)).into(),
            up2: load.dense("up2.conv", 1, Activation::None),
            lat1: load.dense("lat1.conv", 1, Activation::None),
            d1: load.dense("d1.conv", 1, Activation::Relu),
            head: load.dense("head", 1, Activation::None),
        }
    }

    /// `input`: f32 `[N, 3, S, S]`, RGB in -1..=1, S a multiple of 32. Returns f32 `[N, S, S]` in 0..=1.
    #[must_use]
    pub fn forward(&self, input: Tensor<4>) -> Tensor<3> {
        let mut x = self.stem.forward(input);
        let mut taps = Vec::with_capacity(TAPS.len());
        for (index, block) in self.blocks.iter().enumerate() {
            x = block.forward(x);
            if TAPS.contains(&index) {
                taps.push(x.clone());
            }
        }
        let [f1, f2, f3, f4, f5]: [Tensor<4>; 5] = taps.try_into().expect("every tap is a block of the encoder");
        let p5 = self.in5.forward(f5);
        let context = self.gp.forward(adaptive_avg_pool2d(p5.clone(), [1, 1]));
        let p5 = chain(&self.ctx, relu(p5 + context));
        let p4 = chain(&self.d4, relu(doubled(self.top5.forward(p5)) + self.lat4.forward(f4)));
        let p3 = chain(&self.d3, relu(doubled(p4) + self.lat3.forward(f3)));
        let p2 = relu(doubled(self.top3.forward(p3)) + self.lat2.forward(f2));
        let p2 = self.d2.iter().fold(p2, |x, convolution| convolution.forward(x));
        let p1 = self.d1.forward(relu(pixel_shuffled(self.up2.forward(p2), 2) + self.lat1.forward(f1)));
        sigmoid(pixel_shuffled(self.head.forward(p1), 2)).squeeze_dim::<3>(1)
    }
}

fn separables(load: &Loader<'_>, name: &str, dilations: &[usize]) -> Vec<Separable> {
    let separable = |(index, &dilation): (usize, &usize)| {
        load.separable(["dw", "pw"].map(|part| format!("{name}.{index}.{part}.conv")), dilation)
    };
    dilations.iter().enumerate().map(separable).collect()
}

fn chain(blocks: &[Separable], x: Tensor<4>) -> Tensor<4> {
    blocks.iter().fold(x, |x, block| block.forward(x))
}
