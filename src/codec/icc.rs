//! Converts pixels to sRGB by the colour description of their file: an ICC profile, code points, or linear light.
//!
//! A profile that is malformed, does not fit the picture's channels, or is larger than [`MAX_PROFILE_BYTES`] is
//! ignored: the samples are taken as sRGB, as viewers do. A profile that changes no colour by more than one step (all
//! variants of sRGB) is skipped, so that sRGB photos keep their bytes.

mod code_points;
mod high_range;
mod sixteen_bit;

pub(super) use code_points::CodePoints;
use high_range::HighRange;
pub(super) use sixteen_bit::SixteenBitTransform;

use moxcms::{
    ColorProfile, DataColorSpace, Layout, ParsingOptions, ToneReprCurve, Transform8BitExecutor, TransformExecutor,
    TransformOptions,
};
use rayon::prelude::*;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Maximum size of a profile. Press profiles (CMYK tables) reach 2.7 MB.
pub(super) const MAX_PROFILE_BYTES: usize = 4 << 20;

/// Pixels per task: 64 KiB, which fit in the L2 cache together with their copy.
const CHUNK: usize = 16 << 10;

/// The colour model of a decoded RGBA buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Samples {
    Rgb,
    /// Grey, repeated in red, green and blue.
    Grey,
}

/// The colour description of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Colors<'a> {
    Profile(Cow<'a, [u8]>),
    CodePoints(CodePoints),
    /// Samples are linear light in sRGB's primaries.
    Linear,
}

impl Colors<'_> {
    /// The conversion of PQ or HLG; `None` for a standard dynamic range.
    fn high_range(&self) -> Option<HighRange> {
        match self {
            Self::CodePoints(code_points) => code_points.high_range(),
            Self::Profile(_) | Self::Linear => None,
        }
    }

    fn profile(&self) -> Option<ColorProfile> {
        match self {
            Self::Profile(profile) => parse(profile),
            Self::CodePoints(code_points) => code_points.profile(),
            Self::Linear => Some(linear()),
        }
    }
}

/// sRGB's primaries with linear light.
fn linear() -> ColorProfile {
    let mut profile = ColorProfile::new_srgb();
    profile.cicp = None;
    for curve in [&mut profile.red_trc, &mut profile.green_trc, &mut profile.blue_trc] {
        *curve = ColorProfile::new_gray_with_gamma(1.0).gray_trc;
    }
    profile
}

/// Converts RGBA `pixels` in place; alpha is unchanged.
pub(super) fn to_srgb(pixels: &mut [u8], samples: Samples, colors: Option<&Colors<'_>>) {
    if let Some(range) = colors.and_then(Colors::high_range) {
        return pixels.par_chunks_mut(CHUNK * 4).for_each(|chunk| {
            let from: Vec<u16> = chunk.iter().map(|&sample| u16::from(sample) * 257).collect();
            let mut to = vec![0; from.len()];
            range.apply(&from, &mut to);
            chunk.iter_mut().zip(to).for_each(|(sample, converted)| *sample = to_8_bits(converted));
        });
    }
    let Some(profile) = colors.and_then(Colors::profile) else { return };
    match (profile.color_space, samples) {
        // A grey picture under an RGB profile is an RGB picture with equal channels.
        (DataColorSpace::Rgb, Samples::Rgb | Samples::Grey) => {
            if let Some(transform) = transform_to_srgb(&profile, Layout::Rgba, Layout::Rgba).filter(changes_colours) {
                in_place(pixels, |_| {}, &*transform);
            }
        }
        (DataColorSpace::Gray, Samples::Grey) => {
            if let Some(curve) = grey_curve(&profile) {
                pixels.as_chunks_mut::<4>().0.par_iter_mut().with_min_len(CHUNK).for_each(|pixel| {
                    let [red, green, blue] = curve[usize::from(pixel[0])];
                    *pixel = [red, green, blue, pixel[3]];
                });
            }
        }
        _ => {}
    }
}

