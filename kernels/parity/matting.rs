//! Comparisons of the kernels of matting.

use super::{GRID, Kernel, Scene, bytes, floats, nothing, uploaded, values, words};
use crate::device::Plane;
use crate::laplacian::cpu::{Band, Colours};
use crate::laplacian::solver::Solver;
use crate::laplacian::solver_gpu::Problem;
use crate::mask_upsample::cpu::Upsampled;
use crate::prolongation::cpu::{Coarser, Decisions};
use crate::pyramid::cpu::LevelPixels;
use crate::pyramid::{Mix, half_size};
use crate::temporal_prior::cpu::Past;
use crate::trimap::cpu::Labeller;
use crate::trimap::{Params, UNKNOWN};
use crate::{
    coverage, edge, foreground, linear_alpha, mask_upsample, prolongation, pyramid, srgb, temporal_prior, trimap,
};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

/// The kernels of matting, from the clean mask to the cutout.
pub const MATTING: [Kernel; 9] = [
    // Positions up to 4096 in f32, times differences of at most 1.
    Kernel::new("mask_upsample", 1e-4, expected_mask_upsample, run_mask_upsample),
    // Equal labels.
    Kernel::new("trimap", 0.0, expected_trimap, run_trimap),
    // Integers.
    Kernel::new("pyramid", 0.0, expected_pyramid, run_pyramid),
    // Labels, and quotients of integers.
    Kernel::new("prolongation", 1e-6, expected_prolongation, run_prolongation),
    // One step of 255: sixteen products, then rounding.
    Kernel::new("temporal_prior", 1.0 / 254.0, expected_temporal_prior, run_temporal_prior),
    // A dozen steps with scalar products in f32 instead of f64, rounded to steps of 255.
    Kernel::new("solver", 2.0 / 254.0, expected_solver, run_solver),
    // One step of 255: a root and a quotient, then rounding.
    Kernel::new("edge", 1.0 / 254.0, expected_edge, run_edge),
    // One step of 255: a dozen operations, then rounding.
    Kernel::new("foreground", 1.0 / 254.0, expected_foreground, run_foreground),
    // One step of colour, and its effect on coverage.
    Kernel::new("linear_alpha", 2.0 / 254.0, expected_linear_alpha, run_linear_alpha),
];

/// `grid` (`GRID` × `GRID`) over `width` × `height` pixels.
fn upsampled(grid: &[f32], [width, height]: [usize; 2]) -> Vec<f32> {
    let plane = Upsampled::new(grid, (GRID, GRID), (width, height));
    (0..width * height).map(|at| plane.at(at % width, at / width)).collect()
}

fn expected_mask_upsample(scene: &Scene) -> Vec<f32> {
    upsampled(&scene.mask, scene.size())
}

fn run_mask_upsample(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    values(mask_upsample::gpu::mask_upsample(scene.mask_on(device), scene.height, scene.width))
}

/// The trimap's parameters in all comparisons but its own.
const PARAMS: Params = Params { radii: [2.0; 2], foreground: 0.93, background: 0.07 };

/// A disc, flat and upright ellipses, and one larger than the grid.
const RADII: [[f32; 2]; 5] = [[2.5, 2.5], [17.0, 2.0], [1.3, 60.0], [9.5, 21.0], [100.0, 100.0]];

/// Above the threshold of the background in the left half of the grid.
fn raised() -> Vec<f32> {
    (0..GRID * GRID).map(|at| if at % GRID < GRID / 2 { 0.5 } else { 0.0 }).collect()
}

/// The trimap of `scene`, with the highest values raised to `raised`, if any.
fn labels(scene: &Scene, raised: &[f32], params: Params) -> Vec<u8> {
    let (low, mut high) = trimap::cpu::extremes(&scene.mask, (GRID, GRID), &params);
    high.iter_mut().zip(raised).for_each(|(high, &raised)| *high = high.max(raised));
    let [low, high] = [&low, &high].map(|grid| Upsampled::new(grid, (GRID, GRID), (scene.width, scene.height)));
    let mut labels = vec![0; scene.width * scene.height];
    trimap::cpu::label(&Labeller { low, high, params }, &mut labels, scene.width);
    labels
}

