//! Compares GPU kernels with their CPU twins: a network's kernels when it starts (self-test), all kernels in tests.
//!
//! A panic on the device's thread can leave a zeroed buffer that reads back as success, and a driver can be wrong. So a
//! kernel is used on a device only after its output there was compared with the CPU twin's.

use std::fmt;

use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::bilinear::Tap;
use crate::conv::gpu::{Dense, Depthwise, Residual, attention, global_average};
use crate::conv::{Activation, Filter};
use crate::coverage::Fill;
use crate::device::{Plane, download, words_of_bytes};
use crate::gaussian::Border;
use crate::laplacian::solver_gpu::Problem;
use crate::layers::Paint;
use crate::pyramid::Mix;
use crate::resample::Part;
use crate::shadow_grid::gpu::Coverage;
use crate::shadow_grid::{Cells, Placement};
use crate::trimap::Params;
use crate::{
    bilinear, coverage, dilate, dst_over, edge, enhance, flat_over, foreground, gaussian, light_wrap, linear_alpha,
    mask_upsample, model_input, prolongation, pyramid, resample, shadow_grid, temporal_prior, trimap,
};

/// Side of the network's grid in the comparisons.
const GRID: usize = 48;

/// A synthetic picture, plane and mask, deterministic for each seed.
#[derive(Clone, Debug)]
pub struct Scene {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
    plane: Vec<f32>,
    mask: Vec<f32>,
}

impl Scene {
    /// A picture with flat, grey and colourful parts, hard and soft alpha, and planes in 0..=1.
    #[must_use]
    pub fn new(width: usize, height: usize, seed: u32) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9) | 1);
        let mut pixels = Vec::with_capacity(4 * width * height);
        for y in 0..height {
            for x in 0..width {
                // Patches of 13 pixels: flat, grey noise (colours on a line), two colours, gradients, all colours.
                let patch = (x / 13 + 3 * (y / 13)) % 5;
                let noise = random.byte();
                let mut pixel = match patch {
                    0 => [200, 30, 90, 255],
                    1 => [noise, noise, noise, 255],
                    2 if noise < 128 => [10, 200, 30, 255],
                    2 => [250, 240, 100, 255],
                    3 => [(x * 7 % 256) as u8, (y * 5 % 256) as u8, ((x + y) % 256) as u8, 255],
                    _ => [noise, random.byte(), random.byte(), 255],
                };
                if (x / 29 + y / 31) % 3 == 1 {
                    pixel[3] = random.byte();
                }
                pixels.extend(pixel);
            }
        }
        let plane = (0..width * height).map(|_| f32::from(random.byte()) / 255.0).collect();
        let mut mask = Vec::with_capacity(GRID * GRID);
        for y in 0..GRID {
            for x in 0..GRID {
                let from_centre = |at: usize| at as f32 / GRID as f32 - 0.45;
                let distance = from_centre(x).hypot(from_centre(y));
                let noise = f32::from(random.byte()) / 2550.0;
                mask.push(((0.3 - distance) * 6.0 + 0.5 + noise).clamp(0.0, 1.0));
            }
        }
        Self { width, height, pixels, plane, mask }
    }

    fn mask_on(&self, device: &Device) -> Tensor<2> {
        Tensor::from_data(TensorData::new(self.mask.clone(), [GRID, GRID]), device)
    }

    fn labels_on(&self, device: &Device) -> Tensor<2, Int> {
        let params = Params { radii: [2.0; 2], foreground: 0.93, background: 0.07 };
        trimap::gpu::trimap(self.mask_on(device), nothing(device), self.height, self.width, params)
    }

    /// Coverage of all values, including 0 and 255; the first pixel is fully covered.
    fn coverage_on(&self, device: &Device) -> Tensor<2, Int> {
        let value = |(at, value): (usize, &f32)| if at == 0 { 255 } else { (1.2 * value * 255.0 - 25.0) as u8 };
        let values: Vec<u32> = self.plane.iter().enumerate().map(value).map(u32::from).collect();
        Tensor::from_data(TensorData::new(values, [self.height, self.width]), (device, DType::U32))
    }

    fn picture_on(&self, device: &Device) -> Tensor<2, Int> {
        upload(&self.pixels, self.width, self.height, device)
    }

    /// The picture's pixels in reverse order.
    fn turned_on(&self, device: &Device) -> Tensor<2, Int> {
        let mut turned = self.pixels.clone();
        turned.reverse();
        upload(&turned, self.width, self.height, device)
    }

    fn plane_on(&self, device: &Device) -> Tensor<2> {
        Tensor::from_data(TensorData::new(self.plane.clone(), [self.height, self.width]), device)
    }
}