/// Converts CMYK `pixels`, inverted (255 is no ink) as in JPEG, to opaque RGBA in place.
pub(super) fn cmyk_to_srgb(pixels: &mut [u8], profile: Option<&[u8]>) {
    let transform = profile
        .and_then(parse)
        .filter(|profile| profile.color_space == DataColorSpace::Cmyk)
        .and_then(|profile| transform_to_srgb(&profile, Layout::Rgba, Layout::Rgba));
    match transform {
        // In profiles 255 is full ink.
        Some(transform) => in_place(pixels, |cmyk| cmyk.iter_mut().for_each(|ink| *ink = 255 - *ink), &*transform),
        None => {
            pixels.as_chunks_mut::<4>().0.par_iter_mut().with_min_len(CHUNK).for_each(|pixel| {
                let [cyan, magenta, yellow, black] = *pixel;
                *pixel = [multiply(cyan, black), multiply(magenta, black), multiply(yellow, black), 255];
            });
            return;
        }
    }
    pixels.as_chunks_mut::<4>().0.iter_mut().for_each(|pixel| pixel[3] = 255);
}

/// The nearest 8-bit value of a 16-bit sample.
pub(super) fn to_8_bits(sample: u16) -> u8 {
    ((u32::from(sample) * 255 + 32_767) / 65_535) as u8
}

/// `a * b / 255`, rounded (Blinn).
fn multiply(a: u8, b: u8) -> u8 {
    let product = u16::from(a) * u16::from(b) + 128;
    ((product + (product >> 8)) >> 8) as u8
}

fn parse(profile: &[u8]) -> Option<ColorProfile> {
    if profile.len() > MAX_PROFILE_BYTES {
        return None;
    }
    let options = ParsingOptions {
        max_profile_size: MAX_PROFILE_BYTES,
        max_allowed_clut_size: MAX_PROFILE_BYTES,
        ..ParsingOptions::default()
    };
    let parsed = catch_panic(|| ColorProfile::new_from_slice_with_options(profile, options).ok())?;
    if parsed.color_space == DataColorSpace::Gray && parsed.pcs == DataColorSpace::Lab {
        return grey_by_luminance(parsed);
    }
    Some(parsed)
}

/// A grey profile converted from CIE lightness to luminance, which the colour engine requires.
fn grey_by_luminance(mut profile: ColorProfile) -> Option<ColorProfile> {
    const STEPS: u32 = 4096;
    profile.pcs = DataColorSpace::Xyz;
    let levels: Vec<u16> = (0..STEPS).map(|step| (step * 65535 / (STEPS - 1)) as u16).collect();
    let (linear, mut lightness) = (ColorProfile::new_gray_with_gamma(1.0), vec![0; levels.len()]);
    catch_panic(|| {
        let options = TransformOptions::default();
        let curve = profile.create_transform_16bit(Layout::Gray, &linear, Layout::Gray, options).ok()?;
        curve.transform(&levels, &mut lightness).ok()
    })?;
    let luminance = |lightness: u16| {
        let lightness = f64::from(lightness) / 65535.0 * 100.0;
        let light = if lightness > 8.0 { ((lightness + 16.0) / 116.0).powi(3) } else { lightness * 27.0 / 24389.0 };
        (light * 65535.0).round() as u16
    };
    profile.gray_trc = Some(ToneReprCurve::Lut(lightness.into_iter().map(luminance).collect()));
    Some(profile)
}

fn transform_to_srgb(from: &ColorProfile, source: Layout, target: Layout) -> Option<Arc<Transform8BitExecutor>> {
    let srgb = ColorProfile::new_srgb();
    catch_panic(|| from.create_transform_8bit(source, &srgb, target, TransformOptions::default()).ok())
}

/// Runs `work` of the colour engine; a profile that makes it panic is malformed.
fn catch_panic<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok().flatten()
}

/// Whether any colour of a 9×9×9 cube changes by more than one step.
fn changes_colours(transform: &Arc<Transform8BitExecutor>) -> bool {
    let level = |index: usize| (index * 255 / 8) as u8;
    let cube: Vec<u8> =
        (0..9 * 9 * 9).flat_map(|index| [level(index % 9), level(index / 9 % 9), level(index / 81), 255]).collect();
    let mut seen = vec![0; cube.len()];
    catch_panic(|| transform.transform(&cube, &mut seen).ok()).is_some()
        && cube.iter().zip(&seen).any(|(before, after)| before.abs_diff(*after) > 1)
}

