//! Closed-form alpha matting.
//!
//! Solves `(L + γ) α = γ m` for the unknown band, where `L` is the matting Laplacian of Levin, Lischinski and Weiss
//! ("A Closed-Form Solution to Natural Image Matting", PAMI 2008), applied without building it
//! ([`backdrop_kernels::laplacian`]), and `m` the network's mask, which is believed a little (γ) where the colours say
//! nothing. Known pixels are eliminated, which is the paper's λ → ∞: they keep their value exactly.
//!
//! From coarse to fine: the picture and the trimap are halved until the band is small, solved there, and the solution
//! is where the next finer level starts from, so that there only detail is left to find. Every level takes a bounded
//! number of conjugate-gradient steps, fewer the larger its band is; bands too large to be solved as one are refined in
//! strips that overlap. Nothing is factorised, so there is nothing that could fail: stopping early leaves a coarser
//! matte, never none.

use super::Carried;
use super::pyramid;
use crate::image::{AlphaMatte, Frame, Mask, Size, Trimap};
use backdrop_kernels::laplacian::cpu::{Band, Colours};
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use backdrop_kernels::trimap;
use rayon::prelude::*;
use std::borrow::Cow;

/// What to know beside the trimap.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClosedForm<'a> {
    /// What the network's mask says inside the band.
    pub prior: Option<&'a Prior>,
    /// Where the finest level starts from, as far as it is believed, instead of where the coarser one ended. It takes up to
    /// half as many steps then.
    pub start: Option<&'a Carried>,
}

/// What the mask says inside the band and how much it is believed there, on the network's grid.
#[derive(Clone, Debug)]
pub struct Prior {
    size: Size,
    opinion: Vec<f32>,
    weight: Vec<f32>,
}

impl Prior {
    /// Where the mask crosses one half there is an edge, and colours know better where exactly; but where it is unsure
    /// all around, colours have nothing to hold on to for many pixels and would wander, so it is believed there.
    #[must_use]
    pub fn of_mask(mask: &Mask) -> Self {
        let grid = (mask.size.width as usize, mask.size.height as usize);
        let disc = trimap::Params { radii: [EDGE_CELLS; 2], foreground: 0.5, background: 0.5 };
        let (low, high) = trimap::cpu::extremes(&mask.values, grid, &disc);
        let at_edge = |(&low, &high): (&f32, &f32)| low < 0.5 && high >= 0.5;
        let weight = low.iter().zip(&high).map(|range| if at_edge(range) { WEIGHT_AT_EDGES } else { WEIGHT_ELSEWHERE });
        let opinion = mask.values.iter().map(|&value| (0.5 + (value - 0.5) * CONTRAST).clamp(0.0, 1.0));
        Self { size: mask.size, weight: weight.collect(), opinion: opinion.collect() }
    }
}

/// γ: how much the mask counts beside the colours where it has an edge, and where it is unsure all around.
const WEIGHT_AT_EDGES: f32 = 1e-4;
const WEIGHT_ELSEWHERE: f32 = 1e-3;
/// Cells from an edge at which it no longer counts as near.
const EDGE_CELLS: f32 = 4.0;
/// The mask is drawn apart around one half by this factor: a subject that is a third there is not what anybody wants.
const CONTRAST: f32 = 1.6;
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
/// Rows of a strip, and how many rows it looks beyond.
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
/// When frame, trimap and start differ in size.
#[must_use]
pub fn estimate_alpha(frame: &Frame, trimap: &Trimap, options: &ClosedForm<'_>) -> AlphaMatte {
    assert_eq!(frame.size(), trimap.size, "the trimap is of another picture");
    assert!(options.start.is_none_or(|start| start.size == trimap.size), "the start is of another picture");
    let levels = pyramid(frame, trimap);
    let mut coarser: Option<(Vec<f32>, [usize; 2])> = None;
    for level in levels[1..].iter().rev() {
        let mut plane = vec![0.0; level.labels.len()];
        level.solve(coarser.as_ref(), &ClosedForm { start: None, ..*options }, &mut plane);
        coarser = Some((plane, level.size));
    }
    let mut coverage = trimap.labels.clone();
    levels[0].solve(coarser.as_ref(), options, &mut coverage);
    AlphaMatte { size: trimap.size, coverage }
}