/// Uploads a copy of packed RGBA8 (`height` rows of `width` pixels) to `device`: `[H, W]`, one `u32` a pixel, red in the low byte.
fn upload(pixels: &[u8], width: usize, height: usize, device: &Device) -> Plane {
    assert_eq!(pixels.len(), 4 * width * height, "packed RGBA8 is four bytes a pixel");
    Tensor::from_data(TensorData::new(words_of_bytes(pixels), [height, width]), (device, DType::U32))
}

/// xorshift32 (Marsaglia, "Xorshift RNGs", 2003).
struct Random(u32);

impl Random {
    fn byte(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 24) as u8
    }
}

/// A kernel with both twins.
#[derive(Clone, Copy)]
pub struct Kernel {
    /// The kernel's folder.
    pub name: &'static str,
    /// Largest difference between the twins, relative to the largest magnitude in the reference (at least 1).
    pub tolerance: f32,
    run: fn(&Scene, &Device) -> Result<Vec<f32>, String>,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

/// The kernels of the networks, and of the segmentation network's input.
pub const NETWORKS: [Kernel; 2] = [
    // Sums of up to (4096 / 48)² products in another order.
    Kernel { name: "model_input", tolerance: 1e-5, run: run_model_input },
    // Sums of up to 181 products; a multiply-add may be rounded once or twice.
    Kernel { name: "conv", tolerance: 1e-5, run: run_conv },
];

/// The kernels of matting, from the clean mask to the cutout.
pub const MATTING: [Kernel; 9] = [
    // Positions up to 4096 in f32, times differences of at most 1.
    Kernel { name: "mask_upsample", tolerance: 1e-4, run: run_mask_upsample },
    // Equal labels.
    Kernel { name: "trimap", tolerance: 0.0, run: run_trimap },
    // Integers.
    Kernel { name: "pyramid", tolerance: 0.0, run: run_pyramid },
    // Labels, and quotients of integers.
    Kernel { name: "prolongation", tolerance: 1e-6, run: run_prolongation },
    // One step of 255: sixteen products, then rounding.
    Kernel { name: "temporal_prior", tolerance: 1.0 / 254.0, run: run_temporal_prior },
    // A dozen steps with scalar products in f32 instead of f64, rounded to steps of 255.
    Kernel { name: "solver", tolerance: 2.0 / 254.0, run: run_solver },
    // One step of 255: a root and a quotient, then rounding.
    Kernel { name: "edge", tolerance: 1.0 / 254.0, run: run_edge },
    // One step of 255: a dozen operations, then rounding.
    Kernel { name: "foreground", tolerance: 1.0 / 254.0, run: run_foreground },
    // One step of colour, and its effect on coverage.
    Kernel { name: "linear_alpha", tolerance: 2.0 / 254.0, run: run_linear_alpha },
];

/// The kernels of compositing, from the cutout to the finished picture.
pub const COMPOSING: [Kernel; 10] = [
    // Integers.
    Kernel { name: "coverage", tolerance: 0.0, run: run_coverage },
    // One step of 255: `pow` is not exactly rounded on a GPU.
    Kernel { name: "resample", tolerance: 1.0 / 254.0, run: run_resample },
    // One step of 255: luma and the rounding of the result.
    Kernel { name: "enhance", tolerance: 1.0 / 254.0, run: run_enhance },
    // Roots and quotients, which are not exactly rounded on a GPU, determine the way along an edge.
    Kernel { name: "dilate", tolerance: 4.0 / 254.0, run: run_dilate },
    // Positions up to 4096 in f32, in cells.
    Kernel { name: "shadow_grid", tolerance: 1e-4, run: run_shadow_grid },
    // Sums of up to 2 · 21 + 1 products of values in 0..=1.
    Kernel { name: "gaussian", tolerance: 1e-5, run: run_gaussian },
    // One step of 255, as for `resample`.
    Kernel { name: "bilinear", tolerance: 1.0 / 254.0, run: run_bilinear },
    // One step of 255, as for `resample`.
    Kernel { name: "light_wrap", tolerance: 1.0 / 254.0, run: run_light_wrap },
    // One step of 255: a quotient, then rounding.
    Kernel { name: "flat_over", tolerance: 1.0 / 254.0, run: run_flat_over },
    // One step of 255, as for `resample`.
    Kernel { name: "dst_over", tolerance: 1.0 / 254.0, run: run_dst_over },
];

/// All kernels with both twins.
pub fn kernels() -> impl Iterator<Item = Kernel> {
    NETWORKS.into_iter().chain(MATTING).chain(COMPOSING)
}

impl Kernel {
    /// The kernel's output for `scene` on `device`.
    ///
    /// # Errors
    /// The device's error.
    pub fn run(&self, scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
        (self.run)(scene, device)
    }
}

fn run_model_input(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let picture = upload(&scene.pixels, scene.width, scene.height, device);
    values(model_input::gpu::model_input(picture, GRID))
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

    fn filter(&self) -> Filter<'_> {
        Filter { weights: &self.weights, bias: &self.bias }
    }
}

