//! The unsafe code of the convolutions, on the portable path, small enough for Miri:
//!
//! ```text
//! cargo +nightly miri test -p backdrop-kernels --no-default-features --test miri
//! ```
//!
//! Under Miri the strips of a plane are processed sequentially, and inverted residuals go through memory a strip at a
//! time from a kilobyte on; all other code runs as in production. Without Miri these are ordinary tests.

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

    /// The definition: each output of each pixel. In a `depthwise` convolution an output reads its own channel alone.
    fn convolved(&self, input: &Plane, size: usize, stride: usize, depthwise: bool) -> Vec<f32> {
        let (Shape { height, width, channels, .. }, pixels) = (input.shape(), input.to_packed());
        let mut results = Vec::new();
        let places = (0..height).step_by(stride).flat_map(|y| (0..width).step_by(stride).map(move |x| (x, y)));
        for ((x, y), output) in places.flat_map(|place| (0..self.bias.len()).map(move |output| (place, output))) {
            let mut sum = self.bias[output];
            for (row, column) in (0..size).flat_map(|row| (0..size).map(move |column| (row, column))) {
                let (Some(y), Some(x)) = ((y + row).checked_sub(size / 2), (x + column).checked_sub(size / 2)) else {
                    continue;
                };
                if y < height && x < width {
                    let pixel = &pixels[(y * width + x) * channels..][..channels];
                    let weight = |from: usize| self.weights[(from * size + row) * size + column];
                    sum += if depthwise {
                        pixel[output] * weight(output)
                    } else {
                        (0..channels).map(|channel| pixel[channel] * weight(output * channels + channel)).sum()
                    };
                }
            }
            results.push(sum);
        }
        results
    }
}

fn assert_near(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    let worst = actual.iter().zip(expected).map(|(actual, expected)| (actual - expected).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "off by {worst}");
}

#[test]
fn miri_dense_matches_the_definition_at_every_border() {
    let mut values = Values(1);
    for (height, width) in [(1, 1), (1, 5), (4, 3)] {
        for (size, stride) in [(1, 1), (3, 1), (3, 2)] {
            // One vector in part, one whole, and two.
            for channels in [[3, 2], [2, 4], [1, 7]] {
                let weights = values.weights(channels[0] * channels[1] * size * size, channels[1]);
                let input = values.plane(height, width, channels[0], size / 2);
                let dense = weights.dense(size, stride, channels);
                let mut output = Plane::new(dense.output_shape(input.shape(), 1));
                dense.run(&input, Residual::None, &mut output);
                assert_near(&output.to_packed(), &weights.convolved(&input, size, stride, false));
            }
        }
    }
}

#[test]
fn miri_residuals_are_added_at_full_and_at_half_resolution() {
    let mut values = Values(2);
    let weights = values.weights(2 * 5, 5);
    let dense = weights.dense(1, 1, [2, 5]);
    let input = values.plane(4, 6, 2, 0);
    let (same, half) = (values.plane(4, 6, 5, 1), values.plane(2, 3, 5, 2));
    let plain = weights.convolved(&input, 1, 1, false);
    let [same_values, half_values] = [same.to_packed(), half.to_packed()];
    let of_half = |at: usize| half_values[((at / 30 / 2) * 3 + at / 5 % 6 / 2) * 5 + at % 5];
    let mut output = Plane::new(dense.output_shape(input.shape(), 0));
    dense.run(&input, Residual::Same(&same), &mut output);
    let expected: Vec<f32> = plain.iter().zip(&same_values).map(|(plain, same)| plain + same).collect();
    assert_near(&output.to_packed(), &expected);
    dense.run(&input, Residual::Upsampled(&half), &mut output);
    let expected: Vec<f32> = plain.iter().enumerate().map(|(at, plain)| plain + of_half(at)).collect();
    assert_near(&output.to_packed(), &expected);
}

#[test]
fn miri_depthwise_matches_the_definition_at_every_border() {
    let mut values = Values(3);
    for (height, width) in [(1, 1), (1, 6), (5, 3)] {
        for (size, stride) in [(3, 1), (3, 2), (5, 1), (5, 2)] {
            for channels in [1, 4, 6] {
                let weights = values.weights(channels * size * size, channels);
                let input = values.plane(height, width, channels, size / 2);
                let filter = weights.filter();
                let depthwise = Depthwise::new(Isa::Portable, size, channels, stride, 1, filter, Activation::Linear);
                let extent = |side: usize| depthwise.output_extent(side);
                let mut output = Plane::new(Shape::new(extent(height), extent(width), channels, 0));
                depthwise.run(&input, &mut output);
                assert_near(&output.to_packed(), &weights.convolved(&input, size, stride, true));
            }
        }
    }
}

