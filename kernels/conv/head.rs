//! The network's output head: a 3×3 convolution to four channels, pixel shuffle ×2, sigmoid.

use super::dense::{RowJob, Window};
use super::dispatch::{Kernels, kernels};
use super::scratch::{self, each_strip, rows_per_task};
use super::{Activation, Dense, Filter, Isa, Plane};

/// A 3×3 convolution to four channels, pixel shuffle ×2 (channel `2 · dy + dx`), sigmoid.
///
/// Four channels would leave most lanes of a vector idle. So `g` neighbouring pixels, enough to fill the narrowest
/// vector, are computed as one pixel with a window of `g + 2` columns, with zero weights outside each pixel's window.
pub struct Head {
    kernels: &'static Kernels,
    convolution: Dense,
    group: usize,
}

impl Head {
    /// `filter` holds `[4, channels, 3, 3]` weights.
    ///
    /// # Panics
    /// When the machine lacks `isa` or `filter` has another shape.
    #[must_use]
    pub fn new(isa: Isa, channels: usize, filter: Filter<'_>) -> Self {
        assert_eq!(filter.weights.len(), 4 * channels * 9, "weights of another shape");
        assert_eq!(filter.bias.len(), 4, "bias of another length");
        let kernels = kernels(isa);
        let group = (kernels.narrowest() / 4).max(1);
        let columns = group + 2;
        let mut weights = vec![0.0; 4 * group * channels * 3 * columns];
        let mut bias = vec![0.0; 4 * group];
        for dy in 0..2 {
            for pixel in 0..group {
                for dx in 0..2 {
                    // Both columns of all pixels of the upper row, then of the lower row, as in the mask.
                    let (to, from) = ((dy * group + pixel) * 2 + dx, 2 * dy + dx);
                    bias[to] = filter.bias[from];
                    for channel in 0..channels {
                        for row in 0..3 {
                            let target = ((to * channels + channel) * 3 + row) * columns + pixel;
                            let source = ((from * channels + channel) * 3 + row) * 3;
                            weights[target..target + 3].copy_from_slice(&filter.weights[source..source + 3]);
                        }
                    }
                }
            }
        }
        let window = Window { rows: 3, columns, overhang: 1, row_stride: 1, pixel_stride: group };
        let filter = Filter { weights: &weights, bias: &bias };
        let convolution = Dense::with_window(isa, window, channels, 4 * group, filter, Activation::Linear);
        Self { kernels, convolution, group }
    }

    /// Fills `mask` (twice the rows and columns of `input`, packed) with values in 0..=1.
    ///
    /// # Panics
    /// When `mask` has another size, the width of `input` is not a multiple of 4, or `input` has no padding.
    pub fn run(&self, input: &Plane, mask: &mut [f32]) {
        let shape = input.shape();
        assert_eq!(shape.width % 4, 0, "the width must be a multiple of 4");
        assert_eq!(mask.len(), 4 * shape.height * shape.width, "a mask of another size");
        self.convolution.check_input(shape);
        let rows = rows_per_task(shape.height);
        let mask_row = 2 * shape.width;
        each_strip(mask, rows * 2 * mask_row, |task, strip| {
            scratch::with(2 * mask_row, |values| {
                for (row, pair) in strip.chunks_exact_mut(2 * mask_row).enumerate() {
                    let job = RowJob {
                        rows: self.convolution.input_rows(input, task * rows + row),
                        width: shape.width / self.group,
                        output: values.as_mut_ptr(),
                        output_stride: 4 * self.group,
                        residual: std::ptr::null(),
                        residual_stride: 0,
                        residual_shift: 0,
                    };
                    // SAFETY: the input was checked, and `values` holds four values for each of its pixels.
                    unsafe { self.convolution.run_rows(1, |_| job) };
                    // SAFETY: the machine has the instruction set (checked when packing).
                    unsafe { (self.kernels.sigmoid)(values) };
                    let (upper, lower) = pair.split_at_mut(mask_row);
                    let span = 2 * self.group;
                    for ((upper, lower), values) in upper
                        .chunks_exact_mut(span)
                        .zip(lower.chunks_exact_mut(span))
                        .zip(values.chunks_exact(2 * span))
                    {
                        upper.copy_from_slice(&values[..span]);
                        lower.copy_from_slice(&values[span..]);
                    }
                }
            });
        });
    }
}

impl std::fmt::Debug for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Head").field("convolution", &self.convolution).field("group", &self.group).finish()
    }
}