fn run_conv(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let dense = |size: usize, stride, channels: [usize; 2], activation| {
        let parameters = Parameters::new(channels[0] * channels[1] * size * size, channels[1]);
        Dense::new(size, stride, channels, parameters.filter(), activation, device)
    };
    let depthwise = |size: usize, stride, dilation, activation| {
        let parameters = Parameters::new(20 * size * size, 20);
        Depthwise::new(size, 20, stride, dilation, parameters.filter(), activation, device)
    };
    let turned = scene.pixels.as_chunks::<4>().0.iter().rev();
    let pixels = scene.pixels.as_chunks::<4>().0.iter().chain(turned);
    let pixels = pixels.flat_map(|pixel| &pixel[..3]).map(|&value| f32::from(value) / 127.5 - 1.0).collect();
    let pictures = TensorData::new::<f32, _>(pixels, [2, scene.height, scene.width, 3]);
    let pictures = Tensor::<4>::from_data(pictures, device);
    let strided = dense(3, 2, [3, 20], Activation::Relu6).run(pictures, Residual::None);
    let wide = depthwise(5, 1, 1, Activation::Linear).run(strided.clone());
    let dilated = depthwise(3, 1, 3, Activation::Relu).run(wide.clone());
    let added = dense(1, 1, [20, 20], Activation::Relu).run(dilated, Residual::Same(wide.clone()));
    let halved = depthwise(3, 2, 1, Activation::Relu6).run(added.clone());
    // Seven channels are not whole vectors.
    let narrow = dense(1, 1, [20, 7], Activation::Linear).run(global_average(added), Residual::None);
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

fn run_mask_upsample(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    values(mask_upsample::gpu::mask_upsample(scene.mask_on(device), scene.height, scene.width))
}

fn run_trimap(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let mut results = Vec::new();
    // A disc, flat and upright ellipses, and one larger than the grid.
    for radii in [[2.5, 2.5], [17.0, 2.0], [1.3, 60.0], [9.5, 21.0], [100.0, 100.0]] {
        let params = Params { radii, foreground: 0.93, background: 0.07 };
        // Without raising, and raised above the threshold in the left half.
        let half = (0..GRID * GRID).map(|at| if at % GRID < GRID / 2 { 0.5 } else { 0.0 }).collect::<Vec<f32>>();
        let half = Tensor::from_data(TensorData::new(half, [GRID, GRID]), device);
        for raised in [nothing(device), half] {
            let labels = trimap::gpu::trimap(scene.mask_on(device), raised, scene.height, scene.width, params);
            results.extend(words(labels)?.into_iter().map(|label| label as f32));
        }
    }
    Ok(results)
}

fn run_pyramid(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let picture = upload(&scene.pixels, scene.width, scene.height, device);
    let mut halves: Vec<f32> = bytes(pyramid::gpu::halve(picture, Mix::Colour))?;
    for (plane, mix) in [(scene.coverage_on(device), Mix::Coverage), (scene.labels_on(device), Mix::Label)] {
        halves.extend(bytes(pyramid::gpu::halve(plane, mix))?);
    }
    Ok(halves)
}

fn run_prolongation(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    // Labels as a coarser coverage: flat parts, which decide, and edges, which do not.
    let coarser = pyramid::gpu::halve(scene.labels_on(device), Mix::Coverage);
    let mut results = values(prolongation::gpu::start(coarser.clone(), scene.height, scene.width))?;
    let unknown = vec![u32::from(trimap::UNKNOWN); scene.width * scene.height];
    let unknown = Tensor::from_data(TensorData::new(unknown, [scene.height, scene.width]), (device, DType::U32));
    for labels in [scene.labels_on(device), unknown] {
        results.extend(bytes(prolongation::gpu::decide(coarser.clone(), labels))?);
    }
    Ok(results)
}

fn run_temporal_prior(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    // Motion of up to six cells each way, also beyond the border. No weight is below half a step, which is ignored.
    let grid = |wave: fn(f32) -> f32| {
        let values: Vec<f32> = (0..GRID * GRID).map(|at| wave(at as f32)).collect();
        Tensor::<2>::from_data(TensorData::new(values, [GRID, GRID]), device)
    };
    let flow = [grid(|at| 6.0 * (at * 0.013).sin()), grid(|at| 6.0 * (at * 0.0057).cos())];
    let share = grid(|at| (at * 0.021).sin().mul_add(0.7, 0.4).clamp(0.1, 1.0));
    let prior = temporal_prior::gpu::warp(scene.coverage_on(device), flow, share, scene.labels_on(device));
    let mut results = bytes(prior.clone())?;
    results.extend(values(temporal_prior::gpu::toward(scene.plane_on(device), prior.clone()))?);
    results.extend(bytes(temporal_prior::gpu::blended(scene.coverage_on(device), prior))?);
    Ok(results)
}

fn run_solver(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let picture = upload(&scene.pixels, scene.width, scene.height, device);
    let labels = scene.labels_on(device);
    let half = pyramid::gpu::halve(picture.clone(), Mix::Colour);
    let half_labels = pyramid::gpu::halve(labels.clone(), Mix::Label);
    // A picture slightly above the limit of a small level is a large level, and its half a small one.
    let mut results = Vec::new();
    for (picture, labels) in [(picture, labels), (half, half_labels)] {
        let [height, width] = labels.dims();
        let problem = Problem {
            picture,
            labels: labels.clone(),
            decided: labels,
            start: mask_upsample::gpu::mask_upsample(scene.mask_on(device), height, width),
            prior: Tensor::stack::<3>(vec![scene.mask_on(device), scene.mask_on(device) * 0.1 + 1e-3], 0),
        };
        results.extend(bytes(problem.solved(12))?);
    }
    Ok(results)
}

fn run_edge(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let mut results = bytes(edge::gpu::without_traces(scene.coverage_on(device)))?;
    results.extend(bytes(edge::gpu::sharpened(scene.coverage_on(device), scene.mask_on(device)))?);
    for crossing in [0.5, 0.2] {
        let hard = edge::gpu::hardened(scene.coverage_on(device), crossing);
        results.extend(bytes(hard.clone())?);
        // Limited, because the last coverage of an edge can be rounded to 0 on one device and to 1 on the other.
        let certain = coverage::gpu::clipped(scene.turned_on(device), scene.coverage_on(device));
        results
            .extend(bytes(edge::gpu::unmixed_by(scene.coverage_on(device), certain.bitwise_right_shift_scalar(24)))?);
    }
    Ok(results)
}

/// Colours of about half the scene's size.
fn colours_on(scene: &Scene, device: &Device) -> Tensor<3, Int> {
    let (width, height) = (scene.width.div_ceil(2), scene.height.div_ceil(2));
    let pixels = scene.pixels.as_chunks::<4>().0;
    let front = pixels[..width * height].iter().map(|&pixel| u32::from_le_bytes(pixel));
    let back = pixels.iter().rev().take(width * height).map(|&pixel| !u32::from_le_bytes(pixel));
    let words: Vec<u32> = front.chain(back).collect();
    Tensor::from_data(TensorData::new(words, [2, height, width]), (device, DType::U32))
}

fn run_foreground(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let picture = upload(&scene.pixels, scene.width, scene.height, device);
    bytes(foreground::gpu::relax(picture, scene.coverage_on(device), colours_on(scene, device), false))
}

fn run_linear_alpha(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let (picture, coverage) = (scene.picture_on(device), scene.coverage_on(device));
    // Colours are defined where their coverage is partial.
    let colours = |coverage| foreground::gpu::relax(picture.clone(), coverage, colours_on(scene, device), true);
    let mut results = bytes(linear_alpha::gpu::cut_out(picture.clone(), coverage.clone(), colours(coverage.clone())))?;
    let unmixed_by = edge::gpu::unmixed_by(scene.labels_on(device), coverage.clone());
    let colours = colours(unmixed_by.clone());
    results.extend(bytes(linear_alpha::gpu::cut_out_hard(picture, coverage, unmixed_by, colours))?);
    Ok(results)
}

fn run_coverage(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let (picture, turned) = (scene.picture_on(device), scene.turned_on(device));
    let mut results = bytes(coverage::gpu::bytes(picture.clone()))?;
    results.extend(words(coverage::gpu::extents(turned.clone(), 90))?.into_iter().map(|at| at as f32));
    results.extend(bytes(coverage::gpu::clipped(picture.clone(), scene.coverage_on(device)))?);
    // Every seventh pixel becomes opaque, and the next one transparent.
    let pixels = (scene.width * scene.height) as u32;
    let fill = |at: u32| [Fill { at, opaque: true }, Fill { at: at + 1, opaque: false }];
    let fills: Vec<Fill> = (0..pixels).step_by(7).flat_map(fill).filter(|fill| fill.at < pixels).collect();
    results.extend(bytes(coverage::gpu::filled(picture, turned, &fills))?);
    Ok(results)
}

fn run_light_wrap(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let color = Tensor::from_data(TensorData::new(vec![0xff20_90e0_u32], [1, 1]), (device, DType::U32));
    let mut results = Vec::new();
    for background in [scene.turned_on(device), color, nothing_behind(device)] {
        results.extend(bytes(light_wrap::gpu::light_wrap(scene.picture_on(device), background, [0.4, 1.0, 2.5]))?);
    }
    Ok(results)
}

fn nothing_behind(device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(vec![0_u32], [1, 1]), (device, DType::U32))
}

