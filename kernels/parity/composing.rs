//! Comparisons of the kernels of compositing.

use super::{GRID, Kernel, Scene, bytes, flat, floats, nothing, uploaded, values, words, words_of};
use crate::bilinear::Tap;
use crate::coverage::Fill;
use crate::dst_over::cpu::{Row, Shadow, Stroke, Under};
use crate::gaussian::Border;
use crate::layers::Paint;
use crate::resample::Part;
use crate::shadow_grid::gpu::Coverage;
use crate::shadow_grid::{Cells, Placement};
use crate::{bilinear, coverage, dilate, dst_over, enhance, flat_over, gaussian, light_wrap, resample, shadow_grid};
use burn::tensor::Device;

/// The kernels of compositing, from the cutout to the finished picture.
pub const COMPOSING: [Kernel; 10] = [
    // Integers.
    Kernel::new("coverage", 0.0, expected_coverage, run_coverage),
    // One step of 255: `pow` is not exactly rounded on a GPU.
    Kernel::new("resample", 1.0 / 254.0, expected_resample, run_resample),
    // One step of 255: luma and the rounding of the result.
    Kernel::new("enhance", 1.0 / 254.0, expected_enhance, run_enhance),
    // Roots and quotients, which are not exactly rounded on a GPU, determine the way along an edge.
    Kernel::new("dilate", 4.0 / 254.0, expected_dilate, run_dilate),
    // Positions up to 4096 in f32, in cells.
    Kernel::new("shadow_grid", 1e-4, expected_shadow_grid, run_shadow_grid),
    // Sums of up to 2 · 21 + 1 products of values in 0..=1.
    Kernel::new("gaussian", 1e-5, expected_gaussian, run_gaussian),
    // One step of 255, as for `resample`.
    Kernel::new("bilinear", 1.0 / 254.0, expected_bilinear, run_bilinear),
    // One step of 255, as for `resample`.
    Kernel::new("light_wrap", 1.0 / 254.0, expected_light_wrap, run_light_wrap),
    // One step of 255: a quotient, then rounding.
    Kernel::new("flat_over", 1.0 / 254.0, expected_flat_over, run_flat_over),
    // One step of 255, as for `resample`.
    Kernel::new("dst_over", 1.0 / 254.0, expected_dst_over, run_dst_over),
];

/// Coverage from which a pixel counts for the extents.
const LEAST: u8 = 90;

/// Every seventh pixel becomes opaque, and the next one transparent.
fn fills(scene: &Scene) -> Vec<Fill> {
    let pixels = (scene.width * scene.height) as u32;
    let fill = |at: u32| [Fill { at, opaque: true }, Fill { at: at + 1, opaque: false }];
    (0..pixels).step_by(7).flat_map(fill).filter(|fill| fill.at < pixels).collect()
}

fn expected_coverage(scene: &Scene) -> Vec<f32> {
    let (words, turned) = (scene.words(), words_of(&scene.turned()));
    let packed = words.chunks(scene.width).flat_map(coverage::cpu::bytes);
    let mut results = floats(packed.flat_map(u32::to_le_bytes));
    let extents = turned.chunks(scene.width).flat_map(|row| coverage::cpu::extent(row, LEAST.into()));
    results.extend(extents.map(|at| at as f32));
    let clipped = words.iter().zip(scene.coverage()).map(|(&word, most)| coverage::cpu::clipped(word, most.into()));
    results.extend(floats(clipped.flat_map(u32::to_le_bytes)));
    let mut filled = words.clone();
    let fills: Vec<u32> = fills(scene).into_iter().map(Fill::word).collect();
    coverage::cpu::fill(&mut filled, &turned, &fills);
    results.extend(floats(filled.into_iter().flat_map(u32::to_le_bytes)));
    results
}

fn run_coverage(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let (picture, turned) = (scene.picture_on(device), scene.turned_on(device));
    let mut results = bytes(coverage::gpu::bytes(picture.clone()))?;
    results.extend(words(coverage::gpu::extents(turned.clone(), LEAST))?);
    results.extend(bytes(coverage::gpu::clipped(picture.clone(), scene.coverage_on(device)))?);
    results.extend(bytes(coverage::gpu::filled(picture, turned, &fills(scene)))?);
    Ok(results)
}

