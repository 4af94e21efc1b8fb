//! Matting: agreement with PyMatting, edges, colours.

use crate::golden;
use backdrop::image::{AlphaMatte, Frame, RawMask, Size, Trimap};
use backdrop::matting::prior::Priors;
use backdrop::matting::{self, Edge, Options, closed_form, foreground};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/reference/matting");

/// Size, channels and samples (0..=1) of a PNG.
fn samples(path: &Path) -> (Size, usize, Vec<f32>) {
    let mut reader = png::Decoder::new(BufReader::new(File::open(path).unwrap())).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let samples = if info.bit_depth == png::BitDepth::Sixteen {
        let (pairs, _) = bytes.as_chunks::<2>();
        pairs.iter().map(|&pair| f32::from(u16::from_be_bytes(pair)) / 65535.0).collect()
    } else {
        bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect()
    };
    (Size::new(info.width, info.height), info.color_type.samples(), samples)
}

fn byte(sample: f32) -> u8 {
    (sample * 255.0 + 0.5) as u8
}

fn photo(path: &Path) -> Frame {
    let (size, channels, samples) = samples(path);
    let pixels = samples.chunks_exact(channels).flat_map(|pixel| [byte(pixel[0]), byte(pixel[1]), byte(pixel[2]), 255]);
    Frame::new(size, pixels.collect::<Vec<u8>>().into())
}

fn reference(name: &str) -> PathBuf {
    Path::new(REFERENCE).join(name)
}

/// The mean squared error of our alpha against PyMatting's, on the recorded trimap.
fn error_against_pymatting(name: &str, frame: &Frame) -> f64 {
    let (size, _, labels) = samples(&reference(&format!("{name}.trimap.png")));
    let trimap = Trimap::new(size, labels.into_iter().map(byte).collect());
    let (_, _, expected) = samples(&reference(&format!("{name}.alpha.png")));
    let matte = closed_form::estimate_alpha(frame, &trimap, &Priors::default());
    for (&coverage, &label) in matte.coverage().iter().zip(trimap.labels()) {
        assert!(label == Trimap::UNKNOWN || coverage == label, "a known pixel changed");
    }
    mean_squared_error(&matte, &expected)
}

fn mean_squared_error(matte: &AlphaMatte, expected: &[f32]) -> f64 {
    let squares = matte.coverage().iter().zip(expected).map(|(&ours, &theirs)| {
        let difference = f64::from(ours) / 255.0 - f64::from(theirs);
        difference * difference
    });
    squares.sum::<f64>() / expected.len() as f64
}

#[test]
fn alpha_of_drawn_pictures_agrees_with_pymatting() {
    for name in ["disc", "strands", "texture"] {
        let error = error_against_pymatting(name, &photo(&reference(&format!("{name}.png"))));
        assert!(error <= 1e-4, "{name}: mean squared error {error:.2e}");
    }
}

#[test]
fn alpha_of_golden_pictures_agrees_with_pymatting() {
    for (name, file) in [("fur-horse", "fur-horse.jpg"), ("hair-curls", "hair-curls.jpg")] {
        let error = error_against_pymatting(name, &golden::picture(file));
        assert!(error <= 1e-4, "{name}: mean squared error {error:.2e}");
    }
}

#[test]
fn the_comparison_with_pymatting_detects_a_wrong_matte() {
    let (size, _, expected) = samples(&reference("disc.alpha.png"));
    let shifted: Vec<u8> = expected.iter().skip(1).chain([&0.0]).map(|&alpha| byte(alpha)).collect();
    assert!(mean_squared_error(&AlphaMatte::new(size, shifted), &expected) > 1e-4);
}

/// A disc of `radius` (in 48ths of the mask's side) around the middle, with a ramp of `ramp`.
fn mask(radius: f32, ramp: f32) -> RawMask {
    let distance = |at: usize| f32::hypot((at % 96) as f32 - 47.5, (at / 96) as f32 - 47.5) / 2.0;
    masked((0..96 * 96).map(|at| ((radius - distance(at)) / ramp + 0.5).clamp(0.0, 1.0)).collect())
}

/// These values on a square grid.
fn masked(values: Vec<f32>) -> RawMask {
    let side = values.len().isqrt() as u32;
    RawMask::new(Size::new(side, side), values).expect("probabilities")
}

/// Coverage of a pixel by the disc of [`mask`], stretched over the picture.
fn disc_alpha(size: Size, x: u32, y: u32) -> f32 {
    let across = ((x as f32 + 0.5) / size.width as f32 - 0.5) * 48.0;
    let down = ((y as f32 + 0.5) / size.height as f32 - 0.5) * 48.0;
    (15.0 - f32::hypot(across, down) + 0.5).clamp(0.0, 1.0)
}

