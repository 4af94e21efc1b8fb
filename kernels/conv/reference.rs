//! Naive double-precision convolutions, and the tests of the fast ones against them.

use super::*;

/// A linear congruential generator of test values in -1..1.
struct Values(u32);

impl Values {
    fn new(seed: u32) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / 8_388_608.0 - 1.0
    }

    fn take(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next()).collect()
    }

    fn plane(&mut self, height: usize, width: usize, channels: usize, pad: usize) -> Plane {
        let values = self.take(height * width * channels);
        Plane::from_packed(Shape::new(height, width, channels, pad), &values)
    }
}

struct Layer {
    size: usize,
    stride: usize,
    dilation: usize,
    channels_in: usize,
    channels_out: usize,
    depthwise: bool,
    activation: Activation,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Layer {
    fn dense(
        values: &mut Values,
        size: usize,
        stride: usize,
        channels: (usize, usize),
        activation: Activation,
    ) -> Self {
        let (channels_in, channels_out) = channels;
        let weights = values.take(channels_out * channels_in * size * size);
        let bias = values.take(channels_out);
        Self { size, stride, dilation: 1, channels_in, channels_out, depthwise: false, activation, weights, bias }
    }

    fn depthwise(
        values: &mut Values,
        size: usize,
        [stride, dilation]: [usize; 2],
        channels: usize,
        activation: Activation,
    ) -> Self {
        let (weights, bias) = (values.take(channels * size * size), values.take(channels));
        Self {
            size,
            stride,
            dilation,
            channels_in: channels,
            channels_out: channels,
            depthwise: true,
            activation,
            weights,
            bias,
        }
    }

    fn filter(&self) -> Filter<'_> {
        Filter { weights: &self.weights, bias: &self.bias }
    }

    fn pack(&self, isa: Isa) -> Dense {
        Dense::new(isa, self.size, self.stride, self.channels_in, self.channels_out, self.filter(), self.activation)
    }

    fn pack_depthwise(&self, isa: Isa) -> Depthwise {
        Depthwise::new(isa, self.size, self.channels_out, self.stride, self.dilation, self.filter(), self.activation)
    }

    /// `shape` is the input's; the result is packed.
    fn naive(&self, input: &[f64], shape: Shape, residual: impl Fn(usize, usize, usize) -> f64) -> (Vec<f64>, Shape) {
        let (height, width) = (shape.height.div_ceil(self.stride), shape.width.div_ceil(self.stride));
        let reach = (self.dilation * (self.size / 2)) as isize;
        let (low, high) = self.activation.bounds();
        let mut output = Vec::new();
        for y in 0..height {
            for x in 0..width {
                for o in 0..self.channels_out {
                    let mut sum = f64::from(self.bias[o]) + residual(y, x, o);
                    for row in 0..self.size {
                        for column in 0..self.size {
                            let at =
                                |out: usize, tap: usize| (out * self.stride + tap * self.dilation) as isize - reach;
                            let (sy, sx) = (at(y, row), at(x, column));
                            if sy < 0 || sx < 0 || sy >= shape.height as isize || sx >= shape.width as isize {
                                continue;
                            }
                            let pixel = (sy as usize * shape.width + sx as usize) * self.channels_in;
                            let position = row * self.size + column;
                            if self.depthwise {
                                sum += f64::from(self.weights[o * self.size * self.size + position]) * input[pixel + o];
                            } else {
                                for i in 0..self.channels_in {
                                    let weight = (o * self.channels_in + i) * self.size * self.size + position;
                                    sum += f64::from(self.weights[weight]) * input[pixel + i];
                                }
                            }
                        }
                    }
                    output.push(sum.clamp(f64::from(low), f64::from(high)));
                }
            }
        }
        (output, Shape::new(height, width, self.channels_out, 0))
    }
}

fn doubles(plane: &Plane) -> Vec<f64> {
    plane.to_packed().into_iter().map(f64::from).collect()
}

fn nothing(_: usize, _: usize, _: usize) -> f64 {
    0.0
}

/// The largest difference, relative to the largest expected value (at least 1).
fn difference(actual: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(actual.len(), expected.len(), "another number of values");
    let scale = expected.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
    actual
        .iter()
        .zip(expected)
        .map(|(&a, &e)| if a.is_nan() { f64::INFINITY } else { (f64::from(a) - e).abs() / scale })
        .fold(0.0, f64::max)
}

// For single precision over sums of up to 576 products, relative to results that ReLU6 may limit to 6.
const TOLERANCE: f64 = 5e-6;