fn grey_curve(profile: &ColorProfile) -> Option<Vec<[u8; 3]>> {
    let transform = transform_to_srgb(profile, Layout::Gray, Layout::Rgb)?;
    let levels: Vec<u8> = (0..=255).collect();
    let mut curve = vec![0; 3 * levels.len()];
    catch_panic(|| transform.transform(&levels, &mut curve).ok())?;
    Some(curve.as_chunks::<3>().0.to_vec())
}

/// Transforms in chunks through a copy; a chunk that fails keeps its samples.
fn in_place(
    pixels: &mut [u8],
    prepare: impl Fn(&mut [u8]) + Sync,
    transform: &(dyn TransformExecutor<u8> + Send + Sync),
) {
    pixels.par_chunks_mut(CHUNK * 4).for_each_init(
        || vec![0; CHUNK * 4],
        |copy, chunk| {
            let copy = &mut copy[..chunk.len()];
            copy.copy_from_slice(chunk);
            prepare(copy);
            if catch_panic(|| transform.transform(copy, chunk).ok()).is_none() {
                chunk.copy_from_slice(copy);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn icc(profile: &[u8]) -> Colors<'_> {
        Colors::Profile(profile.into())
    }

    #[test]
    fn an_srgb_profile_changes_no_byte() {
        let profile = ColorProfile::new_srgb().encode().expect("a profile");
        let mut pixels: Vec<u8> = (0..40_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
        let before = pixels.clone();
        to_srgb(&mut pixels, Samples::Rgb, Some(&icc(&profile)));
        assert_eq!(pixels, before);
    }

    #[test]
    fn a_malformed_oversized_or_unsuitable_profile_is_ignored() {
        let grey = ColorProfile::new_gray_with_gamma(1.0).encode().expect("a profile");
        let mut oversized = ColorProfile::new_display_p3().encode().expect("a profile");
        oversized.resize(MAX_PROFILE_BYTES + 1, 0);
        let mut pixels = vec![200, 100, 50, 255];
        for profile in [b"not a profile".as_slice(), &[], &grey, &oversized, &oversized[..200]] {
            to_srgb(&mut pixels, Samples::Rgb, Some(&icc(profile)));
            assert_eq!(pixels, [200, 100, 50, 255]);
        }
    }

    #[test]
    fn cmyk_without_a_profile_is_multiplied() {
        let mut pixels = [[255, 255, 255, 255], [0, 255, 255, 255], [255, 128, 255, 128], [9, 9, 9, 0]].concat();
        cmyk_to_srgb(&mut pixels, None);
        let right = [[255, 255, 255, 255], [0, 255, 255, 255], [128, 64, 128, 255], [0, 0, 0, 255]].concat();
        assert_eq!(pixels, right);
    }

    #[test]
    fn linear_light_and_code_points_are_converted() {
        let converted = |pixel: [u8; 3], colors: Colors<'_>| {
            let mut pixels = [pixel[0], pixel[1], pixel[2], 9];
            to_srgb(&mut pixels, Samples::Rgb, Some(&colors));
            assert_eq!(pixels[3], 9);
            [pixels[0], pixels[1], pixels[2]]
        };
        assert!(matches!(converted([0, 55, 255], Colors::Linear), [0, 127 | 128, 255]));
        let of = |primaries, transfer| Colors::CodePoints(CodePoints { primaries, transfer });
        // Display P3; sRGB, BT.709, unspecified, reserved: as they are.
        let p3 = converted([200, 60, 40], of(12, 13));
        assert!(p3.iter().zip([218, 41, 22]).all(|(seen, right)| seen.abs_diff(right) <= 1), "{p3:?}");
        for (primaries, transfer) in [(1, 13), (1, 1), (2, 2), (2, 13), (12, 2), (0, 0), (255, 255), (9, 3)] {
            assert_eq!(converted([200, 60, 40], of(primaries, transfer)), [200, 60, 40], "{primaries} {transfer}");
        }
    }
}