#[test]
fn miri_inverted_residuals_match_their_convolutions_stored_and_in_strips() {
    let mut values = Values(4);
    // Above the bound for whole planes: a kilobyte under Miri, two megabytes otherwise.
    let large = if cfg!(miri) { (9, 7, 8) } else { (66, 64, 128) };
    for ((height, width, wide), size) in [((3, 2, 6), 3), (large, 3), (large, 5)] {
        let expand = values.weights(2 * wide, wide);
        let depthwise = values.weights(wide * size * size, wide);
        let project = values.weights(wide * 2, 2);
        let input = values.plane(height, width, 2, 0);
        let stored = Plane::from_packed(Shape::new(height, width, wide, 0), &expand.convolved(&input, 1, 1, false));
        let deep = Plane::from_packed(stored.shape(), &depthwise.convolved(&stored, size, 1, true));
        let sums = project.convolved(&deep, 1, 1, false).into_iter().zip(input.to_packed());
        // The rounding error of the sums grows with the channels.
        let scale = 1.0 / wide as f32;
        let expected: Vec<f32> = sums.map(|(sum, residual)| (sum + residual) * scale).collect();
        let filter = depthwise.filter();
        let depthwise = Depthwise::new(Isa::Portable, size, wide, 1, 1, filter, Activation::Linear);
        let separable = Separable::new(depthwise, project.dense(1, 1, [wide, 2]));
        let block = InvertedResidual::new(expand.dense(1, 1, [2, wide]), separable, true);
        let mut output = Plane::new(block.output_shape(input.shape(), 1));
        block.run(&input, &mut Plane::new(Shape::new(0, 0, 0, 0)), &mut output);
        let actual: Vec<f32> = output.to_packed().into_iter().map(|value| value * scale).collect();
        assert_near(&actual, &expected);
    }
}

#[test]
#[should_panic(expected = "the projection must be a 1×1 convolution")]
fn miri_a_projection_other_than_1x1_panics() {
    let mut values = Values(5);
    let (weights, project) = (values.weights(4 * 9, 4), values.weights(4 * 4 * 9, 4));
    let depthwise = Depthwise::new(Isa::Portable, 3, 4, 1, 1, weights.filter(), Activation::Linear);
    let _ = Separable::new(depthwise, project.dense(3, 1, [4, 4]));
}

#[test]
fn miri_the_shuffled_pair_and_the_head_write_every_pixel() {
    let mut values = Values(6);
    let (coarse, fine) = (values.weights(3 * 20, 20), values.weights(2 * 5, 5));
    let (small, large) = (values.plane(2, 3, 3, 0), values.plane(4, 6, 2, 1));
    let pair = ShuffledPair::new(Isa::Portable, 3, coarse.filter(), 2, fine.filter(), 5, Activation::Linear);
    let mut output = Plane::new(Shape::new(4, 6, 5, 1));
    pair.run(&small, &large, &mut output);
    let (coarse, fine) = (coarse.convolved(&small, 1, 1, false), fine.convolved(&large, 1, 1, false));
    let shuffled = |at: usize| {
        let (x, y, channel) = (at / 5 % 6, at / 30, at % 5);
        coarse[((y / 2) * 3 + x / 2) * 20 + channel * 4 + (y % 2) * 2 + x % 2]
    };
    let expected: Vec<f32> = fine.iter().enumerate().map(|(at, fine)| fine + shuffled(at)).collect();
    assert_near(&output.to_packed(), &expected);

    let weights = values.weights(4 * 3 * 9, 4);
    let input = values.plane(3, 4, 3, 1);
    let mut mask = vec![f32::NAN; 4 * 3 * 4];
    Head::new(Isa::Portable, 3, weights.filter()).run(&input, &mut mask);
    let logits = weights.convolved(&input, 3, 1, false);
    let logit = |x: usize, y: usize| logits[((y / 2) * 4 + x / 2) * 4 + (y % 2) * 2 + x % 2];
    let expected: Vec<f32> = (0..48).map(|at| 1.0 / (1.0 + (-logit(at % 8, at / 8)).exp())).collect();
    assert_near(&mask, &expected);
}

#[test]
fn miri_a_cascade_in_tiles_matches_its_convolutions() {
    let mut values = Values(7);
    let weights = [values.weights(2 * 5 * 9, 5), values.weights(5 * 5 * 9, 5), values.weights(5 * 5 * 9, 5)];
    let [height, width] = [7, 6];
    let input = values.plane(height, width, 2, 1);
    let shape = Shape::new(height, width, 5, 1);
    let first = Plane::from_packed(shape, &weights[0].convolved(&input, 3, 1, false));
    let second = Plane::from_packed(shape, &weights[1].convolved(&first, 3, 1, false));
    let sums = weights[2].convolved(&second, 3, 1, false).into_iter().zip(first.to_packed());
    let expected: Vec<f32> = sums.map(|(sum, residual)| (sum + residual) / 32.0).collect();
    let layer = |index: usize, channels| Layer { dense: weights[index].dense(3, 1, channels), residual: index == 2 };
    let cascade = Cascade::new(vec![layer(0, [2, 5]), layer(1, [5, 5]), layer(2, [5, 5])]);
    let pixels = input.to_packed();
    let mut actual = vec![f32::NAN; expected.len()];
    for (left, top) in [(0, 0), (4, 0), (0, 5), (4, 5)] {
        let tile = Tile { left, top, width: if left == 0 { 4 } else { 2 }, height: if top == 0 { 5 } else { 2 } };
        let source = |y: usize, x: usize, to: &mut [f32]| {
            to.copy_from_slice(&pixels[(y * width + x) * 2..][..to.len()]);
        };
        cascade.run([width, height], tile, source, |y, row| {
            let to = &mut actual[(y * width + left) * 5..][..tile.width * 5];
            to.iter_mut().zip(row).for_each(|(to, value)| *to = value / 32.0);
        });
    }
    assert_near(&actual, &expected);
}
