//! The unsafe code of the convolutions, on the portable path, small enough for Miri:
//!
//! ```text
//! cargo +nightly miri test -p backdrop-kernels --no-default-features --test miri
//! ```
//!
//! Miri looks for undefined behaviour; `conv/reference.rs` compares results with the definition. Under Miri the strips
//! of a plane are processed sequentially, and inverted residuals go through memory a strip at a time from a kilobyte on;
//! all other code runs as in production.

use backdrop_kernels::conv::{
    Activation, Cascade, Dense, Depthwise, Filter, Head, InvertedResidual, Isa, Layer, Plane, Residual, Separable,
    Shape, ShuffledPair, Tile,
};

/// Values in -1..1, from a linear congruential generator.
struct Values(u32);

impl Values {
    fn take(&mut self, count: usize) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn plane(&mut self, height: usize, width: usize, channels: usize, pad: usize) -> Plane {
        Plane::from_packed(Shape::new(height, width, channels, pad), &self.take(height * width * channels))
    }

    fn weights(&mut self, weights: usize, outputs: usize) -> Weights {
        Weights { weights: self.take(weights), bias: self.take(outputs) }
    }
}

struct Weights {
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Weights {
    fn filter(&self) -> Filter<'_> {
        Filter { weights: &self.weights, bias: &self.bias }
    }

    fn dense(&self, size: usize, stride: usize, [channels, outputs]: [usize; 2]) -> Dense {
        Dense::new(Isa::Portable, size, stride, channels, outputs, self.filter(), Activation::Linear)
    }

    fn depthwise(&self, size: usize, stride: usize, channels: usize) -> Depthwise {
        Depthwise::new(Isa::Portable, size, channels, stride, 1, self.filter(), Activation::Linear)
    }
}

/// A plane of NaN, so that a value that is not written shows.
fn unwritten(shape: Shape) -> Plane {
    Plane::from_packed(shape, &vec![f32::NAN; shape.height * shape.width * shape.channels])
}

fn assert_written(values: &[f32]) {
    assert!(!values.is_empty() && values.iter().all(|value| value.is_finite()), "{values:?}");
}

#[test]
fn miri_dense_at_every_border() {
    let mut values = Values(1);
    for (height, width) in [(1, 1), (1, 5), (4, 3)] {
        for (size, stride) in [(1, 1), (3, 1), (3, 2)] {
            // One vector in part, one whole, and two.
            for channels in [[3, 2], [2, 4], [1, 7]] {
                let weights = values.weights(channels[0] * channels[1] * size * size, channels[1]);
                let input = values.plane(height, width, channels[0], size / 2);
                let dense = weights.dense(size, stride, channels);
                let mut output = unwritten(dense.output_shape(input.shape(), 1));
                dense.run(&input, Residual::None, &mut output);
                assert_written(&output.to_packed());
            }
        }
    }
}

#[test]
fn miri_residuals_at_full_and_at_half_resolution() {
    let mut values = Values(2);
    let dense = values.weights(2 * 5, 5).dense(1, 1, [2, 5]);
    let input = values.plane(4, 6, 2, 0);
    let (same, half) = (values.plane(4, 6, 5, 1), values.plane(2, 3, 5, 2));
    for residual in [Residual::Same(&same), Residual::Upsampled(&half)] {
        let mut output = unwritten(dense.output_shape(input.shape(), 0));
        dense.run(&input, residual, &mut output);
        assert_written(&output.to_packed());
    }
}

#[test]
fn miri_depthwise_at_every_border() {
    let mut values = Values(3);
    for (height, width) in [(1, 1), (1, 6), (5, 3)] {
        for (size, stride) in [(3, 1), (3, 2), (5, 1), (5, 2)] {
            for channels in [1, 4, 6] {
                let depthwise = values.weights(channels * size * size, channels).depthwise(size, stride, channels);
                let input = values.plane(height, width, channels, size / 2);
                let extent = |side: usize| depthwise.output_extent(side);
                let mut output = unwritten(Shape::new(extent(height), extent(width), channels, 0));
                depthwise.run(&input, &mut output);
                assert_written(&output.to_packed());
            }
        }
    }
}

#[test]
fn miri_inverted_residuals_stored_and_in_strips() {
    let mut values = Values(4);
    // Above the bound for whole planes: a kilobyte under Miri, two megabytes otherwise.
    let large = if cfg!(miri) { (9, 7, 8) } else { (66, 64, 128) };
    for ((height, width, wide), size) in [((3, 2, 6), 3), (large, 3), (large, 5)] {
        let expand = values.weights(2 * wide, wide).dense(1, 1, [2, wide]);
        let depthwise = values.weights(wide * size * size, wide).depthwise(size, 1, wide);
        let project = values.weights(wide * 2, 2).dense(1, 1, [wide, 2]);
        let input = values.plane(height, width, 2, 0);
        let block = InvertedResidual::new(expand, Separable::new(depthwise, project), true);
        let mut output = unwritten(block.output_shape(input.shape(), 1));
        block.run(&input, &mut Plane::new(Shape::new(0, 0, 0, 0)), &mut output);
        assert_written(&output.to_packed());
    }
}

#[test]
#[should_panic(expected = "the projection must be a 1×1 convolution")]
fn miri_a_projection_other_than_1x1_panics() {
    let mut values = Values(5);
    let depthwise = values.weights(4 * 9, 4).depthwise(3, 1, 4);
    let _ = Separable::new(depthwise, values.weights(4 * 4 * 9, 4).dense(3, 1, [4, 4]));
}

#[test]
fn miri_the_shuffled_pair_and_the_head_write_every_pixel() {
    let mut values = Values(6);
    let (coarse, fine) = (values.weights(3 * 20, 20), values.weights(2 * 5, 5));
    let (small, large) = (values.plane(2, 3, 3, 0), values.plane(4, 6, 2, 1));
    let pair = ShuffledPair::new(Isa::Portable, 3, coarse.filter(), 2, fine.filter(), 5, Activation::Linear);
    let mut output = unwritten(Shape::new(4, 6, 5, 1));
    pair.run(&small, &large, &mut output);
    assert_written(&output.to_packed());

    let mut mask = vec![f32::NAN; 4 * 3 * 4];
    let head = values.weights(4 * 3 * 9, 4);
    Head::new(Isa::Portable, 3, head.filter()).run(&values.plane(3, 4, 3, 1), &mut mask);
    assert_written(&mask);
}

#[test]
fn miri_a_cascade_in_tiles() {
    let mut values = Values(7);
    let weights = [values.weights(2 * 5 * 9, 5), values.weights(5 * 5 * 9, 5), values.weights(5 * 5 * 9, 5)];
    let [height, width] = [7, 6];
    let pixels = values.take(height * width * 2);
    let layer = |index: usize, channels| Layer { dense: weights[index].dense(3, 1, channels), residual: index == 2 };
    let cascade = Cascade::new(vec![layer(0, [2, 5]), layer(1, [5, 5]), layer(2, [5, 5])]);
    let mut output = vec![f32::NAN; height * width * 5];
    for (left, top) in [(0, 0), (4, 0), (0, 5), (4, 5)] {
        let tile = Tile { left, top, width: if left == 0 { 4 } else { 2 }, height: if top == 0 { 5 } else { 2 } };
        let source = |y: usize, x: usize, to: &mut [f32]| {
            to.copy_from_slice(&pixels[(y * width + x) * 2..][..to.len()]);
        };
        cascade.run([width, height], tile, source, |y, row| {
            output[(y * width + left) * 5..][..tile.width * 5].copy_from_slice(row);
        });
    }
    assert_written(&output);
}