fn plain_labels(scene: &Scene) -> Vec<u8> {
    labels(scene, &[], PARAMS)
}

fn labels_on(scene: &Scene, device: &Device) -> Plane {
    trimap::gpu::trimap(scene.mask_on(device), nothing(device), scene.height, scene.width, PARAMS)
}

fn expected_trimap(scene: &Scene) -> Vec<f32> {
    let raised = raised();
    let cases = RADII.into_iter().flat_map(|radii| [(radii, [].as_slice()), (radii, &raised)]);
    floats(cases.flat_map(|(radii, raised)| labels(scene, raised, Params { radii, ..PARAMS })))
}

fn run_trimap(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let mut results = Vec::new();
    for radii in RADII {
        let half = Tensor::from_data(TensorData::new(raised(), [GRID, GRID]), device);
        for raised in [nothing(device), half] {
            let (mask, params) = (scene.mask_on(device), Params { radii, ..PARAMS });
            results.extend(words(trimap::gpu::trimap(mask, raised, scene.height, scene.width, params))?);
        }
    }
    Ok(results)
}

fn halved<T: Copy + Default + Send + Sync>(plane: &[T], size: [usize; 2], mix: fn([T; 4]) -> T) -> Vec<T> {
    let [width, height] = half_size(size);
    let mut half = vec![T::default(); width * height];
    pyramid::cpu::halve(plane, size, mix, &mut half);
    half
}

fn expected_pyramid(scene: &Scene) -> Vec<f32> {
    let mut halves = halved(scene.pixels.as_chunks::<4>().0, scene.size(), pyramid::cpu::mean_colour).into_flattened();
    halves.extend(halved(&scene.coverage(), scene.size(), pyramid::cpu::mean_coverage));
    halves.extend(halved(&plain_labels(scene), scene.size(), pyramid::cpu::common_label));
    floats(halves)
}

fn run_pyramid(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let mut halves = bytes(pyramid::gpu::halve(scene.picture_on(device), Mix::Colour))?;
    halves.extend(words(pyramid::gpu::halve(scene.coverage_on(device), Mix::Coverage))?);
    halves.extend(words(pyramid::gpu::halve(labels_on(scene, device), Mix::Label))?);
    Ok(halves)
}

// Labels as a coarser coverage: flat parts, which decide, and edges, which do not.
fn expected_prolongation(scene: &Scene) -> Vec<f32> {
    let coverage = halved(&plain_labels(scene), scene.size(), pyramid::cpu::mean_coverage);
    let coarser = Coarser { size: half_size(scene.size()), coverage: &coverage };
    let mut results = vec![0.0; scene.width * scene.height];
    results.chunks_exact_mut(scene.width).enumerate().for_each(|(y, row)| coarser.start(y, 0, row));
    for mut labels in [plain_labels(scene), vec![UNKNOWN; scene.width * scene.height]] {
        let mut decisions = Decisions::default();
        labels.chunks_exact_mut(scene.width).enumerate().for_each(|(y, row)| coarser.decide(y, &mut decisions, row));
        results.extend(floats(labels));
    }
    results
}

fn run_prolongation(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let coarser = pyramid::gpu::halve(labels_on(scene, device), Mix::Coverage);
    let mut results = values(prolongation::gpu::start(coarser.clone(), scene.height, scene.width))?;
    let unknown = uploaded(vec![UNKNOWN.into(); scene.width * scene.height], scene.size(), device);
    for labels in [labels_on(scene, device), unknown] {
        results.extend(words(prolongation::gpu::decide(coarser.clone(), labels))?);
    }
    Ok(results)
}

