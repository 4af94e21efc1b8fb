//! The segmentation network as burn modules: what runs on a GPU, and a second opinion on our CPU kernels.
//!
//! fgnet ([`fgnet`]): the encoder of MobileNetV2 (Sandler et al., "MobileNetV2: Inverted Residuals and Linear
//! Bottlenecks", CVPR 2018) with width 1, five taps at strides 2 to 32, a global context vector, and a light
//! feature-pyramid decoder of depthwise-separable residuals.
//!
//! Input: f32 `[N, 3, S, S]`, RGB in -1..=1, S a multiple of 32. Output: f32 `[N, S, S]`, probability of subject.

use burn::module::{Module, Param};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2d;
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::module::{adaptive_avg_pool2d, interpolate};
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use burn::tensor::{Device, Tensor, TensorData};

use super::weights::Weights;
use super::weights::architecture::Block;
use super::weights::architecture::fgnet::{self, CONTEXT_DILATIONS, TAPS};

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
            blocks: blocks.into_iter().enumerate().map(|(index, block)| load.block(index, block)).collect(),
            in5: load.dense("in5.conv", 1, Activation::Relu),
            gp: load.dense("gp.conv", 1, Activation::None),
            ctx: load.separables("ctx", &CONTEXT_DILATIONS),
            top5: load.dense("top5.conv", 1, Activation::None),
            lat4: load.dense("lat4.conv", 1, Activation::None),
            d4: load.separables("d4", &[1, 2]),
            lat3: load.dense("lat3.conv", 1, Activation::None),
            d3: load.separables("d3", &[1, 1]),
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
        let p1 = self.d1.forward(relu(pixel_shuffled(self.up2.forward(p2)) + self.lat1.forward(f1)));
        sigmoid(pixel_shuffled(self.head.forward(p1))).squeeze_dim::<3>(1)
    }
}

/// What follows a convolution.
#[derive(Clone, Copy, Debug)]
enum Activation {
    None,
    Relu,
    Relu6,
}

/// A convolution, its bias and its activation.
///
/// The bias of a depthwise convolution is added by itself: burn has a depthwise kernel on the GPU only for those
/// without one, and fuses the addition with the activation anyway.
#[derive(Module, Debug)]
struct Convolution {
    conv: Conv2d,
    bias: Option<Param<Tensor<4>>>,
    #[module(skip)]
    activation: Activation,
}

impl Convolution {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let mut y = self.conv.forward(x);
        if let Some(bias) = &self.bias {
            y = y + bias.val();
        }
        match self.activation {
            Activation::None => y,
            Activation::Relu => relu(y),
            Activation::Relu6 => y.clamp(0.0, 6.0),
        }
    }
}

/// MobileNetV2's block: expand, depthwise, project; added to its input where the shapes allow.
#[derive(Module, Debug)]
struct InvertedResidual {
    expand: Option<Convolution>,
    depthwise: Convolution,
    project: Convolution,
    residual: bool,
}

impl InvertedResidual {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let hidden = match &self.expand {
            Some(expand) => expand.forward(x.clone()),
            None => x.clone(),
        };
        let y = self.project.forward(self.depthwise.forward(hidden));
        if self.residual { x + y } else { y }
    }
}

/// The decoder's block: `relu(x + pointwise(relu(depthwise(x))))`.
#[derive(Module, Debug)]
struct Separable {
    depthwise: Convolution,
    pointwise: Convolution,
}

impl Separable {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        relu(x.clone() + self.pointwise.forward(self.depthwise.forward(x)))
    }
}

fn chain(blocks: &[Separable], x: Tensor<4>) -> Tensor<4> {
    blocks.iter().fold(x, |x, block| block.forward(x))
}

/// Nearest-neighbour upsampling to twice the side.
fn doubled(x: Tensor<4>) -> Tensor<4> {
    let [_, _, height, width] = x.dims();
    interpolate(x, InterpolateOptions::new(InterpolateMode::Nearest).with_output_size([2 * height, 2 * width]))
}

/// `[N, 4C, H, W]` to `[N, C, 2H, 2W]`: four channels become a 2 × 2 square of one.
fn pixel_shuffled(x: Tensor<4>) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    let channels = channels / 4;
    x.reshape([batch, channels, 2, 2, height, width]).permute([0, 1, 4, 2, 5, 3]).reshape([
        batch,
        channels,
        2 * height,
        2 * width,
    ])
}

/// Puts weights on a device.
struct Loader<'a> {
    weights: &'a Weights,
    device: &'a Device,
}

impl Loader<'_> {
    fn block(&self, index: usize, block: Block) -> InvertedResidual {
        let name = |part: &str| format!("enc.blocks.{index}.{part}.conv");
        InvertedResidual {
            expand: block.expands().then(|| self.dense(&name("expand"), 1, Activation::Relu6)),
            depthwise: self.depthwise(&name("dw"), block.stride, 1, Activation::Relu6),
            project: self.dense(&name("project"), 1, Activation::None),
            residual: block.is_residual(),
        }
    }

    fn separables(&self, name: &str, dilations: &[usize]) -> Vec<Separable> {
        let separable = |(index, &dilation): (usize, &usize)| Separable {
            depthwise: self.depthwise(&format!("{name}.{index}.dw.conv"), 1, dilation, Activation::Relu),
            pointwise: self.dense(&format!("{name}.{index}.pw.conv"), 1, Activation::None),
        };
        dilations.iter().enumerate().map(separable).collect()
    }

    fn dense(&self, name: &str, stride: usize, activation: Activation) -> Convolution {
        let bias = Param::from_tensor(self.tensor::<1>(&format!("{name}.bias")));
        let conv = Conv2d { bias: Some(bias), ..self.convolution(name, stride, 1, 1) };
        Convolution { conv, bias: None, activation }
    }

    fn depthwise(&self, name: &str, stride: usize, dilation: usize, activation: Activation) -> Convolution {
        let bias = self.tensor::<1>(&format!("{name}.bias"));
        let [channels] = bias.dims();
        let conv = self.convolution(name, stride, dilation, channels);
        Convolution { conv, bias: Some(Param::from_tensor(bias.reshape([1, channels, 1, 1]))), activation }
    }

    /// Without a bias.
    fn convolution(&self, name: &str, stride: usize, dilation: usize, groups: usize) -> Conv2d {
        let weight = self.tensor::<4>(&format!("{name}.weight"));
        let [_, _, rows, columns] = weight.dims();
        let (vertical, horizontal) = (dilation * (rows / 2), dilation * (columns / 2));
        Conv2d {
            weight: Param::from_tensor(weight),
            bias: None,
            stride: [stride; 2],
            kernel_size: [rows, columns],
            dilation: [dilation; 2],
            groups,
            padding: PaddingConfig2d::Explicit(vertical, horizontal, vertical, horizontal),
        }
    }

    fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        let tensor = self.weights.tensor(name).expect("weights were checked against the architecture");
        Tensor::from_data(TensorData::new(tensor.values.clone(), tensor.shape.clone()), self.device)
    }
}
