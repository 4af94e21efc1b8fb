//! Dense convolutions, where every output channel reads every input channel, and their sum with a pixel shuffle.

use super::dispatch::{Bf16Kernels, kernels};
use super::micro_kernel::DenseRow;
use super::plane::Aligned;
use super::scratch::{each_strip, rows_per_task, with_pairs};
use super::{Activation, Filter, Isa, Plane, Shape};

/// A plane added to a convolution's sums before the activation.
#[derive(Clone, Copy, Debug)]
pub enum Residual<'a> {
    /// No plane.
    None,
    /// The plane's pixel at the output's position.
    Same(&'a Plane),
    /// A plane of half the size, whose pixels are repeated two by two (nearest-neighbour upsampling).
    Upsampled(&'a Plane),
}

/// A dense convolution of one or three kernel rows, packed for one instruction set.
///
/// Zeros outside the picture: `columns / 2` pixels left and right, `rows / 2` above and below. A 1×1 kernel reads
/// one pixel, a 3×3 kernel with stride 2 is the strided convolution of PyTorch with padding 1.
pub struct Dense {
    /// Micro-kernels of a convolution in bfloat16.
    bf16: Option<Bf16Kernels>,
    blocks: Vec<Block>,
    weights: Aligned,
    bias: Aligned,
    channels_in: usize,
    channels_out: usize,
    kernel_rows: usize,
    kernel_columns: usize,
    /// Pixels of the first output pixel's window that lie left of the picture.
    overhang: usize,
    row_stride: usize,
    pixel_stride: usize,
    bounds: (f32, f32),
}

/// Output channels that are computed together.
#[derive(Clone, Copy)]
struct Block {
    row: unsafe fn(&DenseRow),
    first_channel: usize,
    /// Including channels that only fill the last vector.
    channels: usize,
    last_lanes: usize,
    weights_at: usize,
}

/// Input, output and residual of one row of output pixels: pointers to the first pixels, all channels.
#[derive(Clone, Copy)]
pub(super) struct RowJob {
    pub(super) rows: [*const f32; 3],
    pub(super) width: usize,
    pub(super) output: *mut f32,
    pub(super) output_stride: usize,
    pub(super) residual: *const f32,
    pub(super) residual_stride: usize,
    pub(super) residual_shift: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) overhang: usize,
    pub(super) row_stride: usize,
    pub(super) pixel_stride: usize,
}

impl Dense {
    /// A square `size`×`size` kernel (1 or 3) with `stride`, padded by `size / 2`.
    ///
    /// # Panics
    /// When the machine lacks `isa` or `filter` does not hold `channels_out × channels_in × size × size` weights.
    #[must_use]
    pub fn new(
        isa: Isa,
        size: usize,
        stride: usize,
        channels_in: usize,
        channels_out: usize,
        filter: Filter<'_>,
        activation: Activation,
    ) -> Self {
        let window = Window { rows: size, columns: size, overhang: size / 2, row_stride: stride, pixel_stride: stride };
        Self::with_window(isa, window, channels_in, channels_out, filter, activation)
    }

    pub(super) fn with_window(
        isa: Isa,
        window: Window,
        channels_in: usize,
        channels_out: usize,
        filter: Filter<'_>,
        activation: Activation,
    ) -> Self {
        let Window { rows, columns, overhang, row_stride, pixel_stride } = window;
        assert!(rows == 1 || rows == 3, "a kernel has one or three rows");
        assert_eq!(filter.weights.len(), channels_out * channels_in * rows * columns, "weights of another shape");
        assert_eq!(filter.bias.len(), channels_out, "bias of another length");
        let kernels = kernels(isa);
        // Pairs of values must not straddle pixels: the three channels of the stem stay in f32.
        let bf16 = kernels.bf16.filter(|_| channels_in.is_multiple_of(2));
        let values_per_tap = if bf16.is_some() { 2 } else { 1 };
        let dense_row = bf16.map_or(kernels.dense_row, |bf16| bf16.dense_row);
        let (lanes, half) = (kernels.lanes, kernels.half_row.map_or(0, |_| kernels.lanes / 2));
        let mut blocks = Vec::new();
        let (mut first_channel, mut weights_at) = (0, 0);
        while first_channel < channels_out {
            let left = channels_out - first_channel;
            // One vector and a half are two blocks.
            let (row, channels) = match kernels.half_row {
                Some(row) if left <= half => (row, half),
                _ if left <= lanes + half => (dense_row[0], lanes),
                _ => (dense_row[1], 2 * lanes),
            };
            let last_lanes = left.min(channels) - channels.saturating_sub(lanes);
            blocks.push(Block { row, first_channel, channels, last_lanes, weights_at });
            weights_at += rows * columns * channels_in / values_per_tap * channels;
            first_channel += channels;
        }
        let mut weights = Aligned::default();
        weights.grow(weights_at);
        for block in &blocks {
            let packed = &mut weights.as_mut_slice()[block.weights_at..];
            for lane in 0..block.channels.min(channels_out - block.first_channel) {
                let source = &filter.weights[(block.first_channel + lane) * channels_in * rows * columns..];
                for channel in 0..channels_in {
                    for position in 0..rows * columns {
                        let (weight, tap) =
                            (source[channel * rows * columns + position], position * channels_in + channel);
                        if bf16.is_some() {
                            let pair = &mut packed[tap / 2 * block.channels + lane];
                            let half = u32::from(bf16_bits(weight)) << (16 * (tap % 2));
                            *pair = f32::from_bits(pair.to_bits() | half);
                        } else {
                            packed[tap * block.channels + lane] = weight;
                        }
                    }
                }
            }
        }
        let mut bias = Aligned::default();
        bias.grow(first_channel);
        bias.as_mut_slice()[..channels_out].copy_from_slice(filter.bias);
        Self {
            bf16,
            blocks,
            weights,
            bias,
            channels_in,
            channels_out,
            kernel_rows: rows,
            kernel_columns: columns,
            overhang,
            row_stride,
            pixel_stride,
            bounds: activation.bounds(),
        }
    }