/// Motion of up to six cells to the right and down, also beyond the border, and the weight of the past. No weight is
/// below half a step, which is ignored.
fn motion() -> [Vec<f32>; 3] {
    let waves: [fn(f32) -> f32; 3] = [
        |at| 6.0 * (at * 0.013).sin(),
        |at| 6.0 * (at * 0.0057).cos(),
        |at| (at * 0.021).sin().mul_add(0.7, 0.4).clamp(0.1, 1.0),
    ];
    waves.map(|wave| (0..GRID * GRID).map(|at| wave(at as f32)).collect())
}

fn expected_temporal_prior(scene: &Scene) -> Vec<f32> {
    let (matte, [right, down, share]) = (scene.coverage(), motion());
    let past = Past {
        matte: &matte,
        size: (scene.width, scene.height),
        grid: (GRID, GRID),
        flow: [&right, &down],
        share: &share,
    };
    let [mut coverage, mut weight] = [(); 2].map(|()| vec![0; matte.len()]);
    past.warp(&plain_labels(scene), &mut coverage, &mut weight);
    let prior = || coverage.iter().copied().zip(weight.iter().copied());
    let mut results = floats(prior().flat_map(|(expected, weight)| [expected, weight, 0, 0]));
    let starts = scene.plane.iter().zip(prior());
    results.extend(starts.map(|(&start, (expected, weight))| temporal_prior::cpu::toward(start, expected, weight)));
    let solved = matte.iter().zip(prior());
    let blended = solved.map(|(&solved, (expected, weight))| temporal_prior::cpu::blended(solved, expected, weight));
    results.extend(floats(blended));
    results
}

fn run_temporal_prior(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let motion = motion().map(|grid| Tensor::<2>::from_data(TensorData::new(grid, [GRID, GRID]), device));
    let [right, down, share] = motion;
    let (matte, labels) = (scene.coverage_on(device), labels_on(scene, device));
    let prior = temporal_prior::gpu::warp(matte.clone(), [right, down], share, labels);
    let mut results = bytes(prior.clone())?;
    results.extend(values(temporal_prior::gpu::toward(scene.plane_on(device), prior.clone()))?);
    results.extend(words(temporal_prior::gpu::blended(matte, prior))?);
    Ok(results)
}

/// Steps of the solver in the comparison.
const STEPS: usize = 12;

// A picture slightly above the limit of a small level is a large level, and its half a small one.
fn expected_solver(scene: &Scene) -> Vec<f32> {
    let (pixels, labels) = (scene.pixels.as_chunks::<4>().0, plain_labels(scene));
    let half = halved(pixels, scene.size(), pyramid::cpu::mean_colour);
    let half_labels = halved(&labels, scene.size(), pyramid::cpu::common_label);
    let mut coverage = solved(scene, pixels, labels, scene.size());
    coverage.extend(solved(scene, &half, half_labels, half_size(scene.size())));
    floats(coverage)
}

fn solved(scene: &Scene, pixels: &[[u8; 4]], labels: Vec<u8>, size: [usize; 2]) -> Vec<u8> {
    let [width, height] = size;
    let colours = Colours { width, height, pixels: LevelPixels::Stored(pixels) };
    let band = Band::new(colours, &labels, UNKNOWN, 0..height);
    let start = upsampled(&scene.mask, size);
    let weights: Vec<f32> = scene.mask.iter().map(|value| value * 0.1 + 1e-3).collect();
    let gamma = upsampled(&weights, size);
    let mut alpha = band.plane(width, height, |x, y| {
        let at = y * width + x;
        if labels[at] == UNKNOWN { start[at] } else { f32::from(labels[at]) / 255.0 }
    });
    let mut solver = Solver::default();
    solver.clear(&band);
    band.each_unknown(|x, y, _, at| {
        (solver.expected[at], solver.gamma[at]) = (start[y * width + x], gamma[y * width + x]);
    });
    if !band.is_empty() {
        solver.solve(&band, &mut alpha, STEPS);
    }
    let mut coverage = labels;
    band.each_unknown(|x, y, pixel, _| {
        coverage[y * width + x] = (alpha[pixel].clamp(0.0, 1.0) * 255.0 + 0.5) as u8;
    });
    coverage
}

