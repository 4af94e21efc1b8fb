//! Compares GPU kernels with their CPU twins: a network's kernels when it starts (self-test), all kernels in tests.
//!
//! A panic on the device's thread can leave a zeroed buffer that reads back as success, and a driver can be wrong. So a
//! kernel is used on a device only after its output there was compared with the CPU twin's.
//!
//! `expected_…` computes a kernel's reference by its CPU twin, `run_…` the output of its GPU twin from equal inputs.
//! Inputs that another kernel makes are made by the twin of that kernel.

mod composing;
mod matting;
mod networks;

pub use composing::COMPOSING;
pub use matting::MATTING;
pub use networks::NETWORKS;

use std::fmt;

use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::device::{Plane, download};

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

    /// Width and height.
    const fn size(&self) -> [usize; 2] {
        [self.width, self.height]
    }

    fn words(&self) -> Vec<u32> {
        words_of(&self.pixels)
    }

    /// The picture's pixels in reverse order.
    fn turned(&self) -> Vec<u8> {
        let mut turned = self.pixels.clone();
        turned.reverse();
        turned
    }

    /// Coverage of all values, including 0 and 255; the first pixel is fully covered.
    fn coverage(&self) -> Vec<u8> {
        let value = |(at, value): (usize, &f32)| if at == 0 { 255 } else { (1.2 * value * 255.0 - 25.0) as u8 };
        self.plane.iter().enumerate().map(value).collect()
    }

    fn mask_on(&self, device: &Device) -> Tensor<2> {
        Tensor::from_data(TensorData::new(self.mask.clone(), [GRID, GRID]), device)
    }

    fn coverage_on(&self, device: &Device) -> Plane {
        let values = self.coverage().into_iter().map(u32::from).collect();
        uploaded(values, self.size(), device)
    }

    fn picture_on(&self, device: &Device) -> Plane {
        uploaded(self.words(), self.size(), device)
    }

    fn turned_on(&self, device: &Device) -> Plane {
        uploaded(words_of(&self.turned()), self.size(), device)
    }

    fn plane_on(&self, device: &Device) -> Tensor<2> {
        Tensor::from_data(TensorData::new(self.plane.clone(), [self.height, self.width]), device)
    }
}

/// The words of packed RGBA8: one a pixel, red in the low byte.
fn words_of(pixels: &[u8]) -> Vec<u32> {
    pixels.as_chunks::<4>().0.iter().map(|&pixel| u32::from_le_bytes(pixel)).collect()
}

fn uploaded(words: Vec<u32>, [width, height]: [usize; 2], device: &Device) -> Plane {
    Tensor::from_data(TensorData::new(words, [height, width]), (device, DType::U32))
}

/// A plane of the one value 0.
fn nothing(device: &Device) -> Tensor<2> {
    Tensor::from_data([[0.0_f32]], device)
}

/// A plane of one word.
fn flat(word: u32, device: &Device) -> Plane {
    uploaded(vec![word], [1, 1], device)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, String> {
    download(tensor)?.try_into_vec().map_err(|error| error.to_string())
}

/// A value for each word.
fn words<const D: usize>(tensor: Tensor<D, Int>) -> Result<Vec<f32>, String> {
    Ok(downloaded(tensor)?.into_iter().map(|word| word as f32).collect())
}

/// Four values for each word: red, green, blue and alpha.
fn bytes<const D: usize>(tensor: Tensor<D, Int>) -> Result<Vec<f32>, String> {
    Ok(floats(downloaded(tensor)?.into_iter().flat_map(u32::to_le_bytes)))
}

fn downloaded<const D: usize>(tensor: Tensor<D, Int>) -> Result<Vec<u32>, String> {
    download(tensor)?.try_into_vec().map_err(|error| error.to_string())
}

fn floats(bytes: impl IntoIterator<Item = u8>) -> Vec<f32> {
    bytes.into_iter().map(f32::from).collect()
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
    expected: fn(&Scene) -> Vec<f32>,
    run: fn(&Scene, &Device) -> Result<Vec<f32>, String>,
}

impl Kernel {
    const fn new(
        name: &'static str,
        tolerance: f32,
        expected: fn(&Scene) -> Vec<f32>,
        run: fn(&Scene, &Device) -> Result<Vec<f32>, String>,
    ) -> Self {
        Self { name, tolerance, expected, run }
    }

    /// The output of the CPU twin for `scene`.
    #[must_use]
    pub fn expected(&self, scene: &Scene) -> Vec<f32> {
        (self.expected)(scene)
    }

    /// The output of the GPU twin for `scene` on `device`.
    ///
    /// # Errors
    /// The device's error.
    ///
    /// # Panics
    /// When the device is no GPU.
    pub fn run(&self, scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
        (self.run)(scene, device)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

/// All kernels with both twins.
pub fn kernels() -> impl Iterator<Item = Kernel> {
    NETWORKS.into_iter().chain(MATTING).chain(COMPOSING)
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
        let expected = kernel.expected(&scene);
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
            let expected = kernel.expected(&scene);
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