fn run_resample(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let [width, height] = [scene.width, scene.height].map(|side| side as f64);
    let whole = Part { left: 0.0, top: 0.0, width, height };
    let part = Part { left: 0.3 * width, top: 0.2 * height, width: 0.6 * width, height: 0.7 * height };
    let (columns, rows) = ((scene.width * 2).div_ceil(5), (scene.height * 3).div_ceil(4));
    let mut results = bytes(resample::gpu::resample(scene.picture_on(device), whole, rows, columns))?;
    results.extend(bytes(resample::gpu::resample(scene.picture_on(device), part, scene.height, scene.width))?);
    Ok(results)
}

fn run_enhance(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    bytes(enhance::gpu::enhance(scene.picture_on(device), 0.3))
}

fn run_dilate(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    // Spots of all sizes with soft edges, some touching, and one at the origin at any size.
    let spot = |at: usize| {
        let (x, y) = ((at % scene.width) as f32, (at / scene.width) as f32);
        let wave = (x * 0.13).cos() * (y * 0.11).cos() + 0.4 * (x * 0.041 + y * 0.067).cos();
        ((wave - 0.55) * 4.0 + 0.5).clamp(0.0, 1.0)
    };
    let pixels: Vec<u32> = (0..scene.width * scene.height).map(|at| ((spot(at) * 255.0) as u32) << 24).collect();
    let mut results = Vec::new();
    for radius in [0.6, 3.5, 21.0] {
        let pixels = TensorData::new(pixels.clone(), [scene.height, scene.width]);
        let pixels = Tensor::from_data(pixels, (device, DType::U32));
        results.extend(words(dilate::gpu::dilate(pixels, radius))?.into_iter().map(|covered| covered as f32));
    }
    Ok(results)
}

