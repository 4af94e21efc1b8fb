//! No halo: a picture with a known matte on red is cut out and composed onto other backgrounds.

use backdrop::compose::{self, Background, Materials, Scene};
use backdrop::image::color::Color;
use backdrop::image::{Composite, Frame, RawMask, Rect, Size, Subject};
use backdrop::matting::{self, Options};

const SIZE: Size = Size::new(600, 440);
const GRID: Size = Size::new(384, 384);
const RED: [f32; 3] = [200.0, 20.0, 25.0];
const GROUNDS: [[u8; 4]; 3] = [[20, 40, 200, 255], [255, 255, 255, 255], [0, 0, 0, 255]];

/// Largest and mean absolute error of the edge pixels, in 255ths. Measured: 66.8 and 5.63.
const MOST: f32 = 69.0;
const MEAN: f32 = 5.9;

/// The ground truth at a point: coverage and colour of the subject.
fn scene(x: f32, y: f32) -> (f32, [f32; 3]) {
    let disc = (112.5 - f32::hypot(x - 150.3, y - 219.6)).clamp(-0.5, 0.5) + 0.5;
    // Four teeth, each nine pixels wide at half coverage, with soft sides and ends of four pixels.
    let along = x - 312.0 - 0.06 * y;
    let tooth = (along.rem_euclid(30.0) - 15.0).abs();
    let ends = ((y - 100.0) / 4.0).clamp(0.0, 1.0) * ((380.0 - y) / 4.0).clamp(0.0, 1.0);
    let teeth = if (0.0..120.0).contains(&along) { ((4.5 - tooth) / 4.0 + 0.5).clamp(0.0, 1.0) * ends } else { 0.0 };
    let inside = |from: f32, at: f32, to: f32| (at - from).clamp(0.0, 1.0) * (to - at).clamp(0.0, 1.0);
    let comb = f32::max(teeth, inside(80.3, y, 140.6) * inside(305.4, x, 452.2));
    // Out of focus: a ramp of ten pixels.
    let soft = ((112.0 - f32::hypot((x - 620.0) * 0.8, y - 220.0)) / 10.0 + 0.5).clamp(0.0, 1.0);
    if x < 290.0 {
        (disc, [60.0 + 0.2 * y, 120.0, 210.0 - 0.1 * x])
    } else if x < 460.0 {
        (comb, [40.0, 70.0 + 0.1 * y, 60.0])
    } else {
        (soft, [210.0, 190.0 - 0.2 * y, 130.0])
    }
}

/// The matte and the subject's colours, 0 to 255, in row order.
fn truth() -> (Vec<f32>, Vec<[f32; 3]>) {
    let points = (0..SIZE.height).flat_map(|y| (0..SIZE.width).map(move |x| (x, y)));
    points
        .map(|(x, y)| {
            let (alpha, colour) = scene(x as f32 + 0.5, y as f32 + 0.5);
            let grain = ((x * 7 + y * 13) % 5) as f32 - 2.0;
            (alpha, colour.map(|value| value + grain))
        })
        .unzip()
}

fn linear(value: f32) -> f32 {
    let value = value / 255.0;
    if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

fn encoded(light: f32) -> f32 {
    255.0 * if light <= 0.003_130_8 { light * 12.92 } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 }
}

/// Composition in linear light, as a camera records it.
fn over(ground: [f32; 3], alpha: f32, colour: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|at| encoded(alpha * linear(colour[at]) + (1.0 - alpha) * linear(ground[at])))
}

/// `colours` with `alpha`, rounded to bytes.
fn frame(pixels: impl Iterator<Item = ([f32; 3], f32)>) -> Frame {
    let bytes = pixels.flat_map(|([r, g, b], alpha)| [r, g, b, alpha * 255.0].map(|value| (value + 0.5) as u8));
    Frame::new(SIZE, bytes.collect::<Vec<u8>>().into())
}

fn photo() -> Frame {
    let (alpha, colours) = truth();
    frame(alpha.iter().zip(colours).map(|(&alpha, colour)| (over(RED, alpha, colour), 1.0)))
}

