//! Layers shared by the networks on a device, and the loader of their weights. Activations are f32 `[N, H, W, C]`.

use backdrop_kernels::conv::gpu::{Dense, Depthwise, Residual};
use backdrop_kernels::conv::{Activation, Filter};
use burn::tensor::{Device, Tensor};

use crate::model::weights::Weights;
use crate::model::weights::architecture::Block;

/// MobileNetV2's block: expand, depthwise, project; plus its input where the shapes allow.
#[derive(Debug)]
pub(super) struct InvertedResidual {
    expand: Option<Dense>,
    depthwise: Depthwise,
    project: Dense,
    residual: bool,
}

impl InvertedResidual {
    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let hidden = match &self.expand {
            Some(expand) => expand.run(x.clone(), Residual::None),
            None => x.clone(),
        };
        let residual = if self.residual { Residual::Same(x) } else { Residual::None };
        self.project.run(self.depthwise.run(hidden), residual)
    }
}

/// The decoder's block: `relu(x + pointwise(relu(depthwise(x))))`.
#[derive(Debug)]
pub(super) struct Separable {
    depthwise: Depthwise,
    pointwise: Dense,
}

impl Separable {
    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.pointwise.run(self.depthwise.run(x.clone()), Residual::Same(x))
    }
}

/// Residual pair of convolutions: `relu(x + b(relu(a(x))))`.
#[derive(Debug)]
pub(super) struct Pair {
    a: Dense,
    b: Dense,
}

impl Pair {
    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.b.run(self.a.run(x.clone(), Residual::None), Residual::Same(x))
    }
}

/// `[N, H, W, C·F²]` to `[N, F·H, F·W, C]`: F² channels become F × F pixels of one channel.
pub(super) fn pixel_shuffled(x: Tensor<4>, factor: usize) -> Tensor<4> {
    let [batch, height, width, channels] = x.dims();
    let channels = channels / (factor * factor);
    let squares = x.reshape([batch, height, width, channels, factor, factor]);
    squares.permute([0, 1, 4, 2, 5, 3]).reshape([batch, factor * height, factor * width, channels])
}

pub(super) struct Loader<'a> {
    pub(super) weights: &'a Weights,
    pub(super) device: &'a Device,
}

impl Loader<'_> {
    /// `name` maps a part of the block to the name of its convolution.
    pub(super) fn block(&self, name: impl Fn(&str) -> String, block: Block) -> InvertedResidual {
        InvertedResidual {
            expand: block.expands().then(|| self.dense(&name("expand"), 1, Activation::Relu6)),
            depthwise: self.depthwise(&name("dw"), block.stride, 1, Activation::Relu6),
            project: self.dense(&name("project"), 1, Activation::Linear),
            residual: block.is_residual(),
        }
    }

    pub(super) fn separable(&self, [depthwise, pointwise]: [String; 2], dilation: usize) -> Separable {
        Separable {
            depthwise: self.depthwise(&depthwise, 1, dilation, Activation::Relu),
            pointwise: self.dense(&pointwise, 1, Activation::Relu),
        }
    }

    pub(super) fn pair(&self, name: &str) -> Pair {
        let [a, b] = ["a", "b"].map(|part| self.dense(&format!("{name}.{part}"), 1, Activation::Relu));
        Pair { a, b }
    }

    pub(super) fn dense(&self, name: &str, stride: usize, activation: Activation) -> Dense {
        let (filter, [channels_out, channels_in, size]) = self.filter(name);
        Dense::new(size, stride, [channels_in, channels_out], filter, activation, self.device)
    }

    fn depthwise(&self, name: &str, stride: usize, dilation: usize, activation: Activation) -> Depthwise {
        let (filter, [channels, _, size]) = self.filter(name);
        Depthwise::new(size, channels, stride, dilation, filter, activation, self.device)
    }

    /// The parameters of the convolution `name`, its output and input channels, and its kernel's side.
    fn filter(&self, name: &str) -> (Filter<'_>, [usize; 3]) {
        let [weights, bias] = ["weight", "bias"].map(|part| {
            let tensor = self.weights.tensor(&format!("{name}.{part}"));
            tensor.expect("weights were checked against the architecture")
        });
        let filter = Filter { weights: &weights.values, bias: &bias.values };
        (filter, [weights.shape[0], weights.shape[1], weights.shape[2]])
    }
}
