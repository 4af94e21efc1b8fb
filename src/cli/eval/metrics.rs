//! Errors of a matte against the ground truth.
//!
//! Salient-object metrics: mean absolute error; intersection over union of the halves above 0.5; maximal F-measure
//! with β² = 0.3 over 256 thresholds of the mean precision and recall (Achanta et al., CVPR 2009); boundary IoU, the
//! IoU of the inner bands within 2 % of the diagonal of the edge (Cheng et al., CVPR 2021).
//! Matting metrics: SAD, MSE, gradient and connectivity error (Rhemann et al., "A Perceptually Motivated Online
//! Benchmark for Image Matting", CVPR 2009), over the whole picture; SAD, gradient and connectivity in thousands.

use crate::matting::connected_components;
use crate::matting::outline::{Outline, Reference};

/// The scores of one picture.
#[derive(Clone, Debug)]
pub(super) struct Scores {
    /// Mean absolute error.
    pub(super) mae: f64,
    /// Intersection over union at 0.5.
    pub(super) iou: f64,
    /// Boundary IoU.
    pub(super) boundary_iou: f64,
    /// Precision and recall at the thresholds 255, 254, … 0.
    pub(super) curve: Vec<(f64, f64)>,
    /// Raggedness, edge width and thin parts.
    pub(super) outline: Outline,
    /// Matting errors, when the ground truth is soft.
    pub(super) matting: Option<MattingErrors>,
}

/// Errors that are only meaningful for a soft ground truth.
#[derive(Clone, Copy, Debug)]
pub(super) struct MattingErrors {
    /// Sum of absolute differences, in thousands.
    pub(super) sad: f64,
    /// Mean squared error.
    pub(super) mse: f64,
    /// Gradient error, in thousands.
    pub(super) gradient: f64,
    /// Connectivity error, in thousands.
    pub(super) connectivity: f64,
}

/// β² of the F-measure.
const BETA2: f64 = 0.3;
/// Share of the diagonal that counts as boundary.
const BOUNDARY: f64 = 0.02;
/// Minimum share of pixels well between background and subject for a ground truth to be soft.
const SOFT_SHARE: f64 = 0.001;

/// Compares a matte with the ground truth: both 0..=255, row-major, `width` wide.
///
/// # Panics
/// When the two differ in length or `width` does not divide it: the caller resized one to the other.
pub(super) fn compare(matte: &[u8], truth: &[u8], width: usize, reference: &Reference) -> Scores {
    assert_eq!(matte.len(), truth.len(), "a matte is compared at the size of its truth");
    assert_eq!(matte.len() % width, 0, "whole rows");
    let pixels = matte.len() as f64;
    let absolute: u64 = matte.iter().zip(truth).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    let matte_is: Vec<bool> = matte.iter().map(|&value| value > 127).collect();
    let truth_is: Vec<bool> = truth.iter().map(|&value| value > 127).collect();
    let height = matte.len() / width;
    let depth = ((BOUNDARY * (width as f64).hypot(height as f64)).round() as usize).max(1);
    Scores {
        mae: absolute as f64 / 255.0 / pixels,
        iou: iou(&matte_is, &truth_is),
        boundary_iou: iou(&inner_band(&matte_is, width, depth), &inner_band(&truth_is, width, depth)),
        curve: precision_recall(matte, &truth_is),
        outline: reference.measure(matte),
        matting: is_soft(truth).then(|| matting_errors(matte, truth, width)),
    }
}

/// The best F-measure of the mean curve.
pub(super) fn max_f<'a>(curves: impl ExactSizeIterator<Item = &'a [(f64, f64)]>) -> f64 {
    let count = curves.len() as f64;
    let mut mean = vec![(0.0, 0.0); 256];
    for curve in curves {
        for (sum, point) in mean.iter_mut().zip(curve) {
            sum.0 += point.0 / count;
            sum.1 += point.1 / count;
        }
    }
    let f =
        |(precision, recall): &(f64, f64)| (1.0 + BETA2) * precision * recall / (BETA2 * precision + recall + 1e-12);
    mean.iter().map(f).fold(0.0, f64::max)
}

fn is_soft(truth: &[u8]) -> bool {
    let between = truth.iter().filter(|&&value| (26..230).contains(&value)).count();
    between as f64 >= SOFT_SHARE * truth.len() as f64
}

/// Intersection over union; 0 for two empty sets.
fn iou(a: &[bool], b: &[bool]) -> f64 {
    let both = a.iter().zip(b).filter(|(a, b)| **a && **b).count();
    let either = a.iter().zip(b).filter(|(a, b)| **a || **b).count();
    both as f64 / either.max(1) as f64
}

