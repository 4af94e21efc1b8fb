//! Fused inverted residuals (expand → depthwise → project) and depthwise-separable convolutions.

use super::dense::{Residual, RowJob, check_residual, residual_row};
use super::scratch::{self, each_strip, rows_per_task};
use super::{Dense, Depthwise, Plane, Shape};

/// Pixels of one group: enough for one load of the projection's weights to serve several tiles.
const GROUP_PIXELS: usize = 48;

/// Larger expanded planes go through memory a strip at a time.
///
/// CPU time of the network on one core (AVX-512, 1 MB second-level cache): 18.3 ms if every plane is stored, 15.4 ms
/// with this bound, 15.5 ms if none is. Small planes are stored because every strip recomputes the rows at its seams,
/// which costs more with more threads. Under Miri the bound is low enough for small planes to exceed it.
const STORED_BYTES: usize = if cfg!(miri) { 1 << 10 } else { 2 << 20 };

/// `project(depthwise(x)) (+ residual)`: a depthwise-separable convolution.
#[derive(Debug)]
pub struct Separable {
    depthwise: Depthwise,
    project: Dense,
}

impl Separable {
    /// `project` is a 1×1 convolution of the depthwise result.
    ///
    /// # Panics
    /// When `project` is not 1×1, or the channels differ.
    #[must_use]
    pub fn new(depthwise: Depthwise, project: Dense) -> Self {
        assert!(project.is_pointwise(), "the projection must be a 1×1 convolution");
        assert_eq!(depthwise.channels(), project.channels_in(), "projection of other channels");
        Self { depthwise, project }
    }

    /// The extent of the result for an input of `shape`, with `pad` zero pixels around its rows.
    #[must_use]
    pub const fn output_shape(&self, shape: Shape, pad: usize) -> Shape {
        let (height, width) = (self.depthwise.output_extent(shape.height), self.depthwise.output_extent(shape.width));
        Shape::new(height, width, self.project.channels_out(), pad)
    }

    /// Runs the block on a stored plane.
    ///
    /// # Panics
    /// When the planes do not fit, or `input` has less padding than the depthwise kernel reaches.
    pub fn run(&self, input: &Plane, residual: Residual<'_>, output: &mut Plane) {
        let shape = output.shape();
        self.check(input.shape(), residual, shape);
        let rows = rows_per_task(shape.height);
        each_strip(output.data_mut(), rows * shape.row(), |task, strip| {
            let group = self.group(shape.width);
            scratch::with(group * self.wide_row(shape), |wide| {
                let count = strip.len() / shape.row();
                let mut done = 0;
                while done < count {
                    let step = group.min(count - done);
                    let first = task * rows + done;
                    let pixels = |y: isize| input.pixel_row(y);
                    // SAFETY: the planes were checked; the strip has `count` rows; `wide` holds a group.
                    unsafe { self.run_group(first, step, pixels, residual, wide, strip, done, shape) };
                    done += step;
                }
            });
        });
    }

    fn check(&self, input: Shape, residual: Residual<'_>, output: Shape) {
        self.depthwise.check_input(input);
        assert_eq!(output, self.output_shape(input, output.pad), "output of another shape");
        check_residual(residual, output);
    }

    fn group(&self, width: usize) -> usize {
        GROUP_PIXELS.div_ceil(width)
    }

    fn wide_row(&self, output: Shape) -> usize {
        output.width * self.depthwise.channels()
    }

    /// Depthwise and projection of output rows `first..first + count`, the strip's rows from `at` on. `pixels` gives
    /// the first pixel of an input row, null outside the picture.
    ///
    /// # Safety
    /// Rows from `pixels` are padded by the depthwise kernel's reach; `strip` holds rows `at..at + count` of `shape`;
    /// `wide` holds `count` depthwise rows; `residual` was checked against `shape`.
    #[expect(clippy::too_many_arguments, reason = "the two callers differ only in the source of the input rows")]
    unsafe fn run_group(
        &self,
        first: usize,
        count: usize,
        pixels: impl Fn(isize) -> *const f32,
        residual: Residual<'_>,
        wide: &mut [f32],
        strip: &mut [f32],
        at: usize,
        shape: Shape,
    ) {
        let wide_row = self.wide_row(shape);
        for (row, target) in wide.chunks_exact_mut(wide_row).enumerate().take(count) {
            let rows = self.depthwise.rows(first + row, &pixels);
            // SAFETY: `target` is a whole row; the padding is the caller's promise.
            unsafe { self.depthwise.run_row(rows, shape.width, target.as_mut_ptr()) };
        }
        let target = strip[at * shape.row()..].as_mut_ptr();
        let job = |row: usize| {
            let (from, residual_stride, residual_shift) = residual_row(residual, first + row);
            RowJob {
                rows: [wide[row * wide_row..].as_ptr(), std::ptr::null(), std::ptr::null()],
                width: shape.width,
                output: target.wrapping_add(row * shape.row() + shape.margin()),
                output_stride: shape.channels,
                residual: from,
                residual_stride,
                residual_shift,
            }
        };
        // SAFETY: each job names one whole row of `wide`, of the strip, and of the checked residual.
        unsafe { self.project.run_rows(count, job) };
    }
}

