//! Classifies large uncertain regions of the mask with a colour random walker.
//!
//! Where the network is uncertain about a whole object (what the subject holds, leans on or stands before), its mask is
//! near 0.5 over many cells. Matting would leave such a region semi-transparent, but hardly anything is half subject: of 252
//! such regions in the mattes of the development set four of five were subject, or background, by 85 % or more. Regions that
//! are wider than an edge are therefore classified, each cell by the sum of two log odds: the mask's, and how much likelier
//! its colours are under the subject's model than under the background's ([`ColorModels`](crate::matting::gmm::ColorModels)).
//! Neighbours of similar colour are coupled, as in Grady, "Random Walks for Image Segmentation", PAMI 2006: where the solution
//! of the least `Σ w (xᵢ − xⱼ)² + λ Σ (xᵢ − oᵢ)²`, with `o` the cell's own probability and `w` small across a step of colour,
//! is above one half, the cell is subject. Certain cells around the region are the boundary condition.

use super::clean_mask::CleanMask;
use super::color_likelihood::{CellSampler, FINEST_SIDE, MaskedFrame, TUNED_SIDE, difference, reduced, thirds};
use super::component_filter;
use crate::matting::certainty::{BACKGROUND, FOREGROUND};
use crate::matting::chamfer::chamfer;
use crate::matting::connected_components::{components, neighbours};
use rayon::prelude::*;
use std::borrow::Cow;

/// A region is large where it reaches further than so many cells to all sides.
const WIDE_CELLS: f32 = 3.0;
/// Cells this near to such a region are classified with it, unless the mask is more certain of them than [`CERTAIN`].
const SPREAD_CELLS: f32 = 9.0;
const CERTAIN: f32 = 0.03;
/// Weights of the log odds of the mask and of the colours. The mask counts less: it is uncertain here.
const MASK_WEIGHT: f32 = 0.5;
const COLOR_WEIGHT: f32 = 0.7;
/// λ: weight of a cell's own probability beside its neighbours'.
const LAMBDA: f32 = 0.15;
/// Difference in colour between neighbouring cells, in steps of 255, at which their coupling drops, and the coupling that is
/// left whatever the difference: specks belong to what is around them.
const EDGE: f32 = 30.0;
const LEAST_COUPLING: f32 = 0.1;
/// Gauss-Seidel sweeps, each from the first cell to the last and back. A cell hardly influences others three cells on.
const SWEEPS: usize = 16;

/// The mask with all large uncertain regions classified; `None` where there are none, or where the models cannot be fitted.
pub(super) fn classified(masked: &MaskedFrame<'_>) -> Option<CleanMask> {
    let mask = masked.mask;
    let [columns, rows] = [mask.size().width as usize, mask.size().height as usize];
    let factor = columns.max(rows).div_ceil(FINEST_SIDE).max(1);
    let coarse = if factor > 1 { Cow::Owned(reduced(mask, factor)) } else { Cow::Borrowed(mask) };
    let cells = UncertainRegions::of(&coarse)?.classify(masked, &coarse)?;
    let width = coarse.size().width as usize;
    let cell = |at: usize| cells[at / columns / factor * width + at % columns / factor];
    let mut values = mask.values().to_vec();
    values.par_iter_mut().enumerate().for_each(|(at, value)| match cell(at) {
        // The network's probability still counts in the component filter.
        Some(true) => *value = value.max(0.5),
        Some(false) => *value = 0.0,
        None => {}
    });
    // A small component may have been connected to the subject by an uncertain region.
    component_filter::clear(&mut values, columns);
    values.par_iter_mut().enumerate().for_each(|(at, value)| {
        if *value > 0.0 && cell(at) == Some(true) {
            *value = 1.0;
        }
    });
    // A hole that colours alone made: a pattern, a window, a reflection.
    for hole in components(&values, columns, |value| value < 0.5) {
        let before: f32 = hole.iter().map(|&at| mask.values()[at]).sum();
        if before >= 0.5 * hole.len() as f32 && hole.iter().all(|&at| cell(at) == Some(false)) {
            hole.into_iter().for_each(|at| values[at] = 1.0);
        }
    }
    Some(CleanMask::new(mask.size(), values))
}

/// The cells to classify.
struct UncertainRegions {
    /// How many cells one of the tuned grid is.
    unit: f32,
    open: Vec<bool>,
}

