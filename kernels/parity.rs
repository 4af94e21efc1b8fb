//! Compares GPU kernels with their CPU twins: those in use when a GPU network starts (its self-test), all of them in the tests.
//!
//! A panic on the device's thread can leave a zeroed buffer that reads back as success, and a driver can be wrong;
//! so no kernel is used on a device before its output there has been compared with its CPU twin's.

use std::fmt;

use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::device::upload;
use crate::dst_over::gpu::Paint;
use crate::gaussian::Border;
use crate::laplacian::solver_gpu::Problem;
use crate::noise::Fbm;
use crate::pyramid::Mix;
use crate::trimap::Params;
use crate::{
    dilate, dst_over, edge, foreground, gaussian, laplacian, linear_alpha, mask_upsample, model_input, noise,
    prolongation, pull_push, pyramid, resize, trimap,
};

/// The network's grid, in the comparisons.
const GRID: usize = 48;

/// A synthetic picture, plane and mask, deterministic for a seed.
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
        // A blob with a soft edge.
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

    /// A trimap of the mask.
    fn labels_on(&self, device: &Device) -> Tensor<2, Int> {
        let params = Params { radii: [2.0; 2], foreground: 0.93, background: 0.07 };
        trimap::gpu::trimap(self.mask_on(device), self.height, self.width, params)
    }

    /// Coverage of all values, none and full among them; the first pixel's is full.
    fn coverage_on(&self, device: &Device) -> Tensor<2, Int> {
        let value = |(at, value): (usize, &f32)| if at == 0 { 255 } else { (1.2 * value * 255.0 - 25.0) as u8 };
        let values: Vec<u32> = self.plane.iter().enumerate().map(value).map(u32::from).collect();
        Tensor::from_data(TensorData::new(values, [self.height, self.width]), (device, DType::U32))
    }

    fn plane_on(&self, device: &Device) -> Tensor<2> {
        Tensor::from_data(TensorData::new(self.plane.clone(), [self.height, self.width]), device)
    }
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