/// `project(depthwise(expand(x))) (+ x)`: MobileNetV2's inverted residual. `expand` may be any dense convolution.
///
/// Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018. The expanded plane is by far
/// the network's widest (14 MB at 192² × 96). Where it would not stay in the cache, only a few rows are computed at a
/// time.
#[derive(Debug)]
pub struct InvertedResidual {
    expand: Dense,
    separable: Separable,
    residual: bool,
}

impl InvertedResidual {
    /// `residual`: whether the input is added to the result.
    ///
    /// # Panics
    /// When the channels differ.
    #[must_use]
    pub fn new(expand: Dense, separable: Separable, residual: bool) -> Self {
        assert_eq!(expand.channels_out(), separable.depthwise.channels(), "expansion to other channels");
        assert_eq!(separable.depthwise.dilation(), 1, "strips hold every row from the first to the last that is read");
        Self { expand, separable, residual }
    }

    /// The extent of the result for an input of `shape`, with `pad` zero pixels around its rows.
    #[must_use]
    pub const fn output_shape(&self, shape: Shape, pad: usize) -> Shape {
        self.separable.output_shape(self.expanded_shape(shape), pad)
    }

    const fn expanded_shape(&self, shape: Shape) -> Shape {
        self.expand.output_shape(shape, self.separable.depthwise.reach())
    }

    /// Runs the block. `expanded` is working memory, shared by blocks, that grows to the largest need.
    ///
    /// # Panics
    /// When the planes do not fit.
    pub fn run(&self, input: &Plane, expanded: &mut Plane, output: &mut Plane) {
        let residual = if self.residual { Residual::Same(input) } else { Residual::None };
        let wide = self.expanded_shape(input.shape());
        if wide.len() * size_of::<f32>() <= STORED_BYTES {
            expanded.reshape(wide);
            self.expand.run(input, Residual::None, expanded);
            self.separable.run(expanded, residual, output);
        } else {
            self.run_strips(input, wide, residual, output);
        }
    }

    /// Each task walks down its strip with a ring buffer of expanded rows.
    fn run_strips(&self, input: &Plane, wide: Shape, residual: Residual<'_>, output: &mut Plane) {
        let shape = output.shape();
        self.expand.check_input(input.shape());
        self.separable.check(wide, residual, shape);
        let group = self.separable.group(shape.width);
        let depthwise = &self.separable.depthwise;
        let ring_rows = (group - 1) * depthwise.stride() + 2 * depthwise.reach() + 1;
        let ring_len = ring_rows * wide.row();
        let rows = rows_per_task(shape.height);
        each_strip(output.data_mut(), rows * shape.row(), |task, strip| {
            scratch::with(ring_len + group * self.separable.wide_row(shape), |memory| {
                let (ring, depthwise_rows) = memory.split_at_mut(ring_len);
                for row in ring.chunks_exact_mut(wide.row()) {
                    row[..wide.margin()].fill(0.0);
                    row[wide.row() - wide.margin()..].fill(0.0);
                }
                let ring = ring.as_mut_ptr();
                let slot = |y: usize| ring.wrapping_add((y % ring_rows) * wide.row() + wide.margin());
                let count = strip.len() / shape.row();
                let (mut done, mut made) = (0, 0);
                while done < count {
                    let step = group.min(count - done);
                    let first = task * rows + done;
                    let top = depthwise.window(first)[0].max(0) as usize;
                    let end = (depthwise.window(first + step - 1)[1] as usize + 1).min(wide.height);
                    let from = made.max(top);
                    let job = |row: usize| RowJob {
                        rows: self.expand.input_rows(input, from + row),
                        width: wide.width,
                        output: slot(from + row),
                        output_stride: wide.channels,
                        residual: std::ptr::null(),
                        residual_stride: 0,
                        residual_shift: 0,
                    };
                    // SAFETY: the input was checked; each job writes the pixels of one row of the ring, which has
                    // room for all rows from `top` to `end`.
                    unsafe { self.expand.run_rows(end - from, job) };
                    made = end;
                    let pixels = |y: isize| match usize::try_from(y) {
                        Ok(y) if y < wide.height => slot(y).cast_const(),
                        _ => std::ptr::null(),
                    };
                    // SAFETY: rows `top..end` are in the ring, padded by zero pixels; the strip has `count` rows.
                    unsafe {
                        self.separable.run_group(first, step, pixels, residual, depthwise_rows, strip, done, shape);
                    }
                    done += step;
                }
            });
        });
    }
}