impl UncertainRegions {
    /// `None` where no uncertain region is large.
    fn of(mask: &CleanMask) -> Option<Self> {
        let columns = mask.size().width as usize;
        let unit = (mask.size().width.max(mask.size().height) as f32 / TUNED_SIDE).max(1.0);
        let is_uncertain = |value: f32| value > BACKGROUND && value < FOREGROUND;
        let mut distance: Vec<u16> =
            mask.values().iter().map(|&value| if is_uncertain(value) { u16::MAX } else { 0 }).collect();
        chamfer(&mut distance, columns);
        let wide = thirds(WIDE_CELLS * unit);
        if distance.iter().all(|&depth| depth <= wide) {
            return None;
        }
        distance.iter_mut().for_each(|distance| *distance = if *distance > wide { 0 } else { u16::MAX });
        chamfer(&mut distance, columns);
        let spread = thirds(SPREAD_CELLS * unit);
        let is_open =
            |(&value, &distance): (&f32, &u16)| distance <= spread && value > CERTAIN && value < 1.0 - CERTAIN;
        Some(Self { unit, open: mask.values().iter().zip(&distance).map(is_open).collect() })
    }

    /// Whether each open cell is subject.
    fn classify(&self, masked: &MaskedFrame<'_>, mask: &CleanMask) -> Option<Vec<Option<bool>>> {
        let (frame, models) = (masked.frame, masked.models()?);
        let (columns, cells) = (mask.size().width as usize, mask.values().len());
        let open: Vec<usize> = (0..cells).filter(|&at| self.open[at]).collect();
        let sample = |at: usize| {
            let is_near = self.open[at] || neighbours(columns, cells, at).any(|side| self.open[side]);
            let sampler = CellSampler { frame, models, with_likelihood: self.open[at] };
            is_near.then(|| sampler.at([at % columns, at / columns], mask.size()))
        };
        let samples: Vec<Option<([f32; 3], f32)>> = (0..cells).into_par_iter().map(sample).collect();
        let probability = |at: usize| {
            let of_mask = mask.values()[at];
            let odds = MASK_WEIGHT * (of_mask / (1.0 - of_mask)).ln()
                + COLOR_WEIGHT * samples[at].map_or(0.0, |(_, likelihood)| likelihood);
            1.0 / (1.0 + (-odds).exp())
        };
        let own = LAMBDA / (self.unit * self.unit);
        let equation = |&at: &usize| {
            let mut beside = [(at, 0.0); 4];
            for (beside, side) in beside.iter_mut().zip(neighbours(columns, cells, at)) {
                let step =
                    samples[at].zip(samples[side]).map_or(f32::MAX, |((one, _), (other, _))| difference(one, other));
                *beside = (side, (-step / (2.0 * EDGE * EDGE)).exp() + LEAST_COUPLING);
            }
            let weights = own + beside.iter().map(|(_, weight)| weight).sum::<f32>();
            Equation { at, own: own * probability(at), beside, share: 1.0 / weights }
        };
        let equations: Vec<Equation> = open.par_iter().map(equation).collect();
        let mut subject: Vec<f32> = mask.values().iter().map(|&value| f32::from(u8::from(value >= 0.5))).collect();
        open.iter().for_each(|&at| subject[at] = probability(at));
        for _ in 0..SWEEPS {
            equations.iter().for_each(|equation| equation.solve(&mut subject));
            equations.iter().rev().for_each(|equation| equation.solve(&mut subject));
        }
        Some((0..cells).map(|at| self.open[at].then_some(subject[at] >= 0.5)).collect())
    }
}

/// One row of the linear system: a cell by its own probability and its neighbours.
struct Equation {
    at: usize,
    /// The cell's own probability times its weight.
    own: f32,
    /// The neighbours and their weights.
    beside: [(usize, f32); 4],
    /// One over the sum of all weights.
    share: f32,
}

impl Equation {
    /// A Gauss-Seidel step.
    fn solve(&self, subject: &mut [f32]) {
        let beside: f32 = self.beside.iter().map(|&(at, weight)| weight * subject[at]).sum();
        subject[self.at] = (self.own + beside) * self.share;
    }
}

#[cfg(test)]
mod tests {
    use super::super::color_likelihood::scene::{BLUE, PICTURE, RED, WHITE, mask, picture};
    use super::*;
    use crate::image::{Buffer, Frame, Size};

    fn classified(frame: &Frame, mask: CleanMask) -> CleanMask {
        super::classified(&MaskedFrame::new(frame, &mask)).unwrap_or(mask)
    }

    /// A block, and beside it a bar that reaches to the right border, in the units of the picture.
    const BLOCK: [std::ops::Range<f32>; 2] = [60.0..150.0, 40.0..200.0];
    const BAR: [std::ops::Range<f32>; 2] = [150.0..300.0, 90.0..150.0];