fn run_solver(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let (picture, labels) = (scene.picture_on(device), labels_on(scene, device));
    let half = pyramid::gpu::halve(picture.clone(), Mix::Colour);
    let half_labels = pyramid::gpu::halve(labels.clone(), Mix::Label);
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
        results.extend(words(problem.solved(STEPS))?);
    }
    Ok(results)
}

/// Coverage at which hard edges are placed.
const CROSSINGS: [f32; 2] = [0.5, 0.2];

fn hardened(coverage: &[u8], size: [usize; 2], crossing: f32) -> Vec<u8> {
    let hard = |(at, &value): (usize, &u8)| {
        let is_edge = (value != 0 || crossing < 0.5) && value != 255;
        let (x, y) = (at % size[0], at / size[0]);
        if is_edge { edge::cpu::hard_coverage(coverage, size, x, y, crossing) } else { value }
    };
    coverage.iter().enumerate().map(hard).collect()
}

fn expected_edge(scene: &Scene) -> Vec<f32> {
    let (coverage, table) = (scene.coverage(), edge::cpu::without_traces());
    let mut results: Vec<u8> = coverage.iter().map(|&value| table[usize::from(value)]).collect();
    let hard = hardened(&coverage, scene.size(), 0.5);
    let edges = coverage.iter().zip(hard).zip(upsampled(&scene.mask, scene.size()));
    results.extend(edges.map(|((&solved, hard), share)| edge::cpu::sharpened(solved, hard, share)));
    let turned = scene.turned();
    for crossing in CROSSINGS {
        results.extend(hardened(&coverage, scene.size(), crossing));
        let certain = coverage.iter().zip(turned.as_chunks::<4>().0).map(|(&most, pixel)| pixel[3].min(most));
        results.extend(coverage.iter().zip(certain).map(|(&solved, hard)| edge::cpu::unmixed_by(solved, hard)));
    }
    floats(results)
}

fn run_edge(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let mut results = words(edge::gpu::without_traces(scene.coverage_on(device)))?;
    results.extend(words(edge::gpu::sharpened(scene.coverage_on(device), scene.mask_on(device)))?);
    for crossing in CROSSINGS {
        results.extend(words(edge::gpu::hardened(scene.coverage_on(device), crossing))?);
        // Limited, because the last coverage of an edge can be rounded to 0 on one device and to 1 on the other.
        let certain = coverage::gpu::clipped(scene.turned_on(device), scene.coverage_on(device));
        let certain = certain.bitwise_right_shift_scalar(24);
        results.extend(words(edge::gpu::unmixed_by(scene.coverage_on(device), certain))?);
    }
    Ok(results)
}

/// Packed foreground and background of a level of half the scene's size.
fn coarser_colours(scene: &Scene) -> Vec<u32> {
    let [width, height] = half_size(scene.size());
    let words = scene.words();
    let back = words.iter().rev().take(width * height).map(|word| !word);
    words[..width * height].iter().copied().chain(back).collect()
}

