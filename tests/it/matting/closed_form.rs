//! Matting: agreement with PyMatting, edges, refusal of empty masks.

use crate::golden;
use backdrop::image::{AlphaMatte, Frame, RawMask, Size, Trimap};
use backdrop::matting::clean::clean_without_colors;
use backdrop::matting::prior::Priors;
use backdrop::matting::{self, Edge, Method, NoSubject, Options, closed_form, foreground, trimap};
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
    masked(disc_values(radius, ramp))
}

/// These values on a square grid.
fn masked(values: Vec<f32>) -> RawMask {
    let side = values.len().isqrt() as u32;
    RawMask::new(Size::new(side, side), values).expect("probabilities")
}

fn disc_values(radius: f32, ramp: f32) -> Vec<f32> {
    let distance = |at: usize| f32::hypot((at % 96) as f32 - 47.5, (at / 96) as f32 - 47.5) / 2.0;
    (0..96 * 96).map(|at| ((radius - distance(at)) / ramp + 0.5).clamp(0.0, 1.0)).collect()
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
fn a_subject_over_red_has_no_red_fringe() {
    let subject = [40, 90, 200];
    let size = Size::new(320, 320);
    let cutout = cut(disc(size, subject, [230, 20, 20]), &mask(15.0, 2.0), &options(Edge::Soft));
    let partly: Vec<[u8; 4]> =
        cutout.pixels().as_chunks::<4>().0.iter().copied().filter(|pixel| pixel[3] > 40 && pixel[3] < 250).collect();
    assert!(partly.len() > 1000, "only {} partly covered pixels", partly.len());
    let excess: f32 =
        partly.iter().map(|pixel| f32::from(pixel[0]) - f32::from(subject[0])).sum::<f32>() / partly.len() as f32;
    // The mixed pixels themselves are 95 too red on average.
    assert!(excess.abs() < 6.0, "the edge is {excess} too red");
    for background in [[255u8, 255, 255], [0, 0, 255], [0, 0, 0]] {
        for pixel in &partly {
            let shown = |channel: usize| {
                let alpha = f32::from(pixel[3]) / 255.0;
                alpha * f32::from(pixel[channel]) + (1.0 - alpha) * f32::from(background[channel])
            };
            let highest = f32::max(f32::from(subject[0]), f32::from(background[0]));
            assert!(shown(0) <= highest + 25.0, "a red fringe of {} over {background:?}", shown(0));
        }
    }
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
fn the_matte_corrects_the_edge_of_the_mask() {
    let size = Size::new(384, 384);
    let frame = disc(size, [40, 90, 200], [210, 160, 50]);
    // The mask is half a 48th (four pixels) too large.
    let wrong = mask(15.5, 1.0);
    let by = |method| cut(frame.clone(), &wrong, &Options { method, ..Options::default() });
    let error = |cutout: &Frame| {
        let differences = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (x, y)));
        differences.map(|(x, y)| (f32::from(cutout.pixel(x, y)[3]) / 255.0 - disc_alpha(size, x, y)).abs()).sum::<f32>()
    };
    let (matted, plain) = (error(&by(Method::ClosedForm)), error(&by(Method::None)));
    assert!(matted < 0.5 * plain, "matting's error {matted}, the mask's {plain}");
}

#[test]
fn a_hard_edge_is_one_pixel_wide() {
    let frame = disc(Size::new(480, 480), [40, 90, 200], [210, 160, 50]);
    let partly = |edge| {
        let cutout = cut(frame.clone(), &mask(15.0, 2.0), &options(edge));
        cutout.pixels().as_chunks::<4>().0.iter().filter(|pixel| pixel[3] != 0 && pixel[3] != 255).count()
    };
    let (soft, hard) = (partly(Edge::Soft), partly(Edge::Hard));
    // The rim is 2π · 150 pixels long.
    assert!(soft > 5_000, "{soft}");
    assert!((500..2_500).contains(&hard), "{hard}");
}