/// A network's mask of the truth: on a coarser grid, blurred, and certain away from the edge. Blur and slope are measured on
/// the bundled network (`benches/peers/halo`).
fn mask() -> RawMask {
    let scale = [SIZE.width as f32 / GRID.width as f32, SIZE.height as f32 / GRID.height as f32];
    let squashed = |value: f32| 1.0 / (1.0 + f32::exp(-8.0 * (value - 0.45)));
    let cell = |column: u32, row: u32| {
        let taps = (-6..=6).flat_map(|dy| (-6..=6).map(move |dx| (dx as f32 / 2.0, dy as f32 / 2.0)));
        let (mut sum, mut total) = (0.0, 0.0);
        for (dx, dy) in taps {
            let weight = f32::exp(-(dx * dx + dy * dy) / (2.0 * 1.5 * 1.5));
            let (x, y) = ((column as f32 + 0.5 + dx) * scale[0], (row as f32 + 0.5 + dy) * scale[1]);
            sum += weight * scene(x, y).0;
            total += weight;
        }
        (squashed(sum / total) - squashed(0.0)) / (squashed(1.0) - squashed(0.0))
    };
    let values = (0..GRID.height).flat_map(|row| (0..GRID.width).map(move |column| cell(column, row)));
    RawMask::new(GRID, values.collect::<Vec<f32>>()).expect("probabilities")
}

/// The cutout on a background, as the service composes it.
fn on(cutout: &Frame, ground: [u8; 4]) -> Composite {
    let scene = Scene { background: Background::Color(Color(ground)), ..Scene::default() };
    let subject = Rect::whole(SIZE);
    let layout = scene.layout(SIZE, subject).expect("small enough");
    compose::flatten(Subject::Source(cutout.clone()), subject, &layout, &scene, Materials::default()).composite
}

/// Largest and mean absolute error of the edge pixels: partly covered pixels, and two pixels to each side.
fn halo(cutout: &Frame) -> (f32, f32) {
    let (alpha, colours) = truth();
    let (width, height) = (SIZE.width as usize, SIZE.height as usize);
    let near = |at: usize| {
        let (column, row) = (at % width, at / width);
        let around = |centre: usize, len: usize| centre.saturating_sub(2)..(centre + 3).min(len);
        around(row, height).any(|y| around(column, width).any(|x| (0.002..0.998).contains(&alpha[y * width + x])))
    };
    let edge: Vec<usize> = (0..SIZE.area()).filter(|&at| near(at)).collect();
    let (mut most, mut sum) = (0.0f32, 0.0);
    for ground in GROUNDS {
        let shown = on(cutout, ground).into_frame();
        let behind = [ground[0], ground[1], ground[2]].map(f32::from);
        for &at in &edge {
            let expected = over(behind, alpha[at], colours[at]);
            for (&actual, expected) in shown.pixels()[at * 4..].iter().zip(expected) {
                let off = (f32::from(actual) - expected).abs();
                most = most.max(off);
                sum += f64::from(off);
            }
        }
    }
    (most, (sum / (9 * edge.len()) as f64) as f32)
}

fn cut_out(photo: Frame) -> Frame {
    matting::cut_out(photo, &mask(), &Options::default()).expect("a subject").into_frame()
}

#[test]
fn a_cutout_from_a_red_background_has_no_red_edge_on_others() {
    let (most, mean) = halo(&cut_out(photo()));
    assert!(most <= MOST && mean <= MEAN, "off by {most:.1} at most and {mean:.2} on average");
}

#[test]
fn the_comparison_accepts_the_ground_truth() {
    let (alpha, colours) = truth();
    let (most, mean) = halo(&frame(colours.into_iter().zip(alpha)));
    // Coverage and colour are bytes in a cutout.
    assert!(most <= 6.0 && mean <= 0.5, "off by {most:.1} at most and {mean:.2} on average");
}

#[test]
fn the_comparison_detects_a_cutout_with_red_edges() {
    let (alpha, colours) = truth();
    let recorded = alpha.iter().zip(colours).map(|(&alpha, colour)| (over(RED, alpha, colour), alpha));
    let (most, mean) = halo(&frame(recorded));
    assert!(most > MOST, "off by only {most:.1} (and {mean:.2} on average)");
    let (photo, cutout) = (photo(), cut_out(photo()));
    let (red, ours) = (photo.pixels().as_chunks::<4>().0, cutout.pixels().as_chunks::<4>().0);
    let pixels = red
        .iter()
        .zip(ours)
        .map(|(red, ours)| ([f32::from(red[0]), f32::from(red[1]), f32::from(red[2])], f32::from(ours[3]) / 255.0));
    let (kept, _) = halo(&frame(pixels));
    assert!(kept > MOST, "our own matte with the red left in is off by only {kept:.1}");
}