    /// Output channels.
    #[must_use]
    pub const fn channels_out(&self) -> usize {
        self.channels_out
    }

    /// Input channels.
    #[must_use]
    pub const fn channels_in(&self) -> usize {
        self.channels_in
    }

    /// Whether it is a 3×3 kernel with stride 1, whose output has the size of its input.
    pub(super) const fn is_same_sized(&self) -> bool {
        self.kernel_rows == 3
            && self.kernel_columns == 3
            && self.overhang == 1
            && self.row_stride == 1
            && self.pixel_stride == 1
    }

    pub(super) const fn is_pointwise(&self) -> bool {
        self.kernel_rows == 1 && self.kernel_columns == 1 && self.row_stride == 1 && self.pixel_stride == 1
    }

    /// The extent of the result for an input of `shape`, with `pad` zero pixels around its rows.
    #[must_use]
    pub const fn output_shape(&self, shape: Shape, pad: usize) -> Shape {
        Shape::new(
            shape.height.div_ceil(self.row_stride),
            shape.width.div_ceil(self.pixel_stride),
            self.channels_out,
            pad,
        )
    }

    /// Convolves `input` into `output`.
    ///
    /// # Panics
    /// When the planes do not fit the kernel or each other, or `input` has less padding than the kernel needs.
    pub fn run(&self, input: &Plane, residual: Residual<'_>, output: &mut Plane) {
        let shape = output.shape();
        assert_eq!(shape, self.output_shape(input.shape(), shape.pad), "output of another shape");
        self.check_input(input.shape());
        check_residual(residual, shape);
        let rows = rows_per_task(shape.height);
        each_strip(output.data_mut(), rows * shape.row(), |task, strip| {
            let first = task * rows;
            let count = strip.len() / shape.row();
            let target = strip.as_mut_ptr();
            let job = |row: usize| {
                let (from, residual_stride, residual_shift) = residual_row(residual, first + row);
                RowJob {
                    rows: self.input_rows(input, first + row),
                    width: shape.width,
                    // SAFETY: `row < count`, so the row begins inside this task's strip.
                    output: unsafe { target.add(row * shape.row() + shape.margin()) },
                    output_stride: shape.channels,
                    residual: from,
                    residual_stride,
                    residual_shift,
                }
            };
            // SAFETY: shapes were checked above, so the pointers cover a full row; no other task writes to this strip.
            unsafe { self.run_rows(count, job) };
        });
    }

    /// Computes `count` rows, each by its `job`. The loop over rows is inside the loop over channel blocks, so that the
    /// weights of a block stay in the cache for all rows.
    ///
    /// # Safety
    /// The pointers of each job are valid for a whole row of input, residual and output of this convolution.
    pub(super) unsafe fn run_rows(&self, count: usize, job: impl Fn(usize) -> RowJob) {
        match self.bf16 {
            // SAFETY: the caller's promise.
            Some(bf16) => unsafe { self.run_rows_bf16(bf16, count, job) },
            // SAFETY: the caller's promise.
            None => unsafe { self.run_blocks(count, 1, job) },
        }
    }

