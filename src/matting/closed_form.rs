//! Closed-form alpha matting: solves for the alpha of the unknown band with conjugate gradients, coarse to fine.
//!
//! Solves `(L + γ) α = γ m` for the unknown band, where `L` is the matting Laplacian of Levin, Lischinski and Weiss
//! ("A Closed-Form Solution to Natural Image Matting", PAMI 2008), applied without building it
//! ([`backdrop_kernels::laplacian`]), and `m` the network's mask, whose small weight γ counts where colours do not
//! discriminate. Known pixels are eliminated, which is the paper's λ → ∞: they keep their value exactly.
//!
//! From coarse to fine: the picture and the trimap are halved until the band is small, solved there, and the solution
//! initialises the next finer level, so that only detail is left to solve there. Every level takes a bounded number of
//! preconditioned conjugate-gradient steps, fewer the larger its band is; bands too large to be solved as one are refined in
//! strips that overlap. Nothing is factorised, so nothing can fail: stopping early leaves a coarser matte, never none.

use super::prior::Priors;
use super::pyramid;
use crate::image::{AlphaMatte, Frame, Trimap};
use backdrop_kernels::laplacian::cpu::{Band, Colours};
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use rayon::prelude::*;
use std::borrow::Cow;

/// Levels stop getting coarser at so few unknown pixels or so short a side.
const COARSEST_UNKNOWN: usize = 1000;
const COARSEST_SIDE: usize = 32;
/// Conjugate-gradient steps times unknown pixels that one level may cost, and the bounds on the steps.
const STEP_PIXELS: usize = 4_000_000;
const MIN_STEPS: usize = 16;
const MAX_STEPS: usize = 600;
/// Stops when the preconditioned residual of a pixel is this small (coverage is stored in steps of 1/255).
const TOLERANCE: f64 = 2e-5;
/// Bands above this many pixels are refined in strips: a pixel of the band costs about 120 bytes.
const MAX_AT_ONCE: usize = 400_000;
/// Rows of a strip, and how many more it includes above and below.
const STRIP_ROWS: usize = 128;
const STRIP_MARGIN: usize = 12;

struct Level<'a> {
    size: [usize; 2],
    pixels: Cow<'a, [[u8; 4]]>,
    labels: Cow<'a, [u8]>,
    unknown: usize,
}

/// Coverage of every pixel; known ones exactly as `trimap` says.
///
/// # Panics
/// When frame, trimap and temporal prior differ in size.
#[must_use]
pub fn estimate_alpha(frame: &Frame, trimap: &Trimap, priors: &Priors<'_>) -> AlphaMatte {
    assert_eq!(frame.size(), trimap.size(), "the trimap is of another picture");
    assert!(priors.temporal.is_none_or(|prior| prior.size() == trimap.size()), "the prior is of another picture");
    let levels = pyramid(frame, trimap);
    let mut coarser: Option<(Vec<f32>, [usize; 2])> = None;
    for level in levels[1..].iter().rev() {
        let mut plane = vec![0.0; level.labels.len()];
        level.solve(coarser.as_ref(), &Priors { temporal: None, ..*priors }, &mut plane);
        coarser = Some((plane, level.size));
    }
    let mut coverage = trimap.labels().to_vec();
    levels[0].solve(coarser.as_ref(), priors, &mut coverage);
    AlphaMatte::new(trimap.size(), coverage)
}

fn pyramid<'a>(frame: &'a Frame, trimap: &'a Trimap) -> Vec<Level<'a>> {
    let size = [trimap.size().width as usize, trimap.size().height as usize];
    let (pixels, _) = frame.pixels().as_chunks::<4>();
    let mut levels = vec![Level::new(size, Cow::Borrowed(pixels), Cow::Borrowed(trimap.labels()))];
    while let Some(level) = levels.last()
        && level.unknown > COARSEST_UNKNOWN
        && level.size[0].min(level.size[1]) >= 2 * COARSEST_SIDE
    {
        let pixels = pyramid::halved(&level.pixels, level.size, pyramid::mean_colour);
        let labels =
            pyramid::halved(
                &level.labels,
                level.size,
                |[a, b, c, d]| {
                    if a == b && a == c && a == d { a } else { Trimap::UNKNOWN }
                },
            );
        levels.push(Level::new(pyramid::half_size(level.size), Cow::Owned(pixels), Cow::Owned(labels)));
    }
    levels
}