/// The set without its erosion by a square of radius `depth`; outside the picture nothing is in the set.
fn inner_band(members: &[bool], width: usize, depth: usize) -> Vec<bool> {
    let height = members.len() / width;
    // Erosion by a square is separable: along the rows, then along the columns.
    let mut rows = vec![false; members.len()];
    for (from, to) in members.chunks_exact(width).zip(rows.chunks_exact_mut(width)) {
        erode(width, depth, |x| from[x], |x| to[x] = true);
    }
    let mut eroded = vec![false; members.len()];
    for x in 0..width {
        erode(height, depth, |y| rows[y * width + x], |y| eroded[y * width + x] = true);
    }
    members.iter().zip(eroded).map(|(member, deep)| *member && !deep).collect()
}

/// Calls `keep` for each position of a line whose neighbours up to `depth` away are all members.
fn erode(len: usize, depth: usize, is_member: impl Fn(usize) -> bool, mut keep: impl FnMut(usize)) {
    let mut run = 0;
    for at in 0..=len {
        if at < len && is_member(at) {
            run += 1;
            if run > 2 * depth {
                keep(at - depth);
            }
        } else {
            run = 0;
        }
    }
}

fn precision_recall(matte: &[u8], truth: &[bool]) -> Vec<(f64, f64)> {
    let (mut hits, mut all) = ([0_u64; 256], [0_u64; 256]);
    for (&value, &is_subject) in matte.iter().zip(truth) {
        all[usize::from(value)] += 1;
        hits[usize::from(value)] += u64::from(is_subject);
    }
    let subject = truth.iter().filter(|is| **is).count().max(1) as f64;
    let (mut hit, mut seen) = (0, 0);
    (0..256)
        .rev()
        .map(|level| {
            hit += hits[level];
            seen += all[level];
            ((hit as f64 + 1e-9) / (seen as f64 + 1e-9), hit as f64 / subject)
        })
        .collect()
}

fn matting_errors(matte: &[u8], truth: &[u8], width: usize) -> MattingErrors {
    let unit = |values: &[u8]| values.iter().map(|&value| f32::from(value) / 255.0).collect::<Vec<f32>>();
    let (matte, truth) = (unit(matte), unit(truth));
    let difference = || matte.iter().zip(&truth).map(|(a, b)| f64::from(a - b));
    let gradient = |values: &[f32]| gradient_magnitude(values, width);
    MattingErrors {
        sad: difference().map(f64::abs).sum::<f64>() / 1000.0,
        mse: difference().map(|d| d * d).sum::<f64>() / matte.len() as f64,
        gradient: gradient(&matte).iter().zip(gradient(&truth)).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>()
            / 1000.0,
        connectivity: connectivity_error(&matte, &truth, width) / 1000.0,
    }
}

/// Magnitude of the gradient under a Gaussian of σ = 1.4, its two first-derivative filters normalised in L2. Edge pixels repeat.
fn gradient_magnitude(values: &[f32], width: usize) -> Vec<f32> {
    const SIGMA: f64 = 1.4;
    const EPSILON: f64 = 0.01;
    let root = (2.0 * std::f64::consts::PI).sqrt() * SIGMA;
    let radius = (SIGMA * (-2.0 * (root * EPSILON).ln()).sqrt()).ceil() as i64;
    let gauss: Vec<f64> = (-radius..=radius).map(|x| (-(x as f64 / SIGMA).powi(2) / 2.0).exp() / root).collect();
    let slope: Vec<f64> = (-radius..=radius).zip(&gauss).map(|(x, g)| -(x as f64) * g / (SIGMA * SIGMA)).collect();
    // The 2-D filter is the outer product of the two, so its norm is the product of their norms.
    let norm = |line: &[f64]| line.iter().map(|v| v * v).sum::<f64>().sqrt();
    let scaled = |line: &[f64]| line.iter().map(|v| (v / norm(line)) as f32).collect::<Vec<f32>>();
    let (gauss, slope) = (scaled(&gauss), scaled(&slope));
    let across = filter_columns(&filter_rows(values, width, &slope), width, &gauss);
    let down = filter_columns(&filter_rows(values, width, &gauss), width, &slope);
    across.iter().zip(&down).map(|(a, b)| a.hypot(*b)).collect()
}

fn filter_rows(values: &[f32], width: usize, taps: &[f32]) -> Vec<f32> {
    let radius = taps.len() / 2;
    let at = |x: usize, tap: usize| (x + tap).saturating_sub(radius).min(width - 1);
    let row = |row: &[f32]| {
        (0..width).map(|x| taps.iter().enumerate().map(|(tap, t)| t * row[at(x, tap)]).sum()).collect::<Vec<f32>>()
    };
    values.chunks_exact(width).flat_map(row).collect()
}