const TINT: [f32; 3] = [0.4, 1.0, 2.5];
const LIGHT: u32 = 0xff20_90e0;

fn expected_light_wrap(scene: &Scene) -> Vec<f32> {
    let turned = scene.turned();
    let mut results = Vec::new();
    for background in [Under::Pixels(&turned), Under::Color(LIGHT.to_le_bytes()), Under::Clear] {
        let mut canvas = scene.pixels.clone();
        for (y, row) in canvas.chunks_exact_mut(4 * scene.width).enumerate() {
            light_wrap::cpu::row(row, row_of(background, y, scene.width), TINT);
        }
        results.extend(floats(canvas));
    }
    results
}

fn run_light_wrap(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let mut results = Vec::new();
    for background in [scene.turned_on(device), flat(LIGHT, device), flat(0, device)] {
        results.extend(bytes(light_wrap::gpu::light_wrap(scene.picture_on(device), background, TINT))?);
    }
    Ok(results)
}

/// The whole scene, and a part of it, each with a number of columns and rows.
fn parts(scene: &Scene) -> [(Part, [usize; 2]); 2] {
    let [width, height] = scene.size().map(|side| side as f64);
    let whole = Part { left: 0.0, top: 0.0, width, height };
    let part = Part { left: 0.3 * width, top: 0.2 * height, width: 0.6 * width, height: 0.7 * height };
    [(whole, [(scene.width * 2).div_ceil(5), (scene.height * 3).div_ceil(4)]), (part, scene.size())]
}

fn expected_resample(scene: &Scene) -> Vec<f32> {
    let resampled = |(part, size)| resample::cpu::resample(&scene.pixels, scene.width, part, size);
    floats(parts(scene).into_iter().flat_map(resampled))
}

fn run_resample(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let mut results = Vec::new();
    for (part, [columns, rows]) in parts(scene) {
        results.extend(bytes(resample::gpu::resample(scene.picture_on(device), part, rows, columns))?);
    }
    Ok(results)
}

const STRENGTH: f32 = 0.3;

fn expected_enhance(scene: &Scene) -> Vec<f32> {
    let curve = enhance::cpu::Curve::new(STRENGTH).expect("a strength above 0");
    floats(scene.pixels.as_chunks::<4>().0.iter().flat_map(|&pixel| curve.enhanced(pixel)))
}

fn run_enhance(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    bytes(enhance::gpu::enhance(scene.picture_on(device), STRENGTH))
}

const DILATIONS: [f32; 3] = [0.6, 3.5, 21.0];

/// Coverage of spots of all sizes with soft edges, some touching, and one at the origin at any size.
fn spots(scene: &Scene) -> Vec<u8> {
    let spot = |at: usize| {
        let (x, y) = ((at % scene.width) as f32, (at / scene.width) as f32);
        let wave = (x * 0.13).cos() * (y * 0.11).cos() + 0.4 * (x * 0.041 + y * 0.067).cos();
        (((wave - 0.55) * 4.0 + 0.5).clamp(0.0, 1.0) * 255.0) as u8
    };
    (0..scene.width * scene.height).map(spot).collect()
}

fn expected_dilate(scene: &Scene) -> Vec<f32> {
    let spots = spots(scene);
    floats(DILATIONS.into_iter().flat_map(|radius| dilate::cpu::dilate(&spots, scene.width, radius)))
}

fn run_dilate(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let pixels: Vec<u32> = spots(scene).into_iter().map(|spot| u32::from(spot) << 24).collect();
    let mut results = Vec::new();
    for radius in DILATIONS {
        results.extend(words(dilate::gpu::dilate(uploaded(pixels.clone(), scene.size(), device), radius))?);
    }
    Ok(results)
}

