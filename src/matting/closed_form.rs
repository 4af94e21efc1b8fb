//! Closed-form alpha matting: solves for the alpha of the unknown band with conjugate gradients, coarse to fine.
//!
//! Solves `(L + Γ) α = Γ m` for the unknown band, where `L` is the matting Laplacian of Levin, Lischinski and Weiss ("A
//! Closed-Form Solution to Natural Image Matting", PAMI 2008), assembled for the band alone
//! ([`backdrop_kernels::laplacian`]), and `m` the network's mask. The mask's weight γ is a thousandth where colours
//! discriminate, and one where they do not ([`MaskPrior`](super::prior::MaskPrior)): there alpha would follow noise,
//! and tear outlines that the mask has smooth. Such alpha does not measure coverage, so its edge is sharpened. Known
//! pixels are eliminated (the paper's λ → ∞) and keep their value exactly.
//!
//! From coarse to fine, as in the authors' implementation: picture and trimap are halved down to a few thousand pixels.
//! The solution of each level initialises the next finer one; where it is 0 or 1 all around, the finer level is known,
//! so the band shrinks to the partly covered pixels. The number of steps depends on the size of the level alone. Levels
//! are solved in overlapping strips (a restricted Schwarz method with one sweep), each on one thread and small enough
//! for its cache. Nothing is factorised, so there is no failure: fewer steps give a coarser matte.

use super::edge::sharpened;
use super::prior::{Priors, TemporalPrior};
use super::pyramid::{LevelPixels, Pyramid, common_label, halve_rows};
use crate::image::{AlphaMatte, Buffer, Frame, Trimap};
use backdrop_kernels::laplacian::cpu::{Band, Colours};
use backdrop_kernels::laplacian::solver::Solver;
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use backdrop_kernels::prolongation::cpu::{Coarser, Decisions};
use backdrop_kernels::recycled::Recycled;
use backdrop_kernels::trimap::cpu::{Cells, Labeller};
use rayon::prelude::*;
use std::ops::Range;

/// Levels stop getting coarser before the shorter side falls below this.
pub(super) const COARSEST_SIDE: usize = 32;
/// Conjugate-gradient steps of a level times its pixels, and the bounds of the steps.
const STEP_PIXELS: usize = 20_000_000;
const MIN_STEPS: usize = 8;
const MAX_STEPS: usize = 256;
/// Longer side of the coarsest level whose solution makes pixels known: the network's grid has it. On coarser levels a
/// strand of hair is noise; on finer levels the bands are small.
pub(super) const DECIDING_SIDE: usize = 384;
/// Rows of a strip, and the most rows added above and below it: a step reaches one row further.
const STRIP_ROWS: usize = 128;
const MAX_MARGIN: usize = 32;

/// Coverage of every pixel. Known pixels keep the value of `trimap` exactly.
///
/// # Panics
/// When frame, trimap and temporal prior differ in size.
#[must_use]
pub fn estimate_alpha(frame: &Frame, trimap: &Trimap, priors: &Priors<'_>) -> AlphaMatte {
    assert_eq!(frame.size(), trimap.size(), "the trimap is of another picture");
    estimate_with(frame, &Pyramid::of(frame), Labels::Plane(trimap.labels()), priors)
}

/// [`estimate_alpha`] with a given `pyramid` of the picture.
pub(super) fn estimate_with(frame: &Frame, pyramid: &Pyramid, labels: Labels<'_>, priors: &Priors<'_>) -> AlphaMatte {
    let size = frame.size();
    assert!(priors.temporal.is_none_or(|prior| prior.size() == size), "the prior is of another picture");
    let levels = levels(frame, pyramid, labels);
    let mut solved: Option<([usize; 2], Buffer)> = None;
    for (index, level) in levels.iter().enumerate().rev() {
        let temporal = priors.temporal.filter(|_| index == 0);
        let coverage = frame.buffer(level.size[0] * level.size[1]);
        let coarser = solved.as_ref().map(|&(size, ref coverage)| Coarser { size, coverage });
        let coverage = level.solved(coarser, &Priors { temporal, ..*priors }, coverage);
        solved = Some((level.size, coverage));
    }
    let matte = AlphaMatte::new(size, solved.expect("at least the picture itself").1);
    match priors.mask {
        Some(prior) => sharpened(&matte, &prior.hardness_over([size.width as usize, size.height as usize])),
        None => matte,
    }
}