fn available() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

const ACTIVATIONS: [Activation; 3] = [Activation::Linear, Activation::Relu, Activation::Relu6];

#[test]
fn the_comparison_rejects_a_perturbed_result() {
    let mut values = Values::new(1);
    let layer = Layer::dense(&mut values, 3, 1, (8, 16), Activation::Linear);
    let input = values.plane(6, 6, 8, 1);
    let (expected, shape) = layer.naive(&doubles(&input), input.shape(), nothing);
    let mut output = Plane::new(Shape { pad: 1, ..shape });
    layer.pack(Isa::Portable).run(&input, Residual::None, &mut output);
    let mut actual = output.to_packed();
    assert!(difference(&actual, &expected) < TOLERANCE);
    let middle = actual.len() / 2;
    actual[middle] += 1e-3;
    assert!(difference(&actual, &expected) > TOLERANCE, "a wrong value was accepted");
    actual[middle] = f32::NAN;
    assert!(difference(&actual, &expected) > TOLERANCE, "not-a-number was accepted");
}

#[test]
fn dense_matches_the_definition_at_every_size_stride_and_channel_count() {
    let mut values = Values::new(2);
    for (height, width) in [(1, 1), (1, 37), (5, 3), (7, 12), (9, 25), (4, 52)] {
        for (channels_in, channels_out) in
            [(3, 32), (16, 16), (16, 96), (5, 24), (24, 7), (33, 49), (1, 1), (64, 40), (6, 20), (9, 29)]
        {
            for (size, stride) in [(1, 1), (3, 1), (3, 2)] {
                let activation = ACTIVATIONS[(height + channels_out + size) % 3];
                let layer = Layer::dense(&mut values, size, stride, (channels_in, channels_out), activation);
                let input = values.plane(height, width, channels_in, 1);
                let (expected, shape) = layer.naive(&doubles(&input), input.shape(), nothing);
                for isa in available() {
                    let mut output = Plane::new(Shape { pad: 2, ..shape });
                    layer.pack(isa).run(&input, Residual::None, &mut output);
                    let worst = difference(&output.to_packed(), &expected);
                    assert!(
                        worst < TOLERANCE,
                        "{isa}: {height}×{width}, {channels_in} to {channels_out}, {size}×{size}/{stride}: {worst:e}"
                    );
                    assert_padding_is_zero(&output);
                }
            }
        }
    }
}

#[test]
fn avx512_and_avx2_agree_bit_for_bit() {
    let isas = [Isa::Avx512, Isa::Avx2];
    if !isas.into_iter().all(Isa::is_available) {
        return;
    }
    let mut values = Values::new(11);
    let input = values.plane(5, 28, 12, 1);
    // Blocks of half a vector up to two vectors, whole and partly used.
    for channels_out in [3, 8, 13, 20, 24, 29, 88] {
        let layer = Layer::dense(&mut values, 3, 1, (12, channels_out), Activation::Relu);
        let [wide, narrow] = isas.map(|isa| {
            let mut output = Plane::new(Shape { channels: channels_out, ..input.shape() });
            layer.pack(isa).run(&input, Residual::None, &mut output);
            output.to_packed()
        });
        assert_eq!(wide, narrow, "{channels_out} channels");
    }
    let layer = Layer::dense(&mut values, 3, 1, (12, 4), Activation::Linear);
    let [wide, narrow] = isas.map(|isa| {
        let mut mask = vec![f32::NAN; 4 * 5 * 28];
        Head::new(isa, 12, layer.filter()).run(&input, &mut mask);
        mask
    });
    assert_eq!(wide, narrow, "head");
}

#[test]
fn dense_adds_a_residual_and_an_upsampled_residual_before_the_activation() {
    let mut values = Values::new(3);
    for (height, width, channels) in [(2, 2, 16), (6, 26, 24), (4, 14, 40)] {
        let layer = Layer::dense(&mut values, 1, 1, (12, channels), Activation::Relu);
        let input = values.plane(height, width, 12, 0);
        let same = values.plane(height, width, channels, 3);
        let half = values.plane(height / 2, width / 2, channels, 1);
        let (same_values, half_values) = (same.to_packed(), half.to_packed());
        let at_same = |y: usize, x: usize, o: usize| f64::from(same_values[(y * width + x) * channels + o]);
        let at_half =
            |y: usize, x: usize, o: usize| f64::from(half_values[(y / 2 * (width / 2) + x / 2) * channels + o]);
        let (plain, shape) = layer.naive(&doubles(&input), input.shape(), at_same);
        let (upsampled, _) = layer.naive(&doubles(&input), input.shape(), at_half);
        for isa in available() {
            let dense = layer.pack(isa);
            let mut output = Plane::new(shape);
            dense.run(&input, Residual::Same(&same), &mut output);
            assert!(difference(&output.to_packed(), &plain) < TOLERANCE, "{isa}, same, {height}×{width}×{channels}");
            dense.run(&input, Residual::Upsampled(&half), &mut output);
            assert!(
                difference(&output.to_packed(), &upsampled) < TOLERANCE,
                "{isa}, half, {height}×{width}×{channels}"
            );
        }
    }
}