/// How a level stores coverage.
trait Coverage: Copy + Send + Sync {
    fn of(alpha: f32) -> Self;
}

impl Coverage for f32 {
    fn of(alpha: f32) -> Self {
        alpha
    }
}

impl Coverage for u8 {
    fn of(alpha: f32) -> Self {
        (alpha * 255.0 + 0.5) as Self
    }
}

impl<'a> Level<'a> {
    fn new(size: [usize; 2], pixels: Cow<'a, [[u8; 4]]>, labels: Cow<'a, [u8]>) -> Self {
        let unknown =
            labels.par_chunks(1 << 16).map(|part| part.iter().filter(|&&label| label == Trimap::UNKNOWN).count());
        let unknown = unknown.sum();
        Self { size, pixels, labels, unknown }
    }

    /// Fills `coverage` from where the coarser level ended.
    fn solve<T: Coverage>(&self, coarser: Option<&(Vec<f32>, [usize; 2])>, priors: &Priors<'_>, coverage: &mut [T]) {
        let [width, height] = self.size;
        coverage.par_iter_mut().zip(&*self.labels).for_each(|(value, &label)| *value = T::of(f32::from(label) / 255.0));
        if self.unknown == 0 {
            return;
        }
        let prior = priors.mask.map(|prior| {
            let grid = (prior.size.width as usize, prior.size.height as usize);
            [&prior.alpha, &prior.weight].map(|values| Upsampled::new(values, grid, (width, height)))
        });
        let coarser =
            coarser.map(|(plane, size)| Upsampled::new(plane, (size[0], size[1]), (size[0] * 2, size[1] * 2)));
        let cold = |x: usize, y: usize| match (&coarser, &prior) {
            (Some(coarser), _) => coarser.at(x, y),
            (None, Some([expected, _])) => expected.at(x, y),
            (None, None) => 0.5,
        };
        let start = |x: usize, y: usize| match self.labels[y * width + x] {
            Trimap::UNKNOWN => match priors.temporal.map(|prior| prior.at(y * width + x)) {
                None | Some((_, 0.0)) => cold(x, y),
                Some((expected, 1.0)) => expected,
                Some((expected, weight)) => cold(x, y) * (1.0 - weight) + expected * weight,
            },
            known => f32::from(known) / 255.0,
        };
        let steps = (STEP_PIXELS / self.unknown).clamp(MIN_STEPS, MAX_STEPS);
        // A start near the solution needs fewer steps.
        let weight = priors.temporal.map_or(0.0, |prior| prior.mean_weight(&self.labels));
        let steps = (steps as f32 * (1.0 - weight / 2.0)) as usize;
        let refine = |rows| {
            let colours = Colours { width, height, pixels: &self.pixels };
            let band = Band::new(colours, &self.labels, Trimap::UNKNOWN, rows);
            let mut alpha = band.plane(width, height, start);
            let mut pull = [vec![0.0; band.unknown_len()], vec![0.0; band.unknown_len()]];
            if let Some([expected, weight]) = &prior {
                band.each_unknown(|x, y, _, unknown| {
                    pull[0][unknown] = expected.at(x, y);
                    pull[1][unknown] = weight.at(x, y);
                });
            }
            conjugate_gradients(&band, &mut alpha, pull, steps);
            (band, alpha)
        };
        if self.unknown <= MAX_AT_ONCE {
            let (band, alpha) = refine(0..height);
            band.each_unknown(|x, y, pixel, _| coverage[y * width + x] = T::of(alpha[pixel].clamp(0.0, 1.0)));
            return;
        }
        coverage.par_chunks_mut(STRIP_ROWS * width).enumerate().for_each(|(strip, coverage)| {
            let top = strip * STRIP_ROWS;
            let bottom = top + coverage.len() / width;
            let (band, alpha) = refine(top.saturating_sub(STRIP_MARGIN)..(bottom + STRIP_MARGIN).min(height));
            band.each_unknown(|x, y, pixel, _| {
                if (top..bottom).contains(&y) {
                    coverage[(y - top) * width + x] = T::of(alpha[pixel].clamp(0.0, 1.0));
                }
            });
        });
    }
}