/// The colours of the level above [`coarser_colours`]: packed foregrounds, then backgrounds.
fn relaxed(scene: &Scene, coverage: &[u8]) -> Vec<u32> {
    let ([width, height], [columns, rows]) = (scene.size(), half_size(scene.size()));
    let (pixels, coarser) = (scene.pixels.as_chunks::<4>().0, coarser_colours(scene));
    let mut tile = foreground::cpu::Tile::default();
    tile.resize(width, height);
    for y in 0..height {
        tile.set_row(y, &coverage[y * width..][..width], &pixels[y * width..][..width]);
    }
    for plane in 0..6 {
        let words = &coarser[plane / 3 * rows * columns..][..rows * columns];
        let channel: Vec<u8> = words.iter().map(|word| word.to_le_bytes()[plane % 3]).collect();
        let row = |y: usize| &channel[y * columns..][..columns];
        for y in 0..height {
            let far = if y.is_multiple_of(2) { (y / 2).saturating_sub(1) } else { (y / 2 + 1).min(rows - 1) };
            tile.start_row(plane, y, 0, row(y / 2), row(far));
        }
    }
    tile.relax(foreground::steps([width, height]));
    let packed = |colour: [f32; 3]| {
        let [red, green, blue] = colour.map(srgb::byte);
        u32::from_le_bytes([red, green, blue, 0])
    };
    let colours = (0..width * height).map(|at| tile.colours((at % width, at / width)));
    let (mut front, back): (Vec<u32>, Vec<u32>) = colours.map(|(front, back)| (packed(front), packed(back))).unzip();
    front.extend(back);
    front
}

fn relaxed_on(device: &Device, scene: &Scene, coverage: Plane, only_partial: bool) -> Tensor<3, Int> {
    let [width, height] = half_size(scene.size());
    let coarser = TensorData::new(coarser_colours(scene), [2, height, width]);
    let coarser = Tensor::from_data(coarser, (device, DType::U32));
    foreground::gpu::relax(scene.picture_on(device), coverage, coarser, only_partial)
}

fn expected_foreground(scene: &Scene) -> Vec<f32> {
    floats(relaxed(scene, &scene.coverage()).into_iter().flat_map(u32::to_le_bytes))
}

fn run_foreground(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    bytes(relaxed_on(device, scene, scene.coverage_on(device), false))
}

fn expected_linear_alpha(scene: &Scene) -> Vec<f32> {
    let coverage = scene.coverage();
    let hard = plain_labels(scene).into_iter().zip(&coverage);
    let unmixed_by: Vec<u8> = hard.map(|(solved, &hard)| edge::cpu::unmixed_by(solved, hard)).collect();
    let (colours, hard_colours) = (relaxed(scene, &coverage), relaxed(scene, &unmixed_by));
    let (front, back) = colours.split_at(coverage.len());
    let words = scene.words();
    let rgb = |word: u32| {
        let [red, green, blue, _] = word.to_le_bytes();
        [red, green, blue]
    };
    let lit = (0..coverage.len()).map(|at| match coverage[at] {
        0 => ([0; 3], 0),
        255 => (rgb(words[at]), 255),
        partial => {
            let colours = [front, back].map(|colours| rgb(colours[at]));
            (colours[0], linear_alpha::cpu::coverage(partial, colours))
        }
    });
    let hard = (0..coverage.len()).map(|at| match coverage[at] {
        0 => ([0; 3], 0),
        covered => (rgb(if unmixed_by[at] == 255 { words[at] } else { hard_colours[at] }), covered),
    });
    floats(lit.chain(hard).flat_map(|([red, green, blue], alpha)| [red, green, blue, alpha]))
}

fn run_linear_alpha(scene: &Scene, device: &Device) -> Result<Vec<f32>, String> {
    let (picture, coverage) = (scene.picture_on(device), scene.coverage_on(device));
    // Colours are defined where their coverage is partial.
    let colours = |coverage| relaxed_on(device, scene, coverage, true);
    let mut results = bytes(linear_alpha::gpu::cut_out(picture.clone(), coverage.clone(), colours(coverage.clone())))?;
    let unmixed_by = edge::gpu::unmixed_by(labels_on(scene, device), coverage.clone());
    let colours = colours(unmixed_by.clone());
    results.extend(bytes(linear_alpha::gpu::cut_out_hard(picture, coverage, unmixed_by, colours))?);
    Ok(results)
}