/// A disc of one colour over another, with some grain.
fn disc(size: Size, subject: [u8; 3], background: [u8; 3]) -> Frame {
    let mut pixels = Vec::with_capacity(size.area() * 4);
    for (x, y) in (0..size.height).flat_map(|y| (0..size.width).map(move |x| (x, y))) {
        let alpha = disc_alpha(size, x, y);
        let grain = ((x * 7 + y * 13) % 5) as f32 - 2.0;
        let mix = |channel: usize| {
            (alpha * f32::from(subject[channel]) + (1.0 - alpha) * f32::from(background[channel]) + grain)
                .clamp(0.0, 255.0)
        };
        pixels.extend([mix(0) as u8, mix(1) as u8, mix(2) as u8, 255]);
    }
    Frame::new(size, pixels.into())
}

fn options(edge: Edge) -> Options {
    Options { edge, ..Options::default() }
}

fn cut(frame: Frame, mask: &RawMask, options: &Options) -> Frame {
    matting::cut_out(frame, mask, options).unwrap().into_frame()
}

#[test]
fn opaque_pixels_equal_the_source_bit_for_bit_and_transparent_ones_are_zero() {
    let source = disc(Size::new(300, 200), [200, 180, 40], [30, 120, 60]);
    let cutout = cut(source.clone(), &mask(15.0, 2.0), &options(Edge::Soft));
    let (mut whole, mut empty) = (0, 0);
    for (before, after) in source.pixels().as_chunks::<4>().0.iter().zip(cutout.pixels().as_chunks::<4>().0) {
        match after[3] {
            255 => {
                whole += 1;
                assert_eq!(before, after);
            }
            0 => {
                empty += 1;
                assert_eq!(after, &[0; 4]);
            }
            _ => {}
        }
    }
    assert!(whole > 10_000 && empty > 20_000, "{whole} whole, {empty} empty");
}

#[test]
fn a_subject_of_a_twentieth_of_a_percent_is_kept() {
    let (columns, size) = (384, Size::new(800, 800));
    let inside = |x: usize, y: usize| (100..109).contains(&x) && (200..209).contains(&y);
    let values = (0..columns * columns).map(|at| f32::from(u8::from(inside(at % columns, at / columns)))).collect();
    let mask = masked(values);
    let pixel = |at: usize| {
        let (x, y) = (at % 800 * columns / 800, at / 800 * columns / 800);
        if inside(x, y) { [220, 40, 30, 255] } else { [90, 100, (at % 7) as u8 + 110, 255] }
    };
    let frame = Frame::new(size, (0..size.area()).flat_map(pixel).collect::<Vec<u8>>().into());
    for edge in [Edge::Soft, Edge::Hard] {
        let cutout = cut(frame.clone(), &mask, &options(edge));
        let covered = cutout.pixels().as_chunks::<4>().0.iter().filter(|pixel| pixel[3] > 127).count();
        assert!((280..450).contains(&covered), "{covered} pixels of about 352");
    }
}

#[test]
fn foreground_colours_reach_every_partly_covered_pixel_across_tiles() {
    // A ramp of coverage wider than a tile, over a known mixture.
    let size = Size::new(200, 70);
    let alpha = |x: u32| ((x as f32 - 20.0) / 160.0).clamp(0.0, 1.0);
    let coverage: Vec<u8> = (0..size.area()).map(|at| byte(alpha(at as u32 % 200))).collect();
    let mix = |at: usize| {
        let alpha = f32::from(coverage[at]) / 255.0;
        let value = |subject: f32, background: f32| (alpha * subject + (1.0 - alpha) * background + 0.5) as u8;
        [value(20.0, 240.0), value(200.0, 30.0), value(90.0, 90.0), 255]
    };
    let mut frame = Frame::new(size, (0..size.area()).flat_map(mix).collect::<Vec<u8>>().into());
    foreground::estimate(&mut frame, &AlphaMatte::new(size, coverage.clone()));
    for (at, pixel) in frame.pixels().as_chunks::<4>().0.iter().enumerate() {
        if coverage[at] > 60 && coverage[at] < 255 {
            let error = pixel[0].abs_diff(20).max(pixel[1].abs_diff(200)).max(pixel[2].abs_diff(90));
            assert!(error <= 40, "pixel {at}, coverage {}: {pixel:?}", coverage[at]);
        }
    }
}