fn pyramid<'a>(frame: &'a Frame, trimap: &'a Trimap) -> Vec<Level<'a>> {
    let size = [trimap.size.width as usize, trimap.size.height as usize];
    let (pixels, _) = frame.pixels().as_chunks::<4>();
    let mut levels = vec![Level::new(size, Cow::Borrowed(pixels), Cow::Borrowed(&trimap.labels))];
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
    fn solve<T: Coverage>(
        &self,
        coarser: Option<&(Vec<f32>, [usize; 2])>,
        options: &ClosedForm<'_>,
        coverage: &mut [T],
    ) {
        let [width, height] = self.size;
        coverage.par_iter_mut().zip(&*self.labels).for_each(|(value, &label)| *value = T::of(f32::from(label) / 255.0));
        if self.unknown == 0 {
            return;
        }
        let prior = options.prior.map(|prior| {
            let grid = (prior.size.width as usize, prior.size.height as usize);
            [&prior.opinion, &prior.weight].map(|values| Upsampled::new(values, grid, (width, height)))
        });
        let coarser =
            coarser.map(|(plane, size)| Upsampled::new(plane, (size[0], size[1]), (size[0] * 2, size[1] * 2)));
        let cold = |x: usize, y: usize| match (&coarser, &prior) {
            (Some(coarser), _) => coarser.at(x, y),
            (None, Some([opinion, _])) => opinion.at(x, y),
            (None, None) => 0.5,
        };
        let start = |x: usize, y: usize| match self.labels[y * width + x] {
            Trimap::UNKNOWN => match options.start.map(|start| start.at(y * width + x)) {
                None | Some((_, 0.0)) => cold(x, y),
                Some((carried, 1.0)) => carried,
                Some((carried, weight)) => cold(x, y) * (1.0 - weight) + carried * weight,
            },
            known => f32::from(known) / 255.0,
        };
        let steps = (STEP_PIXELS / self.unknown).clamp(MIN_STEPS, MAX_STEPS);
        // Whoever starts close by has less far to go.
        let known = options.start.map_or(0.0, |start| start.known(&self.labels));
        let steps = (steps as f32 * (1.0 - known / 2.0)) as usize;
        let refine = |rows| {
            let colours = Colours { width, height, pixels: &self.pixels };
            let band = Band::new(colours, &self.labels, Trimap::UNKNOWN, rows);
            let mut alpha = band.plane(width, height, start);
            let mut pull = [vec![0.0; band.unknown_len()], vec![0.0; band.unknown_len()]];
            if let Some([opinion, weight]) = &prior {
                band.each_unknown(|x, y, _, unknown| {
                    pull[0][unknown] = opinion.at(x, y);
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

/// Improves `alpha` (a plane of the band) in at most `steps` steps. `pull` is the prior over the unknown pixels: opinion
/// and weight.
fn conjugate_gradients(band: &Band, alpha: &mut [f32], [opinion, weight]: [Vec<f32>; 2], steps: usize) {
    let len = band.unknown_len();
    // One over the diagonal; zero in padding lanes, so that nothing ever moves there.
    let inverse = |(&diagonal, &weight): (&f32, &f32)| if diagonal > 0.0 { 1.0 / (diagonal + weight) } else { 0.0 };
    let scale: Vec<f32> = band.diagonal().iter().zip(&weight).map(inverse).collect();
    let (mut fits, mut product) = (band.fits(), vec![0.0; len]);
    // The opinion is only needed for the first residual, which takes its place.
    let (mut residual, mut direction) = (opinion, vec![0.0; alpha.len()]);

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