/// `value` in bfloat16, ties to even.
fn rounded(value: f32) -> f32 {
    let (below, lost) = (value.to_bits() & 0xffff_0000, value.to_bits() & 0xffff);
    let up = lost > 0x8000 || (lost == 0x8000 && below & 0x1_0000 != 0);
    f32::from_bits(if up { below + 0x1_0000 } else { below })
}

#[test]
fn bf16_rounds_inputs_and_weights_and_nothing_else() {
    if !Isa::Avx512Bf16.is_available() {
        return;
    }
    let mut values = Values::new(10);
    // The last shape has more rows than are rounded together.
    for (height, width, channels) in
        [(1, 1, (16, 16)), (7, 13, (24, 40)), (5, 26, (6, 7)), (9, 25, (5, 24)), (8, 300, (64, 33))]
    {
        for (size, stride) in [(1, 1), (3, 1), (3, 2)] {
            let mut layer = Layer::dense(&mut values, size, stride, channels, Activation::Relu);
            let input = values.plane(height, width, channels.0, 1);
            let mut output = Plane::new(layer.pack(Isa::Avx512).output_shape(input.shape(), 1));
            layer.pack(Isa::Avx512Bf16).run(&input, Residual::None, &mut output);
            let mut factors = input.to_packed();
            let exact = layer.naive(&doubles(&input), input.shape(), nothing).0;
            if channels.0.is_multiple_of(2) {
                layer.weights.iter_mut().chain(&mut factors).for_each(|value| *value = rounded(*value));
                assert!(difference(&output.to_packed(), &exact) > TOLERANCE, "{size}×{size}: nothing is rounded");
            }
            let factors: Vec<f64> = factors.into_iter().map(f64::from).collect();
            let (expected, _) = layer.naive(&factors, input.shape(), nothing);
            let worst = difference(&output.to_packed(), &expected);
            assert!(worst < TOLERANCE, "{height}×{width}, {channels:?}, {size}×{size}/{stride}: {worst:e}");
            assert_padding_is_zero(&output);
        }
    }
}

#[test]
fn depthwise_matches_the_definition_at_every_size_stride_and_dilation() {
    let mut values = Values::new(4);
    for (height, width) in [(1, 1), (1, 29), (3, 2), (7, 13), (12, 12), (8, 50)] {
        for channels in [1, 7, 16, 24, 32, 43] {
            for (size, stride, dilation) in
                [(3, 1, 1), (3, 1, 2), (3, 1, 4), (3, 2, 1), (5, 1, 1), (5, 1, 2), (5, 2, 1)]
            {
                let activation = ACTIVATIONS[(width + channels) % 3];
                let layer = Layer::depthwise(&mut values, size, [stride, dilation], channels, activation);
                let input = values.plane(height, width, channels, 4);
                let (expected, shape) = layer.naive(&doubles(&input), input.shape(), nothing);
                for isa in available() {
                    let mut output = Plane::new(Shape { pad: 1, ..shape });
                    layer.pack_depthwise(isa).run(&input, &mut output);
                    let worst = difference(&output.to_packed(), &expected);
                    assert!(
                        worst < TOLERANCE,
                        "{isa}: {height}×{width}×{channels}, {size}×{size}/{stride}, dilation {dilation}: {worst:e}"
                    );
                    assert_padding_is_zero(&output);
                }
            }
        }
    }
}

/// An inverted residual by its definition: three consecutive layers in double precision.
fn naive_block(layers: [&Layer; 3], input: &Plane, residual: bool) -> (Vec<f64>, Shape) {
    let x = doubles(input);
    let (wide, wide_shape) = layers[0].naive(&x, input.shape(), nothing);
    let (deep, deep_shape) = layers[1].naive(&wide, wide_shape, nothing);
    let (width, channels) = (input.shape().width, input.shape().channels);
    layers[2].naive(&deep, deep_shape, |y, x_at, o| if residual { x[(y * width + x_at) * channels + o] } else { 0.0 })
}