/// Improves `alpha` (a plane of the band) in at most `steps` steps. `pull` is the prior over the unknown pixels: expected
/// alpha and weight.
fn conjugate_gradients(band: &Band, alpha: &mut [f32], [expected, weight]: [Vec<f32>; 2], steps: usize) {
    let len = band.unknown_len();
    // One over the diagonal; zero in padding lanes, so that nothing ever moves there.
    let inverse = |(&diagonal, &weight): (&f32, &f32)| if diagonal > 0.0 { 1.0 / (diagonal + weight) } else { 0.0 };
    let scale: Vec<f32> = band.diagonal().iter().zip(&weight).map(inverse).collect();
    let (mut fits, mut product) = (band.fits(), vec![0.0; len]);
    // The expected alpha is only needed for the first residual, which takes its place.
    let (mut residual, mut direction) = (expected, vec![0.0; alpha.len()]);

    band.apply(alpha, &mut fits, &mut product);
    let mut energy =
        band.each_chunk([alpha, &mut direction], [&mut residual, &mut product], |spans, planes, vectors| {
            let ([alpha, direction], [residual, product]) = (planes, vectors);
            let (scale, weight) = (spans.unknown(&scale), spans.unknown(&weight));
            let mut energy = 0.0;
            for (unknown, plane) in spans.iter() {
                for (at, pixel) in unknown.zip(plane) {
                    residual[at] = weight[at] * (residual[at] - alpha[pixel]) - product[at];
                    direction[pixel] = residual[at] * scale[at];
                    energy += f64::from(residual[at] * direction[pixel]);
                }
            }
            energy
        });
    let enough = TOLERANCE * TOLERANCE * band.count() as f64;
    for _ in 0..steps {
        if energy <= enough {
            return;
        }
        band.apply(&direction, &mut fits, &mut product);
        let curvature = band.each_chunk([&mut direction], [&mut product], |spans, [direction], [product]| {
            let weight = spans.unknown(&weight);
            let mut curvature = 0.0;
            for (unknown, plane) in spans.iter() {
                let (product, weight) = (&mut product[unknown.clone()], &weight[unknown]);
                let mut sum = 0.0;
                for ((product, &weight), &direction) in product.iter_mut().zip(weight).zip(&direction[plane]) {
                    *product += weight * direction;
                    sum += f64::from(*product * direction);
                }
                curvature += sum;
            }
            curvature
        });
        // Not positive only when rounding is all that is left.
        if curvature <= 0.0 {
            return;
        }
        let step = (energy / curvature) as f32;
        let previous = energy;
        energy = band.each_chunk(
            [alpha, &mut direction],
            [&mut residual, &mut product],
            |spans, [alpha, direction], [residual, product]| {
                let scale = spans.unknown(&scale);
                let mut energy = 0.0;
                for (unknown, plane) in spans.iter() {
                    let (alpha, direction) = (&mut alpha[plane.clone()], &direction[plane]);
                    let (residual, product) = (&mut residual[unknown.clone()], &product[unknown.clone()]);
                    let scale = &scale[unknown];
                    let mut sum = 0.0;
                    for at in 0..alpha.len() {
                        alpha[at] += step * direction[at];
                        residual[at] -= step * product[at];
                        sum += f64::from(residual[at] * residual[at] * scale[at]);
                    }
                    energy += sum;
                }
                energy
            },
        );
        let keep = (energy / previous) as f32;
        band.each_chunk([&mut direction], [&mut residual], |spans, [direction], [residual]| {
            let scale = spans.unknown(&scale);
            for (unknown, plane) in spans.iter() {
                let (residual, scale) = (&residual[unknown.clone()], &scale[unknown]);
                for ((direction, &residual), &scale) in direction[plane].iter_mut().zip(residual).zip(scale) {
                    *direction = residual * scale + keep * *direction;
                }
            }
            0.0
        });
    }
}