fn run_shadow_grid(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let whole = [0, 0, scene.width as u32, scene.height as u32];
    let part = whole.map(|side| side / 3);
    let part = [part[2], part[3], whole[2], whole[3]];
    let mut results = Vec::new();
    let cases = [
        (whole, [0; 4], 1, 2, Coverage::Alpha),
        (part, [5, 0, 0, 9], 4, 3, Coverage::Alpha),
        (part, [0, 7, 2, 0], 6, 1, Coverage::Word),
    ];
    for (bounds, extension, cell, border, within) in cases {
        let cells = Cells { bounds, extension, cell, border };
        let coverage = match within {
            Coverage::Alpha => scene.picture_on(device),
            Coverage::Word => scene.coverage_on(device),
        };
        let grid = shadow_grid::gpu::cells(coverage, within, cells);
        let at = Placement { cell: cell as f32, left: -3.3, top: 4.6 };
        results.extend(values(grid.clone())?);
        results.extend(values(shadow_grid::gpu::samples(grid, at, scene.height, scene.width))?);
    }
    Ok(results)
}

fn run_gaussian(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let plane = || scene.plane_on(device).reshape([scene.height, scene.width, 1]);
    let mut blurred = values(gaussian::gpu::gaussian(plane(), 2.3, Border::Clamp))?;
    blurred.extend(values(gaussian::gpu::gaussian(plane(), 6.5, Border::Zero))?);
    Ok(blurred)
}