fn filter_columns(values: &[f32], width: usize, taps: &[f32]) -> Vec<f32> {
    let (height, radius) = (values.len() / width, taps.len() / 2);
    let mut filtered = vec![0.0; values.len()];
    for (y, out) in filtered.chunks_exact_mut(width).enumerate() {
        for (tap, t) in taps.iter().enumerate() {
            let from = (y + tap).saturating_sub(radius).min(height - 1) * width;
            out.iter_mut().zip(&values[from..from + width]).for_each(|(o, v)| *o += t * v);
        }
    }
    filtered
}

/// Sum over the pixels of the difference in connectedness with the largest region that both share.
fn connectivity_error(matte: &[f32], truth: &[f32], width: usize) -> f64 {
    /// Below this distance a pixel counts as fully connected.
    const THETA: f32 = 0.15;
    const STEPS: u8 = 10;
    // The highest level at which a pixel is still in the shared region; 1 when it never leaves it.
    let mut level: Vec<Option<f32>> = vec![None; matte.len()];
    for step in 1..=STEPS {
        let (threshold, below) = (f32::from(step) / f32::from(STEPS), f32::from(step - 1) / f32::from(STEPS));
        let shared: Vec<bool> = matte.iter().zip(truth).map(|(a, b)| *a >= threshold && *b >= threshold).collect();
        let region = connected_components::largest(&shared, width);
        for (level, inside) in level.iter_mut().zip(region) {
            if level.is_none() && !inside {
                *level = Some(below);
            }
        }
    }
    let connected = |value: f32, level: f32| {
        let distance = value - level;
        1.0 - if distance >= THETA { distance } else { 0.0 }
    };
    let error = |((a, b), level): ((&f32, &f32), &Option<f32>)| {
        let level = level.unwrap_or(1.0);
        f64::from((connected(*a, level) - connected(*b, level)).abs())
    };
    matte.iter().zip(truth).zip(&level).map(error).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 97;
    const HEIGHT: usize = 61;

    /// A disc with a soft rim, in integer arithmetic so that the Python reference draws the same bytes.
    fn disc(cx: i64, cy: i64, radius: i64, rim: i64) -> Vec<u8> {
        let pixel = |i: usize| {
            let (x, y) = ((i % WIDTH) as i64, (i / WIDTH) as i64);
            let squared = (x - cx).pow(2) + (y - cy).pow(2);
            ((radius * radius - squared) * 255 / rim).clamp(0, 255) as u8
        };
        (0..WIDTH * HEIGHT).map(pixel).collect()
    }

    fn close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() <= 2e-5 * expected.abs().max(1e-3), "{actual} is not {expected}");
    }

    /// The expected values come from `tests/reference/eval_metrics.py` (NumPy and OpenCV).
    #[test]
    fn measures_agree_with_the_reference_script() {
        let truth = disc(44, 29, 22, 500);
        let mut matte = disc(50, 33, 20, 300);
        matte.iter_mut().zip(disc(12, 10, 6, 20)).for_each(|(a, b)| *a = (*a).max(b));
        let scores = compare(&matte, &truth, WIDTH, &Reference::of(&truth, WIDTH));
        let expected = REFERENCE;
        close(scores.mae, expected[0]);
        close(scores.iou, expected[1]);
        close(scores.boundary_iou, expected[2]);
        close(max_f([scores.curve.as_slice()].into_iter()), expected[3]);
        let matting = scores.matting.expect("the rim is soft");
        close(matting.sad, expected[4]);
        close(matting.mse, expected[5]);
        close(matting.gradient, expected[6]);
        close(matting.connectivity, expected[7]);
    }

    const REFERENCE: [f64; 8] = [
        0.090_190_113,
        0.504_233_302,
        0.060_728_745,
        0.673_074_459,
        0.533_654_906,
        0.041_270_538,
        0.980_734_516,
        0.546_147_071,
    ];

    #[test]
    fn a_subject_cut_by_the_border_has_its_boundary_there() {
        // All members, one pixel deep: the frame of the picture and nothing else.
        let band = inner_band(&[true; 20], 5, 1);
        let deep: Vec<usize> = (0..20).filter(|&i| !band[i]).collect();
        assert_eq!(deep, [6, 7, 8, 11, 12, 13]);
    }

    #[test]
    fn a_hard_ground_truth_has_no_matting_errors() {
        let truth: Vec<u8> = disc(44, 29, 22, 500).iter().map(|&value| if value > 127 { 255 } else { 0 }).collect();
        assert!(compare(&truth, &truth, WIDTH, &Reference::of(&truth, WIDTH)).matting.is_none());
    }
}