pub(super) enum Labels<'a> {
    Plane(&'a [u8]),
    /// Labels of a finer level, halved.
    Halved(Buffer),
    /// The rows are computed as they are read: nothing is stored at the picture's size.
    Rows(Labeller<'a>),
}

impl Labels<'_> {
    fn row(&self, y: usize, cells: &mut Cells, labels: &mut [u8]) {
        match self {
            Self::Plane(plane) => labels.copy_from_slice(&plane[y * labels.len()..][..labels.len()]),
            Self::Halved(plane) => labels.copy_from_slice(&plane[y * labels.len()..][..labels.len()]),
            Self::Rows(labeller) => labeller.row(y, cells, labels),
        }
    }

    /// Labels at half of `size`: the common label of two by two pixels, unknown without one.
    fn halved(&self, size: [usize; 2], mut halved: Buffer) -> Buffer {
        let [width, height] = size;
        let half_width = width.div_ceil(2);
        let tasks = halved.par_chunks_mut(half_width * STRIP_ROWS).enumerate();
        tasks.for_each_init(Recycled::<(Cells, [Vec<u8>; 2])>::take, |scratch, (strip, halved)| {
            let (cells, rows) = &mut **scratch;
            rows.iter_mut().for_each(|row| row.resize(width, 0));
            for (row, halved) in halved.chunks_exact_mut(half_width).enumerate() {
                let y = 2 * (strip * STRIP_ROWS + row);
                let [above, below] = rows;
                self.row(y, cells, above);
                self.row((y + 1).min(height - 1), cells, below);
                halve_rows([above, below], common_label, halved);
            }
        });
        halved
    }
}

struct MattingLevel<'a> {
    size: [usize; 2],
    pixels: LevelPixels<'a>,
    labels: Labels<'a>,
}

fn levels<'a>(frame: &'a Frame, pyramid: &'a Pyramid, labels: Labels<'a>) -> Vec<MattingLevel<'a>> {
    let size = [frame.size().width as usize, frame.size().height as usize];
    let mut levels = vec![MattingLevel { size, pixels: LevelPixels::Stored(frame.pixels().as_chunks().0), labels }];
    for coarser in &pyramid.levels {
        let Some(level) = levels.last().filter(|level| level.size[0].min(level.size[1]) >= 2 * COARSEST_SIDE) else {
            break;
        };
        let labels = Labels::Halved(level.labels.halved(level.size, frame.buffer(coarser.size[0] * coarser.size[1])));
        levels.push(MattingLevel { size: coarser.size, pixels: coarser.pixels(frame), labels });
    }
    levels
}

/// Reused memory of one thread for a strip.
#[derive(Default)]
struct Scratch {
    band: Band,
    solver: Solver,
    alpha: Vec<f32>,
    cells: Cells,
    /// Labels of the strip and of two rows above and below, which windows reach.
    labels: Vec<u8>,
    decided: Vec<u8>,
    decisions: Decisions,
    prior: [RowCache; 2],
}

/// A row of an upsampled plane: the mixed rows of its grid, computed once for all of the row's pixels.
#[derive(Default)]
struct RowCache {
    y: Option<usize>,
    mixed: Vec<f32>,
}

impl RowCache {
    /// The values of `plane` at the pixels from (`x`, `y`) on.
    fn fill(&mut self, plane: &Upsampled<'_>, y: usize, x: usize, values: &mut [f32]) {
        if self.y.replace(y) != Some(y) {
            plane.mix_rows(y, &mut self.mixed);
        }
        values.iter_mut().zip(x..).for_each(|(value, x)| *value = plane.along(&self.mixed, x));
    }
}

pub(super) fn steps([width, height]: [usize; 2]) -> usize {
    (STEP_PIXELS / (width * height)).clamp(MIN_STEPS, MAX_STEPS)
}

