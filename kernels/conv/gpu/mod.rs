//! The convolutions of this folder on a GPU, and global pooling and attention, on planes of f32 `[N, H, W, C]`.
//!
//! A work item computes four channels of four pixels, whose sums stay in registers. Neighbouring work items compute
//! other channels of these pixels, so one load of an input value serves all of them, and consecutive items read
//! consecutive weights. Without shared memory and barriers, nothing has to be tuned to a device.
//!
//! Every output value is the CPU's chain of operations (bias, then rows, columns and channels in order).

mod attention;
mod dense;
mod depthwise;
mod global_pool;
mod work;

pub use attention::attention;
pub use global_pool::global_average;

use super::{Activation, Filter};
use burn::tensor::{Device, Tensor, TensorData};
use dense::dense;
use depthwise::depthwise;

/// Channels of a vector, and pixels of a work item.
const VECTOR: usize = 4;

/// A convolution's window, with the operations after its sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Side of the kernel; it reads zeros outside the picture, `dilation * (size / 2)` pixels on each side.
    size: usize,
    stride: usize,
    /// Input pixels from one tap to the next; 1 for dense convolutions.
    dilation: usize,
    activation: Activation,
    added: Added,
}

/// The plane whose pixel is added to a sum before the activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Added {
    Nothing,
    Same,
    /// A plane of half the size, upsampled by repetition.
    Upsampled,
}

impl Window {
    /// Shape of the output with `channels`, for an input `[N, H, W, C]`.
    const fn output_shape(self, [batch, height, width, _]: [usize; 4], channels: usize) -> [usize; 4] {
        [batch, height.div_ceil(self.stride), width.div_ceil(self.stride), channels]
    }

    /// Pixels of the first output pixel's window that lie outside the picture.
    const fn overhang(self) -> usize {
        self.dilation * (self.size / 2)
    }
}

/// A plane that is added to a convolution's sums before the activation: f32 `[N, H, W, C]`.
#[derive(Clone, Debug)]
pub enum Residual {
    /// No plane.
    None,
    /// The plane's pixel at the output's position.
    Same(Tensor<4>),
    /// A plane of half the size, whose pixels are repeated two by two (nearest-neighbour upsampling).
    Upsampled(Tensor<4>),
}

/// A dense convolution whose weights are on a device.
#[derive(Clone, Debug)]
pub struct Dense {
    /// `[taps · channels in, channels out]`, both channels in whole vectors.
    weights: Tensor<2>,
    /// `[channels out]`.
    bias: Tensor<1>,
    /// Placeholder of an absent residual.
    nothing: Tensor<4>,
    window: Window,
    channels_in: usize,
    channels_out: usize,
}

impl Dense {
    /// Uploads the weights of a square `size`×`size` kernel with `stride`, padded by `size / 2`.
    ///
    /// # Panics
    /// When `filter` does not hold `channels_out × channels_in × size × size` weights.
    #[must_use]
    pub fn new(
        size: usize,
        stride: usize,
        [channels_in, channels_out]: [usize; 2],
        filter: Filter<'_>,
        activation: Activation,
        device: &Device,
    ) -> Self {
        let taps = size * size;
        assert_eq!(filter.weights.len(), channels_out * channels_in * taps, "weights of another shape");
        assert_eq!(filter.bias.len(), channels_out, "bias of another length");
        let [rows, columns] = [channels_in, channels_out].map(|channels| channels.next_multiple_of(VECTOR));
        let mut weights = vec![0.0; taps * rows * columns];
        for (at, &weight) in filter.weights.iter().enumerate() {
            let (out, channel, tap) = (at / (channels_in * taps), at / taps % channels_in, at % taps);
            weights[(tap * rows + channel) * columns + out] = weight;
        }
        Self {
            weights: Tensor::from_data(TensorData::new(weights, [taps * rows, columns]), device),
            bias: vector(filter.bias, columns, device),
            nothing: Tensor::zeros([1, 1, 1, VECTOR], device),
            window: Window { size, stride, dilation: 1, activation, added: Added::Nothing },
            channels_in,
            channels_out,
        }
    }

