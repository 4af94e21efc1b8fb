//! The same operations on tensors of the host, by the kernels of the CPU.

use super::super::{Attention, Dense, Depthwise, Filter, Isa, Plane, Residual, Shape, global_average};
use super::{Added, Window};
use crate::device::{host_floats, host_tensor};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

type Floats = FloatTensor<Flex>;

/// A dense convolution, with weights `[taps · C, O]`.
pub(super) fn dense(input: Floats, weights: Floats, bias: Floats, residual: Floats, window: Window) -> Floats {
    let [_, _, _, channels] = input.shape().dims();
    let (weights, bias) = (host_floats(weights), host_floats(bias));
    let (outputs, taps) = (bias.len(), window.size * window.size);
    let source = |at: usize| (at % taps * channels + at / taps % channels) * outputs + at / (taps * channels);
    let weights: Vec<f32> = (0..weights.len()).map(|at| weights[source(at)]).collect();
    let filter = Filter { weights: &weights, bias: &bias };
    let convolution =
        Dense::new(Isa::detect(), window.size, window.stride, channels, outputs, filter, window.activation);
    let residuals = pictures(residual, 0);
    let run = |(at, input): (usize, &Plane), output: &mut Plane| {
        let residual = match window.added {
            Added::Nothing => Residual::None,
            Added::Same => Residual::Same(&residuals[at]),
            Added::Upsampled => Residual::Upsampled(&residuals[at]),
        };
        convolution.run(input, residual, output);
    };
    convolved(&pictures(input, window.overhang()), outputs, window, run)
}

/// A depthwise convolution, with weights `[taps, C]`.
pub(super) fn depthwise(input: Floats, weights: Floats, bias: Floats, window: Window) -> Floats {
    let (weights, bias) = (host_floats(weights), host_floats(bias));
    let (channels, taps) = (bias.len(), window.size * window.size);
    let weights: Vec<f32> = (0..weights.len()).map(|at| weights[at % taps * channels + at / taps]).collect();
    let filter = Filter { weights: &weights, bias: &bias };
    let Window { size, stride, dilation, activation, .. } = window;
    let convolution = Depthwise::new(Isa::detect(), size, channels, stride, dilation, filter, activation);
    let run = |(_, input): (usize, &Plane), output: &mut Plane| convolution.run(input, output);
    convolved(&pictures(input, window.overhang()), channels, window, run)
}

/// The mean of each channel of each picture.
pub(super) fn average(input: Floats) -> Floats {
    let [batch, _, _, channels] = input.shape().dims();
    let mut mean = Plane::new(Shape::new(1, 1, channels, 0));
    let means = pictures(input, 0).into_iter().flat_map(|picture| {
        global_average(&picture, &mut mean);
        mean.to_packed()
    });
    host_tensor(means.collect(), [batch, 1, 1, channels])
}

/// Self-attention over all positions of each picture.
pub(super) fn attention(qkv: Floats, heads: usize) -> Floats {
    let [batch, height, width, channels] = qkv.shape().dims();
    let attention = Attention::new(Isa::detect(), heads);
    let mut output = Plane::new(Shape::new(height, width, channels / 3, 0));
    let outputs = pictures(qkv, 0).into_iter().flat_map(|picture| {
        attention.run(&picture, &mut output);
        output.to_packed()
    });
    host_tensor(outputs.collect(), [batch, height, width, channels / 3])
}

/// The pictures of a batch, f32 `[N, H, W, C]`.
fn pictures(batch: Floats, pad: usize) -> Vec<Plane> {
    let [_, height, width, channels] = batch.shape().dims();
    let shape = Shape::new(height, width, channels, pad);
    host_floats(batch).chunks_exact(height * width * channels).map(|pixels| Plane::from_packed(shape, pixels)).collect()
}

/// The batch of the results of `run` for each of `inputs`.
fn convolved(inputs: &[Plane], channels: usize, window: Window, run: impl Fn((usize, &Plane), &mut Plane)) -> Floats {
    let Shape { height, width, .. } = inputs[0].shape();
    let [rows, columns] = [height, width].map(|extent| window.output_extent(extent));
    let mut values = Vec::with_capacity(inputs.len() * rows * columns * channels);
    for input in inputs.iter().enumerate() {
        let mut output = Plane::new(Shape::new(rows, columns, channels, 0));
        run(input, &mut output);
        values.extend(output.to_packed());
    }
    host_tensor(values, [inputs.len(), rows, columns, channels])
}
