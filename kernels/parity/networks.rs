//! Comparisons of the networks' kernels, and of the kernel of the segmentation network's input.

use super::{GRID, Kernel, Random, Scene, values};
use crate::conv::gpu::{Dense, Depthwise, Residual, attention, global_average};
use crate::conv::{self, Activation, Filter, Isa, Shape};
use crate::model_input;
use burn::tensor::{Device, Tensor, TensorData};

/// The kernels of the networks, and of the segmentation network's input.
pub const NETWORKS: [Kernel; 2] = [
    // Sums of up to (4096 / 48)² products in another order.
    Kernel::new("model_input", 1e-5, expected_model_input, run_model_input),
    // Sums of up to 181 products; a multiply-add may be rounded once or twice.
    Kernel::new("conv", 1e-5, expected_conv, run_conv),
];

fn expected_model_input(scene: &Scene) -> Vec<f32> {
    let mut input = vec![0.0; 3 * GRID * GRID];
    model_input::cpu::model_input(&scene.pixels, scene.width, scene.height, GRID, 0, &mut input);
    input
}

fn run_model_input(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    values(model_input::gpu::model_input(scene.picture_on(device), GRID))
}

/// A convolution's parameters: values in -0.25..=0.25.
struct Parameters {
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Parameters {
    fn new(weights: usize, bias: usize) -> Self {
        let mut random = Random(weights as u32);
        let mut values = |count| (0..count).map(|_| f32::from(random.byte()) / 510.0 - 0.25).collect();
        Self { weights: values(weights), bias: values(bias) }
    }

    fn dense(size: usize, [channels_in, channels_out]: [usize; 2]) -> Self {
        Self::new(channels_in * channels_out * size * size, channels_out)
    }

    fn depthwise(size: usize) -> Self {
        Self::new(CHANNELS * size * size, CHANNELS)
    }

    fn filter(&self) -> Filter<'_> {
        Filter { weights: &self.weights, bias: &self.bias }
    }
}

/// Channels of the depthwise convolutions.
const CHANNELS: usize = 20;

/// The scene's pixels in -1..=1, and in reverse order.
fn pictures(scene: &Scene) -> [Vec<f32>; 2] {
    let pixels = scene.pixels.as_chunks::<4>().0;
    let encoded = |pixel: &[u8; 4]| [0, 1, 2].map(|channel| f32::from(pixel[channel]) / 127.5 - 1.0);
    [pixels.iter().flat_map(encoded).collect(), pixels.iter().rev().flat_map(encoded).collect()]
}

fn padded(plane: &conv::Plane, pad: usize) -> conv::Plane {
    conv::Plane::from_packed(Shape { pad, ..plane.shape() }, &plane.to_packed())
}

fn expected_conv(scene: &Scene) -> Vec<f32> {
    let dense = |size, stride, outputs, activation, input: &conv::Plane, residual: conv::Residual<'_>| {
        let inputs = input.shape().channels;
        let parameters = Parameters::dense(size, [inputs, outputs]);
        let filter = parameters.filter();
        let convolution = conv::Dense::new(Isa::detect(), size, stride, inputs, outputs, filter, activation);
        let mut output = conv::Plane::new(convolution.output_shape(input.shape(), 0));
        convolution.run(&padded(input, size / 2), residual, &mut output);
        output
    };
    let depthwise = |size, stride, dilation, activation, input: &conv::Plane| {
        let parameters = Parameters::depthwise(size);
        let filter = parameters.filter();
        let convolution = conv::Depthwise::new(Isa::detect(), size, CHANNELS, stride, dilation, filter, activation);
        let [height, width] = [input.shape().height, input.shape().width].map(|side| convolution.output_extent(side));
        let mut output = conv::Plane::new(Shape::new(height, width, CHANNELS, 0));
        convolution.run(&padded(input, dilation * (size / 2)), &mut output);
        output
    };
    let none = conv::Residual::None;
    let [first, second] = pictures(scene).map(|picture| {
        let picture = conv::Plane::from_packed(Shape::new(scene.height, scene.width, 3, 0), &picture);
        let strided = dense(3, 2, CHANNELS, Activation::Relu6, &picture, none);
        let wide = depthwise(5, 1, 1, Activation::Linear, &strided);
        let dilated = depthwise(3, 1, 3, Activation::Relu, &wide);
        let added = dense(1, 1, CHANNELS, Activation::Relu, &dilated, conv::Residual::Same(&wide));
        let halved = depthwise(3, 2, 1, Activation::Relu6, &added);
        let mut average = conv::Plane::new(Shape::new(1, 1, CHANNELS, 0));
        conv::global_average(&added, &mut average);
        let narrow = dense(1, 1, 7, Activation::Linear, &average, none);
        [strided, wide, halved, narrow]
    });
    let grid = conv::Plane::from_packed(Shape::new(GRID / 2, GRID / 2, 4, 0), &scene.mask);
    let mut attended = conv::Plane::new(Shape::new(GRID / 2, GRID / 2, 16, 0));
    conv::Attention::new(Isa::detect(), 2).run(&dense(1, 1, 48, Activation::Linear, &grid, none), &mut attended);
    let finer = dense(3, 1, 16, Activation::Linear, &grid, none);
    let finer = conv::Plane::from_packed(Shape::new(GRID, GRID, 4, 0), &finer.to_packed());
    let upsampled = dense(1, 1, 4, Activation::Linear, &finer, conv::Residual::Upsampled(&grid));
    let stages = first.into_iter().zip(second).flat_map(|(first, second)| [first, second]);
    stages.chain([attended, upsampled]).flat_map(|plane| plane.to_packed()).collect()
}

fn run_conv(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let dense = |size, stride, channels, activation| {
        Dense::new(size, stride, channels, Parameters::dense(size, channels).filter(), activation, device)
    };
    let depthwise = |size, stride, dilation, activation| {
        let parameters = Parameters::depthwise(size);
        Depthwise::new(size, CHANNELS, stride, dilation, parameters.filter(), activation, device)
    };
    let pictures = TensorData::new(pictures(scene).concat(), [2, scene.height, scene.width, 3]);
    let pictures = Tensor::<4>::from_data(pictures, device);
    let strided = dense(3, 2, [3, CHANNELS], Activation::Relu6).run(pictures, Residual::None);
    let wide = depthwise(5, 1, 1, Activation::Linear).run(strided.clone());
    let dilated = depthwise(3, 1, 3, Activation::Relu).run(wide.clone());
    let added = dense(1, 1, [CHANNELS; 2], Activation::Relu).run(dilated, Residual::Same(wide.clone()));
    let halved = depthwise(3, 2, 1, Activation::Relu6).run(added.clone());
    // Seven channels are not whole vectors.
    let narrow = dense(1, 1, [CHANNELS, 7], Activation::Linear).run(global_average(added), Residual::None);
    // The network's grid, and one of twice its side.
    let grid = scene.mask_on(device).reshape([1, GRID / 2, GRID / 2, 4]);
    let attended = attention(dense(1, 1, [4, 48], Activation::Linear).run(grid.clone(), Residual::None), 2);
    let finer = dense(3, 1, [4, 16], Activation::Linear).run(grid.clone(), Residual::None);
    let finer = finer.reshape([1, GRID, GRID, 4]);
    let upsampled = dense(1, 1, [4, 4], Activation::Linear).run(finer, Residual::Upsampled(grid));
    let mut results = Vec::new();
    for plane in [strided, wide, halved, narrow, attended, upsampled] {
        results.extend(values(plane)?);
    }
    Ok(results)
}