    fn is_in([across, down]: &[std::ops::Range<f32>; 2], x: f32, y: f32) -> bool {
        across.contains(&x) && down.contains(&y)
    }

    /// A mask that is certain of the block and of the background, and has `probability` in the bar.
    fn uncertain_bar(side: u32, probability: f32) -> CleanMask {
        mask(side, |x, y| if is_in(&BAR, x, y) { probability } else { f32::from(u8::from(is_in(&BLOCK, x, y))) })
    }

    fn block_and_bar(block: [u8; 3], bar: [u8; 3], ground: [u8; 3]) -> Frame {
        picture(|x, y| match () {
            () if is_in(&BAR, x, y) => bar,
            () if is_in(&BLOCK, x, y) => block,
            () => ground,
        })
    }

    /// How many cells are not 1 where `is_subject` holds and 0 elsewhere, `margin` pixels around its outline aside.
    fn wrong(mask: &CleanMask, margin: f32, is_subject: impl Fn(f32, f32) -> bool) -> usize {
        let (columns, rows) = (mask.size().width as f32, mask.size().height as f32);
        let expected = |at: usize| {
            let (x, y) = ((at as f32 % columns).floor() + 0.5, (at as f32 / columns).floor() + 0.5);
            let (x, y) = (x * PICTURE.width as f32 / columns, y * PICTURE.height as f32 / rows);
            let around = [(-margin, 0.0), (margin, 0.0), (0.0, -margin), (0.0, margin)];
            let subject = is_subject(x, y);
            around.iter().all(|(right, down)| is_subject(x + right, y + down) == subject).then_some(subject)
        };
        let is_wrong =
            |(at, &value): (usize, &f32)| expected(at).is_some_and(|subject| value != f32::from(u8::from(subject)));
        mask.values().iter().enumerate().filter(|&cell| is_wrong(cell)).count()
    }

    fn in_block(x: f32, y: f32) -> bool {
        is_in(&BLOCK, x, y)
    }

    fn in_both(x: f32, y: f32) -> bool {
        is_in(&BLOCK, x, y) || is_in(&BAR, x, y)
    }

    /// How many cells are not the same.
    fn changed(one: &CleanMask, other: &CleanMask) -> usize {
        one.values().iter().zip(other.values()).filter(|(one, other)| one.to_bits() != other.to_bits()).count()
    }

    #[test]
    fn regions_in_the_backgrounds_colours_are_cleared_and_those_in_the_subjects_are_kept() {
        // The mask is on the wrong side of one half both times.
        for side in [384, 700, 1600] {
            let gone = classified(&block_and_bar(BLUE, RED, RED), uncertain_bar(side, 0.6));
            assert_eq!(wrong(&gone, 1.5, in_block), 0, "{side}");
            let kept = classified(&block_and_bar(BLUE, BLUE, RED), uncertain_bar(side, 0.4));
            assert_eq!(wrong(&kept, 1.5, in_both), 0, "{side}");
        }
    }

    #[test]
    fn where_colours_do_not_discriminate_the_mask_decides() {
        // A colour that no certain cell has, white on white, and one colour all over.
        let flat = Frame::new(PICTURE, Buffer::from([0, 0, 0, 255].repeat(PICTURE.area())));
        for frame in [block_and_bar(BLUE, [60, 160, 60], RED), block_and_bar(WHITE, WHITE, WHITE), flat] {
            // The surroundings count for a few cells.
            assert_eq!(wrong(&classified(&frame, uncertain_bar(384, 0.6)), 5.0, in_both), 0);
            assert_eq!(wrong(&classified(&frame, uncertain_bar(384, 0.4)), 5.0, in_block), 0);
        }
    }

    #[test]
    fn the_cut_is_where_the_colour_changes() {
        let half = |x: f32, y: f32| in_block(x, y) || is_in(&BAR, x, y) && x < 220.0;
        let frame = picture(|x, y| if half(x, y) { BLUE } else { RED });
        assert_eq!(wrong(&classified(&frame, uncertain_bar(384, 0.5)), 1.5, half), 0);
    }

