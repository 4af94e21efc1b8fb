//! The layers that the burn networks share, and loading their weights.

use burn::module::{Module, Param};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2d;
use burn::tensor::activation::relu;
use burn::tensor::module::interpolate;
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use burn::tensor::{Device, Tensor, TensorData};

use crate::model::weights::Weights;
use crate::model::weights::architecture::Block;

/// The activation function after a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) enum Activation {
    None,
    Relu,
    Relu6,
}

/// A convolution, its bias and its activation.
///
/// The bias of a depthwise convolution is added by itself: burn has a depthwise kernel on the GPU only for those
/// without one, and fuses the addition with the activation anyway.
#[derive(Module, Debug)]
pub(super) struct Convolution {
    conv: Conv2d,
    bias: Option<Param<Tensor<4>>>,
    #[module(skip)]
    activation: Activation,
}

impl Convolution {
    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
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
pub(super) struct InvertedResidual {
    expand: Option<Convolution>,
    depthwise: Convolution,
    project: Convolution,
    residual: bool,
}

impl InvertedResidual {
    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
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
pub(super) struct Separable {
    depthwise: Convolution,
    pointwise: Convolution,
}

impl Separable {
    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        relu(x.clone() + self.pointwise.forward(self.depthwise.forward(x)))
    }
}

/// Two convolutions and a sum: `relu(x + b(a(x)))`.
#[derive(Module, Debug)]
pub(super) struct Pair {
    a: Convolution,
    b: Convolution,
}

impl Pair {
    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        relu(x.clone() + self.b.forward(self.a.forward(x)))
    }
}

/// Nearest-neighbour upsampling to twice the side.
pub(super) fn doubled(x: Tensor<4>) -> Tensor<4> {
    let [_, _, height, width] = x.dims();
    interpolate(x, InterpolateOptions::new(InterpolateMode::Nearest).with_output_size([2 * height, 2 * width]))
}

/// `[N, F²·C, H, W]` to `[N, C, F·H, F·W]`: F² channels become an F × F square of one.
pub(super) fn pixel_shuffled(x: Tensor<4>, factor: usize) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    let channels = channels / (factor * factor);
    x.reshape([batch, channels, factor, factor, height, width]).permute([0, 1, 4, 2, 5, 3]).reshape([
        batch,
        channels,
        factor * height,
        factor * width,
    ])
}

/// Loads layers from a weights file onto a device.
pub(super) struct Loader<'a> {
    pub(super) weights: &'a Weights,
    pub(super) device: &'a Device,
}

impl Loader<'_> {
    /// `name` completes the name of a convolution from its part of the block.
    pub(super) fn block(&self, name: impl Fn(&str) -> String, block: Block) -> InvertedResidual {
        InvertedResidual {
            expand: block.expands().then(|| self.dense(&name("expand"), 1, Activation::Relu6)),
            depthwise: self.depthwise(&name("dw"), block.stride, 1, Activation::Relu6),
            project: self.dense(&name("project"), 1, Activation::None),
            residual: block.is_residual(),
        }
    }

    pub(super) fn separable(&self, [depthwise, pointwise]: [String; 2], dilation: usize) -> Separable {
        Separable {
            depthwise: self.depthwise(&depthwise, 1, dilation, Activation::Relu),
            pointwise: self.dense(&pointwise, 1, Activation::None),
        }
    }

    /// The residual pair whose convolutions are `name.a` and `name.b`.
    pub(super) fn pair(&self, name: &str) -> Pair {
        Pair {
            a: self.dense(&format!("{name}.a"), 1, Activation::Relu),
            b: self.dense(&format!("{name}.b"), 1, Activation::None),
        }
    }

    pub(super) fn dense(&self, name: &str, stride: usize, activation: Activation) -> Convolution {
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