    /// As [`run_rows`](Self::run_rows): rounds a few rows of the input to bfloat16 at a time, and convolves them.
    ///
    /// # Safety
    /// As `run_rows`; also, the input rows of each job follow the rows of the previous job.
    unsafe fn run_rows_bf16(&self, bf16: Bf16Kernels, count: usize, job: impl Fn(usize) -> RowJob) {
        /// This many pairs of an input stay in the second-level cache, together with weights and results.
        const PAIRS: usize = 1 << 15;
        let taps = self.kernel_columns * self.channels_in;
        let mut done = 0;
        while done < count {
            let values = (job(done).width - 1) * self.pixel_stride * self.channels_in + taps;
            let line = (values / 2).next_multiple_of(16);
            let step = (PAIRS / (line * self.row_stride)).clamp(1, count - done);
            with_pairs(((step - 1) * self.row_stride + self.kernel_rows) * line, |pairs| {
                let pairs = pairs.as_mut_ptr();
                let slot =
                    |row: usize, kernel_row: usize| pairs.wrapping_add((row * self.row_stride + kernel_row) * line);
                for row in 0..step {
                    // The rows above were rounded for the previous job.
                    let first = if row == 0 { 0 } else { self.kernel_rows.saturating_sub(self.row_stride) };
                    let input = job(done + row).rows;
                    for kernel_row in (first..self.kernel_rows).filter(|&kernel_row| !input[kernel_row].is_null()) {
                        // SAFETY: the row's taps are readable, and each slot holds half as many pairs.
                        unsafe { (bf16.round)(input[kernel_row], slot(row, kernel_row), values) };
                    }
                }
                let rounded = |row: usize| {
                    let mut job = job(done + row);
                    for (kernel_row, input) in job.rows.iter_mut().enumerate().filter(|(_, input)| !input.is_null()) {
                        *input = slot(row, kernel_row).cast_const();
                    }
                    job
                };
                // SAFETY: the slots hold the pairs of every row that is read; all else is the caller's promise.
                unsafe { self.run_blocks(step, 2, rounded) };
            });
            done += step;
        }
    }

    /// Computes `count` rows of inputs that hold `values_per_tap` values in each f32.
    ///
    /// # Safety
    /// As [`run_rows`](Self::run_rows).
    unsafe fn run_blocks(&self, count: usize, values_per_tap: usize, job: impl Fn(usize) -> RowJob) {
        for block in &self.blocks {
            for row in 0..count {
                let job = job(row);
                let residual =
                    if job.residual.is_null() { job.residual } else { job.residual.wrapping_add(block.first_channel) };
                let row = DenseRow {
                    rows: job.rows,
                    kernel_rows: self.kernel_rows,
                    taps: self.kernel_columns * self.channels_in / values_per_tap,
                    pixel_stride: self.pixel_stride * self.channels_in / values_per_tap,
                    width: job.width,
                    weights: self.weights.as_slice()[block.weights_at..].as_ptr(),
                    bias: self.bias.as_slice()[block.first_channel..].as_ptr(),
                    last_lanes: block.last_lanes,
                    output: job.output.wrapping_add(block.first_channel),
                    output_stride: job.output_stride,
                    residual,
                    residual_stride: job.residual_stride,
                    residual_shift: job.residual_shift,
                    bounds: self.bounds,
                };
                // SAFETY: the machine has the instruction set (checked when packing); weights and bias are padded to
                // whole vectors; the job's pointers are the caller's promise.
                unsafe { (block.row)(&row) };
            }
        }
    }

    pub(super) fn input_rows(&self, input: &Plane, y: usize) -> [*const f32; 3] {
        let top = (y * self.row_stride) as isize - (self.kernel_rows / 2) as isize;
        std::array::from_fn(|row| {
            if row >= self.kernel_rows {
                return std::ptr::null();
            }
            let pixels = input.pixel_row(top + row as isize);
            if pixels.is_null() { pixels } else { pixels.wrapping_sub(self.overhang * self.channels_in) }
        })
    }

    /// Panics unless a plane of `shape` has the channels and the padding that the kernel reads.
    pub(super) fn check_input(&self, shape: Shape) {
        assert_eq!(shape.channels, self.channels_in, "input with another number of channels");
        let last = (shape.width.div_ceil(self.pixel_stride) - 1) * self.pixel_stride + self.kernel_columns;
        assert!(
            shape.pad >= self.overhang && last <= shape.width + shape.pad + self.overhang,
            "input with too little padding"
        );
    }
}

impl std::fmt::Debug for Dense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dense")
            .field("channels", &(self.channels_in, self.channels_out))
            .field("kernel", &(self.kernel_rows, self.kernel_columns))
            .field("stride", &self.pixel_stride)
            .finish_non_exhaustive()
    }
}

/// The nearest bfloat16, ties to even: the upper half of an f32.
fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// Panics unless `residual` can be added to an output of `shape`.
pub(super) fn check_residual(residual: Residual<'_>, shape: Shape) {
    let (plane, scale) = match residual {
        Residual::None => return,
        Residual::Same(plane) => (plane.shape(), 1),
        Residual::Upsampled(plane) => (plane.shape(), 2),
    };
    assert_eq!(
        (plane.height * scale, plane.width * scale, plane.channels),
        (shape.height, shape.width, shape.channels),
        "residual of another shape"
    );
}

