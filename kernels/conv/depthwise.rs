//! Depthwise convolutions, 3×3 and 5×5: each output channel reads only its input channel.

use super::dispatch::{Kernels, kernels};
use super::micro_kernel::{DepthwiseRow, MAX_SIZE};
use super::plane::Aligned;
use super::{Activation, Filter, Isa, Plane, Shape};

/// A depthwise convolution of 3×3 or 5×5 with stride 1 or 2 and any dilation, padded so that its middle tap meets every
/// pixel; packed for one instruction set.
pub struct Depthwise {
    kernels: &'static Kernels,
    size: usize,
    channels: usize,
    stride: usize,
    dilation: usize,
    /// `[tap][channel]`, channels rounded up to whole vectors.
    weights: Aligned,
    bias: Aligned,
    weight_stride: usize,
    bounds: (f32, f32),
}

impl Depthwise {
    /// `filter` holds `[channels, 1, size, size]` weights; `size` is 3 or 5.
    ///
    /// # Panics
    /// When the machine lacks `isa`, there is no kernel of this size, or `filter` has another shape.
    #[must_use]
    pub fn new(
        isa: Isa,
        size: usize,
        channels: usize,
        stride: usize,
        dilation: usize,
        filter: Filter<'_>,
        activation: Activation,
    ) -> Self {
        assert!(matches!(size, 3 | MAX_SIZE), "no depthwise kernel of {size}×{size}");
        let taps = size * size;
        assert_eq!(filter.weights.len(), channels * taps, "weights of another shape");
        assert_eq!(filter.bias.len(), channels, "bias of another length");
        let kernels = kernels(isa);
        let weight_stride = channels.next_multiple_of(kernels.lanes);
        let mut weights = Aligned::default();
        weights.grow(taps * weight_stride);
        for tap in 0..taps {
            for channel in 0..channels {
                weights.as_mut_slice()[tap * weight_stride + channel] = filter.weights[channel * taps + tap];
            }
        }
        let mut bias = Aligned::default();
        bias.grow(weight_stride);
        bias.as_mut_slice()[..channels].copy_from_slice(filter.bias);
        Self { kernels, size, channels, stride, dilation, weights, bias, weight_stride, bounds: activation.bounds() }
    }

    /// Channels of input and output.
    #[must_use]
    pub const fn channels(&self) -> usize {
        self.channels
    }

    /// Output rows or columns for `extent` input rows or columns.
    #[must_use]
    pub const fn output_extent(&self, extent: usize) -> usize {
        extent.div_ceil(self.stride)
    }

    pub(super) const fn dilation(&self) -> usize {
        self.dilation
    }

    pub(super) const fn stride(&self) -> usize {
        self.stride
    }

    /// Rows or columns from the kernel's middle tap to its last tap.
    pub(super) const fn reach(&self) -> usize {
        self.size / 2 * self.dilation
    }

    /// The first and last input row of output row `y`. They may lie outside the picture.
    pub(super) fn window(&self, y: usize) -> [isize; 2] {
        let (middle, reach) = ((y * self.stride) as isize, self.reach() as isize);
        [middle - reach, middle + reach]
    }

    /// `pixels(row)` for each input row of output row `y`.
    pub(super) fn rows(&self, y: usize, pixels: impl Fn(isize) -> *const f32) -> [*const f32; MAX_SIZE] {
        let [first, _] = self.window(y);
        let mut rows = [std::ptr::null(); MAX_SIZE];
        for (index, row) in rows.iter_mut().take(self.size).enumerate() {
            *row = pixels(first + (index * self.dilation) as isize);
        }
        rows
    }

    /// Panics unless a plane of `shape` has the channels and the padding that the kernel reads.
    pub(super) fn check_input(&self, shape: Shape) {
        assert_eq!(shape.channels, self.channels, "input with another number of channels");
        assert!(shape.pad >= self.reach(), "input with too little padding");
    }

    /// Computes a row of packed output pixels from the first pixels of its [`rows`](Self::rows) (null outside).
    ///
    /// # Safety
    /// Each row is preceded and followed by `reach` zero pixels; the last output pixel's middle tap is a pixel of the
    /// row; `output` is valid for `width · channels` values.
    pub(super) unsafe fn run_row(&self, pixels: [*const f32; MAX_SIZE], width: usize, output: *mut f32) {
        let row = DepthwiseRow {
            size: self.size,
            rows: pixels.map(|row| if row.is_null() { row } else { row.wrapping_sub(self.reach() * self.channels) }),
            pixel_stride: self.stride * self.channels,
            tap_stride: self.dilation * self.channels,
            width,
            channels: self.channels,
            weights: self.weights.as_slice().as_ptr(),
            weight_stride: self.weight_stride,
            bias: self.bias.as_slice().as_ptr(),
            output,
            bounds: self.bounds,
        };
        // SAFETY: the machine has the instruction set (checked when packing); weights and bias are padded to whole
        // vectors; the rows are the caller's promise.
        unsafe { (self.kernels.depthwise_row)(&row) };
    }

    /// Convolves a whole plane, on this thread.
    ///
    /// # Panics
    /// When the planes do not fit, or `input` has less padding than the kernel reaches.
    pub fn run(&self, input: &Plane, output: &mut Plane) {
        let (from, to) = (input.shape(), output.shape());
        self.check_input(from);
        let expected =
            Shape::new(self.output_extent(from.height), self.output_extent(from.width), self.channels, to.pad);
        assert_eq!(to, expected, "output of another shape");
        for (y, row) in output.data_mut().chunks_exact_mut(to.row()).enumerate() {
            let pixels = self.rows(y, |y| input.pixel_row(y));
            // SAFETY: the input's padding was checked, and the output row has room for its pixels.
            unsafe { self.run_row(pixels, to.width, row[to.margin()..].as_mut_ptr()) };
        }
    }
}

impl std::fmt::Debug for Depthwise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Depthwise")
            .field("size", &self.size)
            .field("channels", &self.channels)
            .field("stride", &self.stride)
            .field("dilation", &self.dilation)
            .finish_non_exhaustive()
    }
}