impl MattingLevel<'_> {
    fn steps(&self) -> usize {
        steps(self.size)
    }

    /// Coverage of the level, initialised by the coarser level's solution.
    fn solved(&self, coarser: Option<Coarser<'_>>, priors: &Priors<'_>, mut coverage: Buffer) -> Buffer {
        let [width, height] = self.size;
        let mask = priors.mask.map(|prior| prior.expected(self.size));
        let strips = coverage.par_chunks_mut(STRIP_ROWS * width).enumerate();
        strips.for_each_init(Recycled::<Scratch>::take, |scratch, (strip, coverage)| {
            let top = strip * STRIP_ROWS;
            let own = top..top + coverage.len() / width;
            let margin = self.steps().min(MAX_MARGIN);
            let rows = top.saturating_sub(margin)..(own.end + margin).min(height);
            let start = Start { coarser, mask: mask.as_ref(), temporal: priors.temporal };
            self.solve_strip(&start, scratch, rows, &own, coverage);
        });
        coverage
    }

    /// Solves `rows`, and writes the strip's `own` rows to `coverage`.
    fn solve_strip(
        &self,
        start: &Start<'_>,
        scratch: &mut Scratch,
        rows: Range<usize>,
        own: &Range<usize>,
        coverage: &mut [u8],
    ) {
        let [width, height] = self.size;
        let colours = Colours { width, height, pixels: self.pixels };
        let Scratch { band, solver, alpha, cells, labels, decided, decisions, prior: [expected, weight] } = scratch;
        (expected.y, weight.y) = (None, None);
        decisions.clear();
        let around = rows.start.saturating_sub(2)..(rows.end + 2).min(height);
        labels.resize(around.len() * width, Trimap::UNKNOWN);
        for (y, labels) in around.clone().zip(labels.chunks_exact_mut(width)) {
            self.labels.row(y, cells, labels);
        }
        let labels_from = |y: usize, x: usize| &labels[(y - around.start) * width + x..];
        decided.resize(width, Trimap::UNKNOWN);
        band.rebuild(colours, rows, |y, is_unknown| {
            decided.copy_from_slice(&labels_from(y, 0)[..width]);
            if let Some(coarser) = start.coarser.filter(|coarser| coarser.size[0].max(coarser.size[1]) >= DECIDING_SIDE)
            {
                coarser.decide(y, decisions, decided);
            }
            is_unknown.iter_mut().zip(&*decided).for_each(|(to, &label)| *to = u8::from(label == Trimap::UNKNOWN));
            if own.contains(&y) {
                coverage[(y - own.start) * width..][..width].copy_from_slice(decided);
            }
        });
        if band.is_empty() {
            return;
        }
        band.fill_plane(width, height, alpha, |y, x, values| {
            match (start.coarser, start.mask) {
                (Some(coarser), _) => coarser.start(y, x, values),
                (None, Some([mask, _])) => expected.fill(mask, y, x, values),
                (None, None) => values.fill(0.5),
            }
            for ((value, label), pixel) in values.iter_mut().zip(labels_from(y, x)).zip(y * width + x..) {
                if *label != Trimap::UNKNOWN {
                    *value = f32::from(*label) / 255.0;
                } else if let Some(prior) = start.temporal {
                    *value = prior.toward(*value, pixel);
                }
            }
        });
        solver.clear(band);
        if let Some([mask, gamma]) = start.mask {
            band.each_run(|y, x, _, at, len| {
                let inside = at..at + len.min(width - x);
                expected.fill(mask, y, x, &mut solver.expected[inside.clone()]);
                weight.fill(gamma, y, x, &mut solver.gamma[inside]);
            });
        }
        solver.solve(band, alpha, self.steps());
        band.each_run(|y, x, pixel, _, len| {
            if own.contains(&y) {
                let to = &mut coverage[(y - own.start) * width + x..][..len.min(width - x)];
                for (to, alpha) in to.iter_mut().zip(&alpha[pixel..]).filter(|(to, _)| **to == Trimap::UNKNOWN) {
                    *to = (alpha.clamp(0.0, 1.0) * 255.0 + 0.5) as u8;
                }
            }
        });
    }
}

struct Start<'a> {
    coarser: Option<Coarser<'a>>,
    mask: Option<&'a [Upsampled<'a>; 2]>,
    temporal: Option<&'a TemporalPrior>,
}