    /// `input`: f32 `[N, H, W, channels in]`. Returns f32 `[N, H / stride, W / stride, channels out]`, rounded up.
    ///
    /// # Panics
    /// When the input's channels or the residual's shape do not fit.
    #[must_use]
    pub fn run(&self, input: Tensor<4>, residual: Residual) -> Tensor<4> {
        let shape = input.dims();
        assert_eq!(shape[3], self.channels_in, "a convolution of other channels");
        let output @ [batch, rows, columns, _] = self.window.output_shape(shape, self.channels_out);
        let (residual, added) = match residual {
            Residual::None => (self.nothing.clone(), Added::Nothing),
            Residual::Same(plane) => {
                assert_eq!(plane.dims(), output, "a residual of another shape");
                (in_vectors(plane), Added::Same)
            }
            Residual::Upsampled(plane) => {
                let half = [batch, rows / 2, columns / 2, self.channels_out];
                assert_eq!(plane.dims(), half, "a residual of another shape");
                (in_vectors(plane), Added::Upsampled)
            }
        };
        let window = Window { added, ..self.window };
        let output = dense(in_vectors(input), self.weights.clone(), self.bias.clone(), residual, window);
        if output.dims()[3] == self.channels_out { output } else { output.narrow(3, 0, self.channels_out) }
    }
}

/// A depthwise convolution whose weights are on a device.
#[derive(Clone, Debug)]
pub struct Depthwise {
    /// `[taps, channels]`.
    weights: Tensor<2>,
    /// `[channels]`.
    bias: Tensor<1>,
    window: Window,
}

impl Depthwise {
    /// Uploads the weights of a square `size`×`size` kernel, padded so that its middle tap meets every pixel.
    ///
    /// # Panics
    /// When `filter` does not hold `channels × size × size` weights, or the channels are no multiple of four.
    #[must_use]
    pub fn new(
        size: usize,
        channels: usize,
        stride: usize,
        dilation: usize,
        filter: Filter<'_>,
        activation: Activation,
        device: &Device,
    ) -> Self {
        let taps = size * size;
        assert_eq!(filter.weights.len(), channels * taps, "weights of another shape");
        assert_eq!(filter.bias.len(), channels, "bias of another length");
        assert!(channels.is_multiple_of(VECTOR), "{channels} channels are not whole vectors");
        let mut weights = vec![0.0; taps * channels];
        for (at, &weight) in filter.weights.iter().enumerate() {
            weights[at % taps * channels + at / taps] = weight;
        }
        Self {
            weights: Tensor::from_data(TensorData::new(weights, [taps, channels]), device),
            bias: vector(filter.bias, channels, device),
            window: Window { size, stride, dilation, activation, added: Added::Nothing },
        }
    }

    /// `input`: f32 `[N, H, W, C]`. Returns f32 `[N, H / stride, W / stride, C]`, rounded up.
    ///
    /// # Panics
    /// When the input's channels do not fit.
    #[must_use]
    pub fn run(&self, input: Tensor<4>) -> Tensor<4> {
        assert_eq!(input.dims()[3..], self.bias.dims(), "a convolution of other channels");
        depthwise(input, self.weights.clone(), self.bias.clone(), self.window)
    }
}

/// `values` and zeros up to `length`.
fn vector(values: &[f32], length: usize, device: &Device) -> Tensor<1> {
    let mut values = values.to_vec();
    values.resize(length, 0.0);
    Tensor::from_data(TensorData::new(values, [length]), device)
}

/// `plane` with channels of zeros up to whole vectors.
fn in_vectors(plane: Tensor<4>) -> Tensor<4> {
    let [batch, height, width, channels] = plane.dims();
    let missing = channels.next_multiple_of(VECTOR) - channels;
    if missing == 0 {
        return plane;
    }
    let zeros = Tensor::zeros([batch, height, width, missing], &plane.device());
    Tensor::cat(vec![plane, zeros], 3)
}