fn run_bilinear(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let grid = scene.mask_on(device).reshape([GRID / 2, GRID / 2, 4]);
    // From beyond the last cell to the first one, back and forth.
    let tap = |at: usize| {
        let place = ((at as f32 * 0.37).sin() * 0.55 + 0.5).clamp(0.0, 1.0) * (GRID / 2 - 1) as f32;
        let first = place as u32;
        Tap { first, second: (first + 1).min(GRID as u32 / 2 - 1), share: place - first as f32 }
    };
    let taps = |side: usize| (0..side).map(tap).collect();
    bytes(bilinear::gpu::bilinear(grid, taps(scene.width), taps(scene.height)))
}

fn nothing(device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(vec![0.0f32], [1, 1]), device)
}

fn flat(word: u32, device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(vec![word], [1, 1]), (device, DType::U32))
}

const PAINT: Paint = Paint { stroke: [250, 90, 7], shadow: [0, 3, 60], opacity: 0.6 };

fn run_flat_over(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let (canvas, turned) = (scene.picture_on(device), scene.turned_on(device));
    let (stroke, shadow) = (scene.coverage_on(device), scene.plane_on(device));
    let all = flat_over::gpu::flat_over(canvas, stroke, shadow.clone(), turned, PAINT);
    // Half as opaque, because nothing shows beneath opaque pixels.
    let mut pixels = scene.pixels.clone();
    pixels.iter_mut().skip(3).step_by(4).for_each(|alpha| *alpha /= 2);
    let canvas = upload(&pixels, scene.width, scene.height, device);
    let over_colour = flat_over::gpu::flat_over(canvas, flat(0, device), shadow, flat(0xFF20_60C0, device), PAINT);
    let mut results = bytes(all)?;
    results.extend(bytes(over_colour)?);
    Ok(results)
}