#[test]
fn an_inverted_residual_is_its_three_convolutions_stored_or_in_strips() {
    let mut values = Values::new(5);
    // The last two of each size exceed the bound for whole planes.
    let shapes = [(1, 1, 8, 24, 1), (5, 9, 16, 40, 1), (6, 10, 16, 40, 2), (70, 61, 24, 144, 1), (75, 64, 16, 144, 2)];
    for (size, (height, width, channels, wide, stride)) in
        [3, 5].into_iter().flat_map(|size| shapes.into_iter().map(move |shape| (size, shape)))
    {
        let residual = stride == 1;
        let narrow = if residual { channels } else { 20 };
        let expand = Layer::dense(&mut values, 1, 1, (channels, wide), Activation::Relu6);
        let depthwise = Layer::depthwise(&mut values, size, [stride, 1], wide, Activation::Relu6);
        let project = Layer::dense(&mut values, 1, 1, (wide, narrow), Activation::Linear);
        let input = values.plane(height, width, channels, 0);
        let (expected, shape) = naive_block([&expand, &depthwise, &project], &input, residual);
        for isa in available() {
            let separable = Separable::new(depthwise.pack_depthwise(isa), project.pack(isa));
            let block = InvertedResidual::new(expand.pack(isa), separable, residual);
            let mut output = Plane::new(Shape { pad: 1, ..shape });
            block.run(&input, &mut Plane::new(Shape::new(0, 0, 0, 0)), &mut output);
            let worst = difference(&output.to_packed(), &expected);
            assert!(
                worst < 2.0 * TOLERANCE,
                "{isa}: {size}×{size} on {height}×{width}, {channels} to {wide}: {worst:e}"
            );
            assert_padding_is_zero(&output);
        }
    }
}

#[test]
fn a_shuffled_pair_is_two_convolutions_a_pixel_shuffle_and_a_sum() {
    let mut values = Values::new(6);
    for (height, width, coarse_channels, fine_channels, channels) in
        [(1, 1, 8, 8, 16), (3, 7, 32, 16, 16), (5, 13, 9, 5, 6)]
    {
        let coarse = Layer::dense(&mut values, 1, 1, (coarse_channels, 4 * channels), Activation::Linear);
        let fine = Layer::dense(&mut values, 1, 1, (fine_channels, channels), Activation::Relu);
        let small = values.plane(height, width, coarse_channels, 0);
        let large = values.plane(2 * height, 2 * width, fine_channels, 1);
        let (up, _) = coarse.naive(&doubles(&small), small.shape(), nothing);
        let (expected, shape) = fine.naive(&doubles(&large), large.shape(), |y, x, o| {
            up[(y / 2 * width + x / 2) * 4 * channels + o * 4 + (y % 2) * 2 + x % 2]
        });
        for isa in available() {
            let pair = ShuffledPair::new(
                isa,
                coarse_channels,
                coarse.filter(),
                fine_channels,
                fine.filter(),
                channels,
                Activation::Relu,
            );
            let mut output = Plane::new(Shape { pad: 1, ..shape });
            pair.run(&small, &large, &mut output);
            assert!(difference(&output.to_packed(), &expected) < TOLERANCE, "{isa}: {height}×{width}×{channels}");
            assert_padding_is_zero(&output);
        }
    }
}

#[test]
fn the_head_is_a_convolution_a_pixel_shuffle_and_a_sigmoid() {
    let mut values = Values::new(7);
    for (height, width, channels) in [(1, 4, 16), (5, 12, 16), (3, 36, 5)] {
        let layer = Layer::dense(&mut values, 3, 1, (channels, 4), Activation::Linear);
        let input = values.plane(height, width, channels, 1);
        let (logits, _) = layer.naive(&doubles(&input), input.shape(), nothing);
        let mut expected = Vec::new();
        for y in 0..2 * height {
            for x in 0..2 * width {
                let logit = logits[(y / 2 * width + x / 2) * 4 + (y % 2) * 2 + x % 2];
                expected.push(1.0 / (1.0 + (-logit).exp()));
            }
        }
        for isa in available() {
            let mut mask = vec![f32::NAN; 4 * height * width];
            Head::new(isa, channels, layer.filter()).run(&input, &mut mask);
            assert!(difference(&mask, &expected) < 1e-5, "{isa}: {height}×{width}×{channels}");
        }
    }
}