/// A kernel that has both twins.
#[derive(Clone, Copy)]
pub struct Kernel {
    /// The kernel's folder.
    pub name: &'static str,
    /// Largest difference between the twins, as a share of the largest magnitude in the reference (at least 1).
    pub tolerance: f32,
    /// Pictures with a shorter side than this give only zeros.
    pub smallest_side: usize,
    run: fn(&Scene, &Device) -> Result<Vec<f32>, String>,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

/// [`model_input`]'s twins, which the network on a GPU uses.
// Sums of up to (4096 / 48)² products, in another order.
pub const MODEL_INPUT: Kernel = Kernel { name: "model_input", tolerance: 1e-5, smallest_side: 1, run: run_model_input };

/// The kernels of matting, from the clean mask to the cutout.
pub const MATTING: [Kernel; 8] = [
    // Positions up to 4096 in f32, times differences of at most 1.
    Kernel { name: "mask_upsample", tolerance: 1e-4, smallest_side: 1, run: run_mask_upsample },
    // Labels: the same ones.
    Kernel { name: "trimap", tolerance: 0.0, smallest_side: 1, run: run_trimap },
    // Whole numbers.
    Kernel { name: "pyramid", tolerance: 0.0, smallest_side: 1, run: run_pyramid },
    // Labels, and quotients of whole numbers.
    Kernel { name: "prolongation", tolerance: 1e-6, smallest_side: 1, run: run_prolongation },
    // A dozen steps with scalar products in f32 instead of f64, rounded to steps of 255.
    Kernel { name: "solver", tolerance: 2.0 / 254.0, smallest_side: 1, run: run_solver },
    // Whole numbers.
    Kernel { name: "edge", tolerance: 0.0, smallest_side: 1, run: run_edge },
    // One step of 255: a dozen operations, then rounding.
    Kernel { name: "foreground", tolerance: 1.0 / 254.0, smallest_side: 1, run: run_foreground },
    // One step of colour, and what that does to coverage.
    Kernel { name: "linear_alpha", tolerance: 2.0 / 254.0, smallest_side: 1, run: run_linear_alpha },
];

/// Those that the pipeline does not run on a device yet.
const OTHERS: [Kernel; 7] = [
    // Slopes up to the inverse of the ridge carry the rounding of the covariance.
    Kernel { name: "laplacian", tolerance: 1e-4, smallest_side: 3, run: run_laplacian },
    // One step of 255: `pow` is not exactly rounded on a GPU.
    Kernel { name: "resize", tolerance: 1.0 / 254.0, smallest_side: 1, run: run_resize },
    // Sums of up to 2 · 21 + 1 products of values in 0..=1.
    Kernel { name: "gaussian", tolerance: 1e-5, smallest_side: 1, run: run_gaussian },
    // One step of 255, as for `resize`.
    Kernel { name: "dst_over", tolerance: 1.0 / 254.0, smallest_side: 1, run: run_dst_over },
    // Roots and quotients are not exactly rounded on a GPU, and decide which way to go along an edge.
    Kernel { name: "dilate", tolerance: 4.0 / 254.0, smallest_side: 1, run: run_dilate },
    // A dozen levels of sums of four and means, of values in 0..=1.
    Kernel { name: "pull_push", tolerance: 1e-5, smallest_side: 1, run: run_pull_push },
    // Coordinates up to 2¹⁰ in f32 after the turns of five octaves, times slopes of about 3.
    Kernel { name: "noise", tolerance: 1e-3, smallest_side: 1, run: run_noise },
];

/// Every kernel that has both twins.
pub fn kernels() -> impl Iterator<Item = Kernel> {
    [MODEL_INPUT].into_iter().chain(MATTING).chain(OTHERS)
}

impl Kernel {
    /// The kernel's output for `scene` on `device`.
    ///
    /// # Errors
    /// The device's error, in words.
    pub fn run(&self, scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
        (self.run)(scene, device)
    }
}

fn run_model_input(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let picture = upload(&scene.pixels, scene.width, scene.height, device);
    values(model_input::gpu::model_input(picture, GRID))
}

fn run_mask_upsample(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    values(mask_upsample::gpu::mask_upsample(scene.mask_on(device), scene.height, scene.width))
}

fn run_laplacian(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let picture = upload(&scene.pixels, scene.width, scene.height, device);
    values(laplacian::gpu::laplacian(picture, scene.plane_on(device)))
}

fn run_trimap(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let mut results = Vec::new();
    // A disc, flat and upright ellipses, and one beyond the grid.
    for radii in [[2.5, 2.5], [17.0, 2.0], [1.3, 60.0], [9.5, 21.0], [100.0, 100.0]] {
        let params = Params { radii, foreground: 0.93, background: 0.07 };
        let labels = trimap::gpu::trimap(scene.mask_on(device), scene.height, scene.width, params);
        results.extend(words(labels)?.into_iter().map(|label| label as f32));
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
    // Labels as a coarser coverage: flat parts that decide, edges that do not.
    let coarser = pyramid::gpu::halve(scene.labels_on(device), Mix::Coverage);
    let mut results = values(prolongation::gpu::start(coarser.clone(), scene.height, scene.width))?;
    let unknown = vec![u32::from(trimap::UNKNOWN); scene.width * scene.height];
    let unknown = Tensor::from_data(TensorData::new(unknown, [scene.height, scene.width]), (device, DType::U32));
    for labels in [scene.labels_on(device), unknown] {
        results.extend(bytes(prolongation::gpu::decide(coarser.clone(), labels))?);
    }
    Ok(results)
}

fn run_solver(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let picture = upload(&scene.pixels, scene.width, scene.height, device);
    let labels = scene.labels_on(device);
    let half = pyramid::gpu::halve(picture.clone(), Mix::Colour);
    let half_labels = pyramid::gpu::halve(labels.clone(), Mix::Label);
    // A picture of a few pixels more than a small level has, and its half, are both kinds of levels.
    let mut results = Vec::new();
    for (picture, labels) in [(picture, labels), (half, half_labels)] {
        let [height, width] = labels.dims();
        let problem = Problem {
            picture,
            labels: labels.clone(),
            decided: labels,
            start: mask_upsample::gpu::mask_upsample(scene.mask_on(device), height, width),
            expected: scene.mask_on(device),
            gamma: 1e-2,
        };
        results.extend(bytes(problem.solved(12))?);
    }
    Ok(results)
}

fn run_edge(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    bytes(edge::gpu::without_traces(scene.coverage_on(device)))
}

/// Colours of half the scene's size, or about.
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
    let picture = upload(&scene.pixels, scene.width, scene.height, device);
    let colours = foreground::gpu::relax(picture.clone(), scene.coverage_on(device), colours_on(scene, device), true);
    bytes(linear_alpha::gpu::cut_out(picture, scene.coverage_on(device), colours))
}

fn run_resize(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let picture = upload(&scene.pixels, scene.width, scene.height, device);
    let (width, height) = ((scene.width * 2).div_ceil(5), (scene.height * 3).div_ceil(4));
    bytes(resize::gpu::resize(picture, height, width))
}

fn run_gaussian(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let colours: Vec<f32> = scene.pixels.iter().map(|value| f32::from(*value) / 255.0).collect();
    let colours = Tensor::from_data(TensorData::new(colours, [scene.height, scene.width, 4]), device);
    let plane = scene.plane_on(device).reshape([scene.height, scene.width, 1]);
    let mut blurred = values(gaussian::gpu::gaussian(colours, 2.3, Border::Clamp))?;
    blurred.extend(values(gaussian::gpu::gaussian(plane, 6.5, Border::Zero))?);
    Ok(blurred)
}

fn run_dst_over(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let (width, height) = (scene.width, scene.height);
    let picture = |pixels: &[u8]| upload(pixels, width, height, device);
    // Zero, full and partial coverage.
    let stroke = scene.plane.iter().map(|value| (1.2 * value * 255.0 - 30.0) as u8).map(u32::from).collect::<Vec<_>>();
    let stroke = Tensor::from_data(TensorData::new(stroke, [height, width]), (device, DType::U32));
    let mut turned = scene.pixels.clone();
    turned.reverse();
    let flat = |word: u32| Tensor::from_data(TensorData::new(vec![word], [1, 1]), (device, DType::U32));
    let no_shadow = Tensor::from_data(TensorData::new(vec![0.0f32], [1, 1]), device);
    let paint = Paint { stroke: [250, 90, 7], shadow: [0, 3, 60], opacity: 0.6 };
    let all = dst_over::gpu::dst_over(
        picture(&scene.pixels),
        stroke.clone(),
        scene.plane_on(device),
        picture(&turned),
        paint,
    );
    let shadow = dst_over::gpu::dst_over(picture(&scene.pixels), flat(0), scene.plane_on(device), flat(0), paint);
    let colour = dst_over::gpu::dst_over(picture(&turned), flat(0), no_shadow, flat(0xFF20_60C0), paint);
    let mut results = Vec::new();
    for result in [all, shadow, colour] {
        results.extend(words(result)?.into_iter().flat_map(u32::to_le_bytes).map(f32::from));
    }
    Ok(results)
}

fn run_dilate(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    // Spots of all sizes with soft edges, which touch here and there. There is one at the origin, whatever the size.
    let spot = |at: usize| {
        let (x, y) = ((at % scene.width) as f32, (at / scene.width) as f32);
        let wave = (x * 0.13).cos() * (y * 0.11).cos() + 0.4 * (x * 0.041 + y * 0.067).cos();
        ((wave - 0.55) * 4.0 + 0.5).clamp(0.0, 1.0)
    };
    let coverage: Vec<u32> = (0..scene.width * scene.height).map(|at| (spot(at) * 255.0) as u32).collect();
    let mut results = Vec::new();
    for radius in [0.6, 3.5, 21.0] {
        let coverage = TensorData::new(coverage.clone(), [scene.height, scene.width]);
        let coverage = Tensor::from_data(coverage, (device, DType::U32));
        results.extend(words(dilate::gpu::dilate(coverage, radius))?.into_iter().map(|covered| covered as f32));
    }
    Ok(results)
}

fn run_pull_push(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    // A hole in the middle, no sample of full weight, and a known sample in a corner, whatever the size.
    let weight = |at: usize| {
        let from_middle = |at: usize, side: usize| (2.0 * at as f32 / side as f32 - 1.0).abs();
        let hole = from_middle(at % scene.width, scene.width).max(from_middle(at / scene.width, scene.height)) < 0.7;
        if at == 0 {
            0.6
        } else if hole {
            0.0
        } else {
            0.8 * scene.plane[at]
        }
    };
    let pixels = scene.pixels.as_chunks::<4>().0.iter().enumerate();
    let samples: Vec<f32> = pixels
        .flat_map(|(at, &[red, green, blue, _])| {
            let [red, green, blue] = [red, green, blue].map(|value| f32::from(value) / 255.0 * weight(at));
            [red, green, blue, weight(at)]
        })
        .collect();
    let samples = Tensor::from_data(TensorData::new(samples, [scene.height, scene.width, 4]), device);
    values(pull_push::gpu::pull_push(samples))
}

fn run_noise(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    // A slanted grid about the origin, moved a little by the plane so that no point lies on an edge of the lattice.
    let place = |at: usize| {
        let (x, y) = ((at % scene.width) as f32 * 0.031 - 1.7, (at / scene.width) as f32 * 0.029 - 2.3);
        [x + 0.3 * y + 0.02 * scene.plane[at], y - 0.2 * x + 0.013]
    };
    let places: Vec<f32> = (0..scene.width * scene.height).flat_map(place).collect();
    let places = || Tensor::from_data(TensorData::new(places.clone(), [scene.height, scene.width, 2]), device);
    let settings = Fbm { seed: 0x5EED, octaves: 5, gain: 0.5, footprint: 0.02 };
    let mut results = values(noise::gpu::noise(places(), settings))?;
    // Where two points are equally near, either's number is right: it is weighted by the difference of the distances.
    let cells = values(noise::gpu::cells(places(), 0.9, 0x5EED))?;
    results.extend(
        cells.as_chunks::<3>().0.iter().flat_map(|&[nearest, second, own]| [nearest, second, own * (second - nearest)]),
    );
    Ok(results)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, String> {
    let data = tensor.try_into_data().map_err(|error| error.to_string())?;
    data.try_into_vec().map_err(|error| error.to_string())
}

/// The bytes of packed words: red, green, blue and alpha, or a value and three zeros.
fn bytes<const D: usize>(tensor: Tensor<D, Int>) -> Result<Vec<f32>, String> {
    Ok(words(tensor)?.into_iter().flat_map(u32::to_le_bytes).map(f32::from).collect())
}

fn words<const D: usize>(tensor: Tensor<D, Int>) -> Result<Vec<u32>, String> {
    let data = tensor.try_into_data().map_err(|error| error.to_string())?;
    data.try_into_vec().map_err(|error| error.to_string())
}

/// How two results differ.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// The reference is all zeros, and would agree with a buffer that was never written.
    ZeroReference,
    /// One result is longer than the other.
    Length {
        /// Values that were expected.
        expected: usize,
        /// Values in the result.
        actual: usize,
    },
    /// A value differs by more than the tolerance.
    Value {
        /// Its index.
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

/// Whether `actual` is `expected` up to `tolerance` times the largest magnitude expected (at least 1). Returns the largest
/// difference, in the same unit.
///
/// # Errors
/// The worst [`Difference`], when it is too large.
pub fn compare(expected: &[f32], actual: &[f32], tolerance: f32) -> Result<f32, Difference> {
    if expected.len() != actual.len() {
        return Err(Difference::Length { expected: expected.len(), actual: actual.len() });
    }
    let largest = expected.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    if largest == 0.0 {
        return Err(Difference::ZeroReference);
    }
    let unit = largest.max(1.0);
    // `total_cmp`, so that a NaN is the worst of all.
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
/// The first kernel that fails or differs, in words.
pub fn self_test(device: &Device, kernels: &[Kernel]) -> Result<(), String> {
    // Larger than a small level of the solver, whose half is one.
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