fn run_dst_over(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let (canvas, turned) = (scene.picture_on(device), scene.turned_on(device));
    let (stroke, shadow) = (scene.coverage_on(device), scene.plane_on(device));
    let none = nothing(device);
    let all = dst_over::gpu::dst_over(canvas.clone(), stroke, shadow.clone(), turned.clone(), PAINT);
    let over_nothing = dst_over::gpu::dst_over(canvas, flat(0, device), shadow, flat(0, device), PAINT);
    let over_colour = dst_over::gpu::dst_over(turned, flat(0, device), none, flat(0xFF20_60C0, device), PAINT);
    let mut results = Vec::new();
    for result in [all, over_nothing, over_colour] {
        results.extend(bytes(result)?);
    }
    Ok(results)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, String> {
    download(tensor)?.try_into_vec().map_err(|error| error.to_string())
}

/// The bytes of packed words: red, green, blue and alpha, or a value and three zeros.
fn bytes<const D: usize>(tensor: Tensor<D, Int>) -> Result<Vec<f32>, String> {
    Ok(words(tensor)?.into_iter().flat_map(u32::to_le_bytes).map(f32::from).collect())
}

fn words<const D: usize>(tensor: Tensor<D, Int>) -> Result<Vec<u32>, String> {
    download(tensor)?.try_into_vec().map_err(|error| error.to_string())
}

/// A difference between two results.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// The reference is all zeros, which a buffer that was never written would match.
    ZeroReference,
    /// The lengths differ.
    Length {
        /// Values that were expected.
        expected: usize,
        /// Values in the result.
        actual: usize,
    },
    /// A value differs by more than the tolerance.
    Value {
        /// Index of the value.
        at: usize,
        /// The reference value.
        expected: f32,
        /// The value in the result.
        actual: f32,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroReference => f.write_str("an all-zero reference cannot detect an unwritten result"),
            Self::Length { expected, actual } => write!(f, "{actual} values instead of {expected}"),
            Self::Value { at, expected, actual } => write!(f, "value {at} is {actual} instead of {expected}"),
        }
    }
}

/// Checks that `actual` equals `expected` up to `tolerance` times the largest expected magnitude (at least 1). Returns
/// the largest difference in that unit.
///
/// # Errors
/// The worst [`Difference`] above the tolerance.
pub fn compare(expected: &[f32], actual: &[f32], tolerance: f32) -> Result<f32, Difference> {
    if expected.len() != actual.len() {
        return Err(Difference::Length { expected: expected.len(), actual: actual.len() });
    }
    let largest = expected.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    if largest == 0.0 {
        return Err(Difference::ZeroReference);
    }
    let unit = largest.max(1.0);
    // `total_cmp`, so that NaN is the worst.
    let worst = expected.iter().zip(actual).map(|(expected, actual)| (expected - actual).abs()).enumerate();
    match worst.max_by(|(_, one), (_, other)| one.total_cmp(other)) {
        Some((at, off)) if off.is_nan() || off > tolerance * unit => {
            Err(Difference::Value { at, expected: expected[at], actual: actual[at] })
        }
        Some((_, off)) => Ok(off / unit),
        None => Err(Difference::ZeroReference),
    }
}

/// Runs `kernels` on `device` on a test picture and compares each with its CPU twin.
///
/// # Errors
/// The first kernel that fails or differs.
pub fn self_test(device: &Device, kernels: &[Kernel]) -> Result<(), String> {
    // Above the limit of a small level of the solver; its half is a small level.
    let scene = Scene::new(151, 117, 1);
    for kernel in kernels {
        let expected = kernel.run(&scene, &Device::flex())?;
        let actual = kernel.run(&scene, device).map_err(|error| format!("kernel {}: {error}", kernel.name))?;
        compare(&expected, &actual, kernel.tolerance).map_err(|error| format!("kernel {}: {error}", kernel.name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perturbed_result_is_refused() {
        let scene = Scene::new(40, 30, 7);
        for kernel in kernels() {
            let expected = kernel.run(&scene, &Device::flex()).expect("the host computes");
            assert_eq!(compare(&expected, &expected, kernel.tolerance), Ok(0.0), "{}", kernel.name);
            let largest = expected.iter().fold(1.0f32, |largest, value| largest.max(value.abs()));
            let mut perturbed = expected.clone();
            let last = perturbed.len() - 1;
            perturbed[last] += (1.5 * kernel.tolerance).max(1e-6) * largest;
            let refused = compare(&expected, &perturbed, kernel.tolerance);
            assert!(matches!(refused, Err(Difference::Value { at, .. }) if at == last), "{}: {refused:?}", kernel.name);
        }
    }

    #[test]
    fn zeros_nans_and_short_results_are_refused() {
        assert_eq!(compare(&[0.0; 4], &[0.0; 4], 1.0), Err(Difference::ZeroReference));
        assert!(compare(&[1.0, 2.0], &[1.0, f32::NAN], 1.0).is_err());
        assert_eq!(compare(&[1.0, 2.0], &[1.0], 1.0), Err(Difference::Length { expected: 2, actual: 1 }));
        assert!(compare(&[1.0, 2.0], &[0.0, 0.0], 0.1).is_err(), "an unwritten buffer");
    }
}