    #[test]
    fn specks_are_classified_with_what_is_around_them() {
        // Every sixteenth pixel has the colour of the other side.
        let speck = |x: f32, y: f32| (x as u32).is_multiple_of(4) && (y as u32).is_multiple_of(4);
        let frame = picture(|x, y| if in_both(x, y) != (is_in(&BAR, x, y) && speck(x, y)) { BLUE } else { RED });
        assert_eq!(wrong(&classified(&frame, uncertain_bar(384, 0.5)), 4.0, in_both), 0);
        let frame = picture(|x, y| if in_block(x, y) != (is_in(&BAR, x, y) && speck(x, y)) { BLUE } else { RED });
        assert_eq!(wrong(&classified(&frame, uncertain_bar(384, 0.5)), 4.0, in_block), 0);
    }

    #[test]
    fn a_hole_stays_only_where_the_mask_is_below_one_half() {
        let spot = |x: f32, y: f32| f32::hypot(x - 220.0, y - 120.0) < 12.0;
        let frame = picture(|x, y| if in_both(x, y) && !spot(x, y) { BLUE } else { RED });
        assert_eq!(wrong(&classified(&frame, uncertain_bar(384, 0.6)), 1.5, in_both), 0);
        assert_eq!(wrong(&classified(&frame, uncertain_bar(384, 0.4)), 3.0, |x, y| in_both(x, y) && !spot(x, y)), 0);
    }

    #[test]
    fn edges_are_left_to_matting() {
        // A ramp of six cells, and thin uncertain bars.
        let ramp = mask(384, |x, y| {
            let inside = (x - BLOCK[0].start).min(BLOCK[0].end - x).min(y - BLOCK[1].start).min(BLOCK[1].end - y);
            (0.5 + inside / (6.0 * 240.0 / 384.0)).clamp(0.0, 1.0)
        });
        let frame = block_and_bar(BLUE, RED, RED);
        assert_eq!(changed(&ramp, &classified(&frame, ramp.clone())), 0);
        let thin = mask(384, |x, y| {
            if is_in(&[150.0..300.0, 90.0..93.5], x, y) { 0.5 } else { f32::from(u8::from(is_in(&BLOCK, x, y))) }
        });
        assert_eq!(changed(&thin, &classified(&frame, thin.clone())), 0);
    }

    #[test]
    fn a_small_component_that_gets_disconnected_and_is_confident_nowhere_is_removed() {
        // Of the bar only the end, a twentieth of the block, is blue.
        let frame = picture(|x, y| if is_in(&BLOCK, x, y) || is_in(&BAR, x, y) && x > 290.0 { BLUE } else { RED });
        let after = classified(&frame, uncertain_bar(384, 0.5));
        assert_eq!(wrong(&after, 0.0, in_block), 0);
    }

    #[test]
    fn nothing_is_classified_without_certain_cells() {
        let frame = block_and_bar(BLUE, RED, RED);
        for uncertain in [0.3, 0.7] {
            let all = mask(384, |_, _| uncertain);
            assert_eq!(changed(&all, &classified(&frame, all.clone())), 0);
            let no_ground = mask(384, |x, y| if is_in(&BLOCK, x, y) { 1.0 } else { uncertain });
            assert_eq!(changed(&no_ground, &classified(&frame, no_ground.clone())), 0);
        }
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let frame = block_and_bar(BLUE, RED, RED);
        let cells = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let noisy = |x: f32, y: f32| 0.3 + ((x * 7.0 + y * 3.0) as u32 % 5) as f32 / 10.0;
            let mask =
                mask(
                    900,
                    |x, y| if is_in(&BAR, x, y) { noisy(x, y) } else { f32::from(u8::from(is_in(&BLOCK, x, y))) },
                );
            pool.install(|| classified(&frame, mask)).values().iter().copied().map(f32::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(cells(1), cells(5));
    }

    #[test]
    fn noise_does_not_panic_and_yields_probabilities() {
        for ((width, height), (columns, rows)) in
            [((1, 1), (1, 1)), ((1, 60), (8, 8)), ((60, 1), (384, 384)), ((90, 70), (33, 21)), ((64, 64), (1600, 3))]
        {
            let size = Size::new(width, height);
            let noise = |at: u32| (at + 1).wrapping_mul(2_654_435_761) >> 24;
            let bytes: Vec<u8> = (0..size.area() as u32 * 4).map(|at| noise(at) as u8).collect();
            let values = (0..columns * rows).map(|at| noise(at / 7) as f32 / 255.0).collect();
            let mask = CleanMask::new(Size::new(columns, rows), values);
            let after = classified(&Frame::new(size, Buffer::from(bytes)), mask);
            assert!(after.values().iter().all(|value| (0.0..=1.0).contains(value)), "{size}");
            assert_eq!(after.values().len(), (columns * rows) as usize);
        }
    }
}
