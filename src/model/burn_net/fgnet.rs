//! The segmentation network "fgnet" on a burn device, by the convolutions of `backdrop_kernels`.
//!
//! fgnet ([`fgnet`]): the encoder of EfficientNet-Lite2 (Tan and Le, "EfficientNet: Rethinking Model Scaling for
//! Convolutional Neural Networks", ICML 2019), five taps at strides 2 to 32, a global context vector, self-attention at stride 32,
//! and a light feature-pyramid decoder of depthwise-separable residuals.
//!
//! Input: f32 `[N, S, S, 3]`, RGB in -1..=1, S a multiple of 32; for the guided network also the [`Hints`]. Output: f32
//! `[N, S, S]`, probability of subject, and the means of the deepest tap's channels.

use backdrop_kernels::conv::Activation;
use backdrop_kernels::conv::gpu::{Dense, Residual, attention, global_average};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Device, Tensor, TensorData};

use super::layers::{InvertedResidual, Loader, Separable, pixel_shuffled};
use crate::image::Hints;
use crate::model::weights::Weights;
use crate::model::weights::architecture::Architecture;
use crate::model::weights::architecture::fgnet::{self, CONTEXT_DILATIONS, HEADS, TAPS};

/// The network on a device.
#[derive(Debug)]
pub struct BurnNet {
    stem: Dense,
    blocks: Vec<InvertedResidual>,
    in5: Dense,
    gp: Dense,
    ctx: Vec<Separable>,
    qkv: Dense,
    project: Dense,
    top5: Dense,
    lat4: Dense,
    d4: Vec<Separable>,
    lat3: Dense,
    d3: Vec<Separable>,
    top3: Dense,
    lat2: Dense,
    d2: Vec<Dense>,
    up2: Dense,
    lat1: Dense,
    d1: Dense,
    head: Dense,
    /// Of the guided network.
    guide: Option<Guide>,
}

/// The layers that add the hints to the encoder's features at 1/4 and, for the decoder, at 1/2 of the input's side.
#[derive(Debug)]
struct Guide {
    coarse: [Dense; 2],
    fine: Dense,
    join_coarse: Dense,
    join_fine: Dense,
}

/// The hints of a batch of N pictures as the channels of squares: f32 `[N, S / 4, S / 4, 48]`, and `[N, S / 2, S / 2, 12]`.
#[derive(Clone, Debug)]
pub struct Squares {
    coarse: Tensor<4>,
    fine: Tensor<4>,
}

impl Squares {
    /// Uploads the hints of a batch, of one side.
    #[must_use]
    pub fn of(hints: &[&Hints], device: &Device) -> Self {
        let squares = |size: usize| {
            let side = hints.first().map_or(0, |hints| hints.side());
            let each = Hints::PLANES * side * side;
            let mut values = vec![0.0; hints.len() * each];
            hints.iter().zip(values.chunks_exact_mut(each)).for_each(|(one, values)| one.write_squares(size, values));
            let extents = [hints.len(), side / size, side / size, Hints::PLANES * size * size];
            Tensor::from_data(TensorData::new(values, extents), device)
        };
        Self { coarse: squares(4), fine: squares(2) }
    }
}

/// The results for a batch of N pictures.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// f32 `[N, S, S]` in 0..=1: probability of subject.
    pub masks: Tensor<3>,
    /// f32 `[N, C]`: the mean of each channel of the encoder's deepest features.
    pub features: Tensor<2>,
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
            gp: load.dense("gp.conv", 1, Activation::Linear),
            ctx: separables(&load, "ctx", &CONTEXT_DILATIONS),
            qkv: load.dense("attention.qkv", 1, Activation::Linear),
            project: load.dense("attention.project", 1, Activation::Linear),
            top5: load.dense("top5.conv", 1, Activation::Linear),
            lat4: load.dense("lat4.conv", 1, Activation::Relu),
            d4: separables(&load, "d4", &[1, 2]),
            lat3: load.dense("lat3.conv", 1, Activation::Relu),
            d3: separables(&load, "d3", &[1, 1]),
            top3: load.dense("top3.conv", 1, Activation::Linear),
            lat2: load.dense("lat2.conv", 1, Activation::Relu),
            d2: ["d2.0.conv", "d2.1.conv"].map(|name| load.dense(name, 1, Activation::Relu)).into(),
            up2: load.dense("up2.conv", 1, Activation::Linear),
            lat1: load.dense("lat1.conv", 1, Activation::Relu),
            d1: load.dense("d1.conv", 1, Activation::Relu),
            head: load.dense("head", 1, Activation::Linear),
            guide: (weights.card().network.architecture() == Architecture::Guided).then(|| Guide {
                coarse: ["guide4.0.conv", "guide4.1.conv"].map(|name| load.dense(name, 1, Activation::Relu)),
                fine: load.dense("guide2.conv", 1, Activation::Relu),
                join_coarse: load.dense("join4", 1, Activation::Linear),
                join_fine: load.dense("join2", 1, Activation::Linear),
            }),
        }
    }

    /// `input`: f32 `[N, S, S, 3]`, RGB in -1..=1, S a multiple of 32; with hints for the guided network.
    ///
    /// # Panics
    /// When hints are absent or superfluous.
    #[must_use]
    pub fn forward(&self, input: Tensor<4>, hints: Option<Squares>) -> Prediction {
        assert_eq!(hints.is_some(), self.guide.is_some(), "hints are for the guided network");
        let guide = self.guide.as_ref().zip(hints);
        let mut x = self.stem.run(input, Residual::None);
        let mut taps = Vec::with_capacity(TAPS.len());
        for (index, block) in self.blocks.iter().enumerate() {
            x = block.forward(x);
            if index == TAPS[1]
                && let Some((guide, hints)) = &guide
            {
                let run = |hints, convolution: &Dense| convolution.run(hints, Residual::None);
                x = guide.join_coarse.run(guide.coarse.iter().fold(hints.coarse.clone(), run), Residual::Same(x));
            }
            if TAPS.contains(&index) {
                taps.push(x.clone());
            }
        }
        let [f1, f2, f3, f4, f5]: [Tensor<4>; 5] = taps.try_into().expect("every tap is a block of the encoder");
        let features = global_average(f5.clone());
        let p5 = self.in5.run(f5, Residual::None);
        let context = self.gp.run(global_average(p5.clone()), Residual::None);
        let p5 = chain(&self.ctx, relu(p5 + context));
        let attended = attention(self.qkv.run(p5.clone(), Residual::None), HEADS);
        let p5 = self.top5.run(self.project.run(attended, Residual::Same(p5)), Residual::None);
        let p4 = chain(&self.d4, self.lat4.run(f4, Residual::Upsampled(p5)));
        let p3 = chain(&self.d3, self.lat3.run(f3, Residual::Upsampled(p4)));
        let p3 = self.top3.run(p3, Residual::None);
        let p2 = self.lat2.run(f2, Residual::Upsampled(p3));
        let p2 = self.d2.iter().fold(p2, |x, convolution| convolution.run(x, Residual::None));
        let f1 = match guide {
            Some((guide, hints)) => guide.join_fine.run(guide.fine.run(hints.fine, Residual::None), Residual::Same(f1)),
            None => f1,
        };
        let p2 = pixel_shuffled(self.up2.run(p2, Residual::None), 2);
        let p1 = self.d1.run(self.lat1.run(f1, Residual::Same(p2)), Residual::None);
        let masks = sigmoid(pixel_shuffled(self.head.run(p1, Residual::None), 2)).squeeze_dim::<3>(3);
        Prediction { masks, features: features.flatten(1, 3) }
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