/// Grids, where in a word the coverage is, and places of the grids.
fn shadow_grids(scene: &Scene) -> [(Cells, Coverage, Placement); 3] {
    let whole = [0, 0, scene.width as u32, scene.height as u32];
    let part = [whole[2] / 3, whole[3] / 3, whole[2], whole[3]];
    let cases = [
        (whole, [0; 4], 1, 2, Coverage::Alpha),
        (part, [5, 0, 0, 9], 4, 3, Coverage::Alpha),
        (part, [0, 7, 2, 0], 6, 1, Coverage::Word),
    ];
    cases.map(|(bounds, extension, cell, border, within)| {
        (Cells { bounds, extension, cell, border }, within, Placement { cell: cell as f32, left: -3.3, top: 4.6 })
    })
}

fn expected_shadow_grid(scene: &Scene) -> Vec<f32> {
    let coverage = scene.coverage();
    let mut results = Vec::new();
    for (cells, within, at) in shadow_grids(scene) {
        let covers = |x: u32, y: u32| {
            let at = y as usize * scene.width + x as usize;
            match within {
                Coverage::Alpha => scene.pixels[4 * at + 3],
                Coverage::Word => coverage[at],
            }
        };
        let grid = shadow_grid::cpu::cells(covers, &cells);
        results.extend(grid.as_flattened());
        let mut samples = vec![0.0; scene.width * scene.height];
        for (samples, y) in samples.chunks_mut(scene.width).zip(0..) {
            // Rows without any are zero already.
            let _ = shadow_grid::cpu::row((&grid, cells.size()[0]), at, y, &mut Vec::new(), samples);
        }
        results.extend(samples);
    }
    results
}

fn run_shadow_grid(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let mut results = Vec::new();
    for (cells, within, at) in shadow_grids(scene) {
        let coverage = match within {
            Coverage::Alpha => scene.picture_on(device),
            Coverage::Word => scene.coverage_on(device),
        };
        let grid = shadow_grid::gpu::cells(coverage, within, cells);
        results.extend(values(grid.clone())?);
        results.extend(values(shadow_grid::gpu::samples(grid, at, scene.height, scene.width))?);
    }
    Ok(results)
}

const BLURS: [(f32, Border); 2] = [(2.3, Border::Clamp), (6.5, Border::Zero)];

fn expected_gaussian(scene: &Scene) -> Vec<f32> {
    let blurred = |(sigma, border)| {
        let mut plane: Vec<[f32; 1]> = scene.plane.iter().map(|&value| [value]).collect();
        gaussian::cpu::blur(&mut plane, scene.width, sigma, border);
        plane.into_flattened()
    };
    BLURS.into_iter().flat_map(blurred).collect()
}

fn run_gaussian(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let mut results = Vec::new();
    for (sigma, border) in BLURS {
        let plane = scene.plane_on(device).reshape([scene.height, scene.width, 1]);
        results.extend(values(gaussian::gpu::gaussian(plane, sigma, border))?);
    }
    Ok(results)
}

/// Taps of an axis of `length` pixels, from beyond the last cell to the first one, back and forth.
fn taps(length: usize) -> Vec<Tap> {
    let tap = |at: usize| {
        let place = ((at as f32 * 0.37).sin() * 0.55 + 0.5).clamp(0.0, 1.0) * (GRID / 2 - 1) as f32;
        let first = place as u32;
        Tap { first, second: (first + 1).min(GRID as u32 / 2 - 1), share: place - first as f32 }
    };
    (0..length).map(tap).collect()
}

fn expected_bilinear(scene: &Scene) -> Vec<f32> {
    let (samples, columns) = (scene.mask.as_chunks::<4>().0, taps(scene.width));
    let (transparent, mut line) = (vec![0; 4 * scene.width], Vec::new());
    let mut pixels = vec![0; scene.pixels.len()];
    for (to, row) in pixels.chunks_exact_mut(4 * scene.width).zip(taps(scene.height)) {
        bilinear::cpu::row(samples, GRID / 2, (&columns, row), &transparent, &mut line, to);
    }
    floats(pixels)
}

fn run_bilinear(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let grid = scene.mask_on(device).reshape([GRID / 2, GRID / 2, 4]);
    bytes(bilinear::gpu::bilinear(grid, taps(scene.width), taps(scene.height)))
}

const PAINT: Paint = Paint { stroke: [250, 90, 7], shadow: [0, 3, 60], opacity: 0.6 };
const COLOUR: u32 = 0xFF20_60C0;