#[test]
fn a_mask_without_a_subject_is_refused() {
    let frame = || disc(Size::new(120, 80), [200, 0, 0], [0, 0, 200]);
    let nothing = masked(vec![0.0; 96 * 96]);
    let unlikely = masked(disc_values(15.0, 3.0).iter().map(|value| value * 0.4).collect());
    for method in [Method::ClosedForm, Method::None] {
        for mask in [&nothing, &unlikely] {
            let cut = matting::cut_out(frame(), mask, &Options { method, ..Options::default() });
            assert_eq!(cut.err(), Some(NoSubject));
        }
    }
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
fn pictures_of_every_size_are_cut_out() {
    let everything = masked(vec![1.0; 96 * 96]);
    let uncertain = masked(vec![0.6; 96 * 96]);
    let shapes = [(1, 1), (1, 2), (2, 1), (1, 300), (300, 1), (2, 2), (3, 3), (2, 70), (65, 64), (129, 7), (4096, 5)];
    for (width, height) in shapes {
        let size = Size::new(width, height);
        for edge in [Edge::Soft, Edge::Hard] {
            let frame = disc(size, [40, 90, 200], [210, 160, 50]);
            let whole = cut(frame.clone(), &everything, &options(edge));
            assert_eq!(whole.pixels(), frame.pixels(), "{size}: a subject that fills the picture is the picture");
            for mask in [&mask(20.0, 2.0), &uncertain] {
                let cutout = cut(frame.clone(), mask, &options(edge));
                assert_eq!(cutout.size(), size);
                assert!(cutout.pixels().as_chunks::<4>().0.iter().any(|pixel| pixel[3] > 127), "{size} came out empty");
            }
        }
    }
}

#[test]
fn the_unknown_band_is_as_wide_as_the_masks_ramp() {
    let size = Size::new(768, 768);
    let unknown = |mask: &RawMask| {
        let trimap = trimap::from_mask(&clean_without_colors(mask).expect("a subject"), size, None);
        assert_eq!(trimap.labels()[384 * 768 + 384], Trimap::FOREGROUND);
        assert_eq!(trimap.labels()[0], Trimap::BACKGROUND);
        trimap.labels().iter().filter(|&&label| label == Trimap::UNKNOWN).count()
    };
    let (sharp, soft) = (unknown(&mask(15.0, 0.5)), unknown(&mask(15.0, 6.0)));
    assert!(soft > 2 * sharp, "{soft} next to {sharp}");
    let rim = 2.0 * std::f32::consts::PI * 240.0;
    assert!((sharp as f32) < rim * 48.0, "{sharp}");
}

#[test]
fn a_pictures_own_alpha_is_kept() {
    let pixels: Vec<u8> = [[10, 20, 30, 0], [10, 20, 30, 1], [40, 50, 60, 128], [70, 80, 90, 255]].concat();
    let cutout = matting::from_own_alpha(Frame::new(Size::new(4, 1), pixels.into())).unwrap().into_frame();
    assert_eq!(cutout.pixels(), [[0, 0, 0, 0], [10, 20, 30, 1], [40, 50, 60, 128], [70, 80, 90, 255]].concat());
    let empty = Frame::new(Size::new(2, 1), vec![9, 9, 9, 0, 9, 9, 9, 0].into());
    assert_eq!(matting::from_own_alpha(empty).err(), Some(NoSubject));
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

/// The mask includes a slab of the background next to the disc.
#[test]
fn background_in_the_mask_is_removed_by_decontaminate() {
    let size = Size::new(420, 330);
    let wide = (0..384 * 384).map(|at| {
        let (x, y) = ((at % 384) as f32 - 191.5, (at / 384) as f32 - 191.5);
        // What the mask is less certain of is labelled by colours without `decontaminate`.
        let slab = (0.0..127.0).contains(&x) && y.abs() < 20.0;
        ((122.0 - f32::hypot(x, y)) / 2.0 + 0.5).clamp(if slab { 0.97 } else { 0.0 }, 1.0)
    });
    let wide = masked(wide.collect());
    let frame = disc(size, [40, 90, 200], [210, 60, 50]);
    for method in [Method::None, Method::ClosedForm] {
        let matte = |decontaminate| {
            let options = Options { method, decontaminate, ..Options::default() };
            matting::estimate_matte(&frame, &wide, &options).unwrap()
        };
        let [before, after] = [matte(false), matte(true)];
        // In the slab, and in the disc.
        let at = |matte: &AlphaMatte, x: usize| matte.coverage()[165 * 420 + x];
        assert!(at(&after, 347) < 10 && at(&after, 210) == 255, "{method:?}");
        // With smooth colours like these, matting removes the slab without `decontaminate`.
        if method == Method::None {
            assert!(at(&before, 347) > 200, "the mask includes it");
            assert!(after.coverage().iter().zip(before.coverage()).all(|(after, before)| after <= before));
        }
    }
}