#[test]
fn global_average_and_the_sum_with_it_match_the_definition() {
    let mut values = Values::new(8);
    let mut plane = values.plane(5, 3, 7, 2);
    let packed = plane.to_packed();
    let mut mean = Plane::new(Shape::new(1, 1, 7, 0));
    global_average(&plane, &mut mean);
    let expected: Vec<f64> =
        (0..7).map(|c| packed.iter().skip(c).step_by(7).map(|&v| f64::from(v)).sum::<f64>() / 15.0).collect();
    assert!(difference(&mean.to_packed(), &expected) < TOLERANCE);
    add_channels_relu(&mut plane, &mean);
    let expected: Vec<f64> =
        packed.iter().enumerate().map(|(i, &v)| (f64::from(v) + expected[i % 7]).max(0.0)).collect();
    assert!(difference(&plane.to_packed(), &expected) < TOLERANCE);
    assert_padding_is_zero(&plane);
}

#[test]
fn attention_matches_the_definition_and_has_the_same_bits_for_every_instruction_set() {
    for (height, width, channels, heads) in [(12, 12, 128, 4), (7, 5, 24, 2), (1, 1, 8, 1), (3, 4, 6, 6)] {
        let mut values = Values::new(11);
        let qkv = values.plane(height, width, 3 * channels, 0);
        let pixels: Vec<Vec<f64>> =
            qkv.to_packed().chunks(3 * channels).map(|p| p.iter().map(|&v| 4.0 * f64::from(v)).collect()).collect();
        let qkv = Plane::from_packed(qkv.shape(), &qkv.to_packed().iter().map(|v| 4.0 * v).collect::<Vec<_>>());
        let width_of_head = channels / heads;
        let mut expected = Vec::new();
        for query in &pixels {
            for channel in 0..channels {
                let head = channel / width_of_head * width_of_head;
                let score = |key: &Vec<f64>| {
                    let of = |first: usize| head + first * channels..head + first * channels + width_of_head;
                    let dot: f64 = query[of(0)].iter().zip(&key[of(1)]).map(|(q, k)| q * k).sum();
                    (dot / (width_of_head as f64).sqrt()).exp()
                };
                let sum: f64 = pixels.iter().map(score).sum();
                expected.push(pixels.iter().map(|pixel| score(pixel) / sum * pixel[2 * channels + channel]).sum());
            }
        }
        let results = available().map(|isa| {
            let mut output = Plane::new(Shape::new(height, width, channels, 0));
            Attention::new(isa, heads).run(&qkv, &mut output);
            (isa, output.to_packed())
        });
        let results: Vec<_> = results.collect();
        for (isa, result) in &results {
            assert!(difference(result, &expected) < TOLERANCE, "{isa}: {height}×{width}×{channels}, {heads} heads");
            assert_eq!(result, &results[0].1, "{isa}");
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut values = Values::new(9);
    let expand = Layer::dense(&mut values, 1, 1, (24, 144), Activation::Relu6);
    let depthwise = [3, 5].map(|size| Layer::depthwise(&mut values, size, [1, 1], 144, Activation::Relu6));
    let project = Layer::dense(&mut values, 1, 1, (144, 24), Activation::Linear);
    let input = values.plane(71, 63, 24, 0);
    let bf16 = Some(Isa::Avx512Bf16).filter(|isa| isa.is_available());
    for (isa, depthwise) in
        available().chain(bf16).flat_map(|isa| depthwise.iter().map(move |depthwise| (isa, depthwise)))
    {
        let separable = Separable::new(depthwise.pack_depthwise(isa), project.pack(isa));
        let block = InvertedResidual::new(expand.pack(isa), separable, true);
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
            let mut output = Plane::new(block.output_shape(input.shape(), 1));
            pool.install(|| block.run(&input, &mut Plane::new(Shape::new(0, 0, 0, 0)), &mut output));
            output.to_packed()
        };
        let alone = run(1);
        assert_eq!(alone, run(2), "{isa}");
        assert_eq!(alone, run(7), "{isa}");
    }
}

fn assert_padding_is_zero(plane: &Plane) {
    let shape = plane.shape();
    for row in plane.data().chunks_exact(shape.row()) {
        let (margin, end) = (shape.margin(), row.len() - shape.margin());
        assert!(row[..margin].iter().chain(&row[end..]).all(|&value| value == 0.0), "the padding was written to");
    }
}
