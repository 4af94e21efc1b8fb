//! Depthwise 3×3 convolutions: every channel sees only itself.

use super::plane::Aligned;
use super::simd::{Kernels, kernels};
use super::tile::DepthwiseRow;
use super::{Activation, Filter, Isa, Plane, Shape};

/// A depthwise 3×3 convolution with stride 1 or 2 and any dilation, padded by the dilation; packed for one
/// instruction set.
pub struct Depthwise {
    kernels: &'static Kernels,
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
    /// `filter` holds `[channels, 1, 3, 3]` weights.
    ///
    /// # Panics
    /// When the machine lacks `isa` or `filter` has another shape.
    #[must_use]
    pub fn new(
        isa: Isa,
        channels: usize,
        stride: usize,
        dilation: usize,
        filter: Filter<'_>,
        activation: Activation,
    ) -> Self {
        assert_eq!(filter.weights.len(), channels * 9, "weights of another shape");
        assert_eq!(filter.bias.len(), channels, "bias of another length");
        let kernels = kernels(isa);
        let weight_stride = channels.next_multiple_of(kernels.lanes);
        let mut weights = Aligned::default();
        weights.grow(9 * weight_stride);
        for tap in 0..9 {
            for channel in 0..channels {
                weights.as_mut_slice()[tap * weight_stride + channel] = filter.weights[channel * 9 + tap];
            }
        }
        let mut bias = Aligned::default();
        bias.grow(weight_stride);
        bias.as_mut_slice()[..channels].copy_from_slice(filter.bias);
        Self { kernels, channels, stride, dilation, weights, bias, weight_stride, bounds: activation.bounds() }
    }

    /// Channels, of input and output.
    #[must_use]
    pub const fn channels(&self) -> usize {
        self.channels
    }

    /// Output rows, or columns, for so many input rows, or columns.
    #[must_use]
    pub const fn output_extent(&self, extent: usize) -> usize {
        extent.div_ceil(self.stride)
    }

    /// Distance between neighbouring taps.
    pub(super) const fn dilation(&self) -> usize {
        self.dilation
    }

    /// Input rows from one output row to the next.
    pub(super) const fn stride(&self) -> usize {
        self.stride
    }

    /// The input rows that output row `y` sees: above, middle, below. Some may lie outside the picture.
    pub(super) fn window(&self, y: usize) -> [isize; 3] {
        let middle = (y * self.stride) as isize;
        let reach = self.dilation as isize;
        [middle - reach, middle, middle + reach]
    }

    /// Panics unless a plane of `shape` can be read without a look at its edges.
    pub(super) fn check_input(&self, shape: Shape) {
        assert_eq!(shape.channels, self.channels, "input with another number of channels");
        assert!(shape.pad >= self.dilation, "input with too little padding");
    }

    /// Computes one row of packed output pixels from the first pixels of three input rows (null outside the picture).
    ///
    /// # Safety
    /// Each row is preceded and followed by `dilation` zero pixels; the last output pixel's middle tap is a pixel of
    /// the row; `output` is good for `width · channels` values.
    pub(super) unsafe fn run_row(&self, pixels: [*const f32; 3], width: usize, output: *mut f32) {
        let row = DepthwiseRow {
            rows: pixels.map(|row| if row.is_null() { row } else { row.wrapping_sub(self.dilation * self.channels) }),
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
    /// When the planes do not fit, or `input` has less padding than the dilation.
    pub fn run(&self, input: &Plane, output: &mut Plane) {
        let (from, to) = (input.shape(), output.shape());
        self.check_input(from);
        let expected =
            Shape::new(self.output_extent(from.height), self.output_extent(from.width), self.channels, to.pad);
        assert_eq!(to, expected, "output of another shape");
        for (y, row) in output.data_mut().chunks_exact_mut(to.row()).enumerate() {
            let pixels = self.window(y).map(|y| input.pixel_row(y));
            // SAFETY: the input's padding was checked, and the output row has room for its pixels.
            unsafe { self.run_row(pixels, to.width, row[to.margin()..].as_mut_ptr()) };
        }
    }
}

impl std::fmt::Debug for Depthwise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Depthwise")
            .field("channels", &self.channels)
            .field("stride", &self.stride)
            .field("dilation", &self.dilation)
            .finish_non_exhaustive()
    }
}