/// First pixel, pixel stride and shift of the residual for output row `y`.
pub(super) fn residual_row(residual: Residual<'_>, y: usize) -> (*const f32, usize, u32) {
    match residual {
        Residual::None => (std::ptr::null(), 0, 0),
        Residual::Same(plane) => (plane.pixel_row(y as isize), plane.shape().channels, 0),
        Residual::Upsampled(plane) => (plane.pixel_row((y / 2) as isize), plane.shape().channels, 1),
    }
}

/// A 1×1 convolution whose `4 · c` channels are shuffled into twice the rows and columns of `c` channels (PyTorch's
/// pixel shuffle, channel `4 · c + 2 · dy + dx`), added to a 1×1 convolution of a plane of that size, then activated.
///
/// Two neighbouring pixels of a shuffled row are `2 · c` consecutive values, so the shuffle is two ordinary
/// convolutions with reordered weights, one for each `dy`, that write every other row.
pub struct ShuffledPair {
    /// For `dy` = 0 and 1: the channels of both `dx`.
    coarse: [Dense; 2],
    fine: Dense,
}

impl ShuffledPair {
    /// `coarse`: 1×1, `channels_coarse → 4 · channels_out`. `fine`: 1×1, `channels_fine → channels_out`.
    ///
    /// # Panics
    /// As [`Dense::new`].
    #[must_use]
    pub fn new(
        isa: Isa,
        channels_coarse: usize,
        coarse: Filter<'_>,
        channels_fine: usize,
        fine: Filter<'_>,
        channels_out: usize,
        activation: Activation,
    ) -> Self {
        assert_eq!(coarse.weights.len(), 4 * channels_out * channels_coarse, "weights of another shape");
        assert_eq!(coarse.bias.len(), 4 * channels_out, "bias of another length");
        let half = |dy: usize| {
            let order = || (0..2 * channels_out).map(|o| (o % channels_out) * 4 + dy * 2 + o / channels_out);
            let weights: Vec<f32> =
                order().flat_map(|o| &coarse.weights[o * channels_coarse..][..channels_coarse]).copied().collect();
            let bias: Vec<f32> = order().map(|o| coarse.bias[o]).collect();
            let filter = Filter { weights: &weights, bias: &bias };
            Dense::new(isa, 1, 1, channels_coarse, 2 * channels_out, filter, Activation::Linear)
        };
        Self { coarse: [half(0), half(1)], fine: Dense::new(isa, 1, 1, channels_fine, channels_out, fine, activation) }
    }

    /// `act(shuffle(coarse ∗ w) + fine ∗ v)`; `fine` and `output` have twice the height and width of `coarse`.
    ///
    /// # Panics
    /// When the planes do not fit.
    pub fn run(&self, coarse: &Plane, fine: &Plane, output: &mut Plane) {
        let shape = output.shape();
        let half = coarse.shape();
        assert_eq!((shape.height, shape.width), (half.height * 2, half.width * 2), "output of another shape");
        assert_eq!(shape, self.fine.output_shape(fine.shape(), shape.pad), "output of another shape");
        self.coarse[0].check_input(half);
        self.fine.check_input(fine.shape());
        let rows = rows_per_task(half.height);
        each_strip(output.data_mut(), 2 * rows * shape.row(), |task, strip| {
            let count = strip.len() / (2 * shape.row());
            // SAFETY (of the offset): callers pass rows below `2 · count`.
            let target = strip.as_mut_ptr();
            let place = |row: usize| target.wrapping_add(row * shape.row() + shape.margin());
            for (dy, convolution) in self.coarse.iter().enumerate() {
                let job = |row: usize| RowJob {
                    rows: convolution.input_rows(coarse, task * rows + row),
                    width: half.width,
                    output: place(2 * row + dy),
                    output_stride: 2 * shape.channels,
                    residual: std::ptr::null(),
                    residual_stride: 0,
                    residual_shift: 0,
                };
                // SAFETY: shapes were checked; a row of `half.width` double pixels is a row of the output.
                unsafe { convolution.run_rows(count, job) };
            }
            let job = |row: usize| RowJob {
                rows: self.fine.input_rows(fine, task * rows * 2 + row),
                width: shape.width,
                output: place(row),
                output_stride: shape.channels,
                residual: place(row),
                residual_stride: shape.channels,
                residual_shift: 0,
            };
            // SAFETY: shapes were checked; a tile reads its residual before it stores to the same address.
            unsafe { self.fine.run_rows(2 * count, job) };
        });
    }
}

impl std::fmt::Debug for ShuffledPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShuffledPair").field("coarse", &self.coarse).field("fine", &self.fine).finish()
    }
}