/// Row `y` of a background of `width` pixels a row.
fn row_of(background: Under<'_>, y: usize, width: usize) -> Under<'_> {
    match background {
        Under::Pixels(pixels) => Under::Pixels(&pixels[4 * y * width..][..4 * width]),
        flat @ (Under::Clear | Under::Color(_)) => flat,
    }
}

/// The layers beneath row `y` of a canvas of `width` pixels a row. An empty plane is an absent layer.
fn layers_of<'a>(stroke: &'a [u8], shadow: &'a [f32], background: Under<'a>, y: usize, width: usize) -> Row<'a> {
    let row = y * width..(y + 1) * width;
    Row {
        stroke: stroke.get(row.clone()).map(|coverage| Stroke { coverage, color: PAINT.stroke }),
        shadow: shadow.get(row).map(|coverage| Shadow { coverage, color: PAINT.shadow, opacity: PAINT.opacity }),
        background: row_of(background, y, width),
    }
}

/// The picture, half as opaque, because nothing shows beneath opaque pixels.
fn half_opaque(scene: &Scene) -> Vec<u8> {
    let mut pixels = scene.pixels.clone();
    pixels.iter_mut().skip(3).step_by(4).for_each(|alpha| *alpha /= 2);
    pixels
}

fn expected_flat_over(scene: &Scene) -> Vec<f32> {
    let (turned, coverage, half) = (scene.turned(), scene.coverage(), half_opaque(scene));
    let mut results = Vec::new();
    for (canvas, stroke, background) in
        [(&scene.pixels, coverage.as_slice(), Under::Pixels(&turned)), (&half, &[], Under::Color(COLOUR.to_le_bytes()))]
    {
        for (y, row) in canvas.chunks_exact(4 * scene.width).enumerate() {
            let Row { stroke, shadow, background } = layers_of(stroke, &scene.plane, background, y, scene.width);
            let mut mixed = Vec::new();
            let _ = flat_over::cpu::over(row, stroke, shadow, background, &mut mixed);
            results.extend(floats(mixed));
        }
    }
    results
}

fn run_flat_over(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let (canvas, turned) = (scene.picture_on(device), scene.turned_on(device));
    let (stroke, shadow) = (scene.coverage_on(device), scene.plane_on(device));
    let mut results = bytes(flat_over::gpu::flat_over(canvas, stroke, shadow.clone(), turned, PAINT))?;
    let canvas = uploaded(words_of(&half_opaque(scene)), scene.size(), device);
    let (stroke, background) = (flat(0, device), flat(COLOUR, device));
    results.extend(bytes(flat_over::gpu::flat_over(canvas, stroke, shadow, background, PAINT))?);
    Ok(results)
}

fn expected_dst_over(scene: &Scene) -> Vec<f32> {
    let (turned, coverage) = (scene.turned(), scene.coverage());
    let mut results = Vec::new();
    for (canvas, stroke, shadow, background) in [
        (&scene.pixels, coverage.as_slice(), scene.plane.as_slice(), Under::Pixels(&turned)),
        (&scene.pixels, &[], &scene.plane, Under::Clear),
        (&turned, &[], &[], Under::Color(COLOUR.to_le_bytes())),
    ] {
        let mut canvas = canvas.clone();
        for (y, row) in canvas.chunks_exact_mut(4 * scene.width).enumerate() {
            dst_over::cpu::row(row, &layers_of(stroke, shadow, background, y, scene.width));
        }
        results.extend(floats(canvas));
    }
    results
}

fn run_dst_over(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let (canvas, turned) = (scene.picture_on(device), scene.turned_on(device));
    let (stroke, shadow) = (scene.coverage_on(device), scene.plane_on(device));
    let all = dst_over::gpu::dst_over(canvas.clone(), stroke, shadow.clone(), turned.clone(), PAINT);
    let over_nothing = dst_over::gpu::dst_over(canvas, flat(0, device), shadow, flat(0, device), PAINT);
    let over_colour = dst_over::gpu::dst_over(turned, flat(0, device), nothing(device), flat(COLOUR, device), PAINT);
    let mut results = Vec::new();
    for result in [all, over_nothing, over_colour] {
        results.extend(bytes(result)?);
    }
    Ok(results)
}
