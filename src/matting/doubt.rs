//! Wide doubt, decided by the picture's own colours.
//!
//! Where the network is of two minds about a whole thing (what the subject holds, leans on or stands before), its mask is
//! near a half over many cells. Matting has nothing to go by there and would leave a ghost, but hardly anything is half a
//! subject: of 252 ghosts in the mattes of the development set four of five were subject, or ground, by 85 % or more.
//! What is in doubt for more cells than an edge is wide is therefore decided, each cell by two opinions added up:
//! how sure the mask is of it, and how much likelier its colours are the subject's than the background's
//! ([`super::colours::ColourModels`]). Neighbours of like colour vouch for one another, as in Grady, "Random Walks for Image
//! Segmentation", PAMI 2006: of the least `Σ w (xᵢ − xⱼ)² + λ Σ (xᵢ − oᵢ)²`, with `o` the opinion and `w` small across a step
//! of colour, what is above one half is subject. Cells beyond, of which the mask is sure, are held to what they are.

use super::cells::{Evidence, FINEST_SIDE, Look, TUNED_SIDE, difference, reduced, thirds};
use super::colours::chamfer;
use super::ghosts;
use super::patches::{patches, sides};
use super::trimap::{BACKGROUND, FOREGROUND};
use crate::image::Mask;
use rayon::prelude::*;
use std::borrow::Cow;

/// Doubt is wide where it reaches further than so many cells to all sides.
const WIDE_CELLS: f32 = 3.0;
/// Cells as near to such a place are decided with it, unless the mask is surer of them than [`SURE`].
const SPREAD_CELLS: f32 = 9.0;
const SURE: f32 = 0.03;
/// How much the log odds of the mask and of the colours count. The mask is in doubt, or we would not ask.
const OF_MASK: f32 = 0.5;
const OF_COLOURS: f32 = 0.7;
/// λ: how much a cell's own opinion counts beside its neighbours'.
const OWN: f32 = 0.15;
/// Difference in colour between neighbouring cells, in steps of 255, at which they vouch less for one another, and how much
/// they still do whatever it is: specks belong to what is around them.
const EDGE: f32 = 30.0;
const LEAST: f32 = 0.1;
/// Rounds of solving, each from the first cell to the last and back. What a cell says is hardly heard three cells on.
const ROUNDS: usize = 16;

/// The mask with all wide doubt decided; `None` where there is none, or too little of either side to learn from.
pub(super) fn settled(evidence: &Evidence<'_>) -> Option<Mask> {
    let mask = evidence.mask;
    let [columns, rows] = [mask.size.width as usize, mask.size.height as usize];
    let factor = columns.max(rows).div_ceil(FINEST_SIDE).max(1);
    let coarse = if factor > 1 { Cow::Owned(reduced(mask, factor)) } else { Cow::Borrowed(mask) };
    let cells = Doubt::of(&coarse)?.decided(evidence, &coarse)?;
    let width = coarse.size.width as usize;
    let cell = |at: usize| cells[at / columns / factor * width + at % columns / factor];
    let mut settled = mask.clone();
    settled.values.par_iter_mut().enumerate().for_each(|(at, value)| match cell(at) {
        // What the network thought of it still counts below.
        Some(true) => *value = value.max(0.5),
        Some(false) => *value = 0.0,
        None => {}
    });
    // A stray patch may have hung on the subject by its doubt.
    ghosts::clear(&mut settled);
    settled.values.par_iter_mut().enumerate().for_each(|(at, value)| {
        if *value > 0.0 && cell(at) == Some(true) {
            *value = 1.0;
        }
    });
    // A hole that colours alone made: a pattern, a window, a reflection.
    for hole in patches(&settled.values, columns, |value| value < 0.5) {
        let thought: f32 = hole.iter().map(|&at| mask.values[at]).sum();
        if thought >= 0.5 * hole.len() as f32 && hole.iter().all(|&at| cell(at) == Some(false)) {
            hole.into_iter().for_each(|at| settled.values[at] = 1.0);
        }
    }
    Some(settled)
}

/// The cells that are to be decided.
struct Doubt {
    /// How many cells one of the tuned grid is.
    unit: f32,
    open: Vec<bool>,
}

impl Doubt {
    /// `None` where no doubt is wide.
    fn of(mask: &Mask) -> Option<Self> {
        let columns = mask.size.width as usize;
        let unit = (mask.size.width.max(mask.size.height) as f32 / TUNED_SIDE).max(1.0);
        let is_doubtful = |value: f32| value > BACKGROUND && value < FOREGROUND;
        let mut distance: Vec<u16> =
            mask.values.iter().map(|&value| if is_doubtful(value) { u16::MAX } else { 0 }).collect();
        chamfer(&mut distance, columns);
        let wide = thirds(WIDE_CELLS * unit);
        if distance.iter().all(|&depth| depth <= wide) {
            return None;
        }
        distance.iter_mut().for_each(|distance| *distance = if *distance > wide { 0 } else { u16::MAX });
        chamfer(&mut distance, columns);
        let spread = thirds(SPREAD_CELLS * unit);
        let is_open = |(&value, &distance): (&f32, &u16)| distance <= spread && value > SURE && value < 1.0 - SURE;
        Some(Self { unit, open: mask.values.iter().zip(&distance).map(is_open).collect() })
    }

    /// Whether each open cell is subject.
    fn decided(&self, evidence: &Evidence<'_>, mask: &Mask) -> Option<Vec<Option<bool>>> {
        let (frame, models) = (evidence.frame, evidence.models()?);
        let (columns, cells) = (mask.size.width as usize, mask.values.len());
        let open: Vec<usize> = (0..cells).filter(|&at| self.open[at]).collect();
        let look = |at: usize| {
            let is_near = self.open[at] || sides(columns, cells, at).any(|side| self.open[side]);
            is_near.then(|| Look { frame, models, near: self.open[at] }.at([at % columns, at / columns], mask))
        };
        let looks: Vec<Option<([f32; 3], f32)>> = (0..cells).into_par_iter().map(look).collect();
        let opinion = |at: usize| {
            let sure = mask.values[at];
            let odds =
                OF_MASK * (sure / (1.0 - sure)).ln() + OF_COLOURS * looks[at].map_or(0.0, |(_, evidence)| evidence);
            1.0 / (1.0 + (-odds).exp())
        };
        let own = OWN / (self.unit * self.unit);
        let equation = |&at: &usize| {
            let mut beside = [(at, 0.0); 4];
            for (beside, side) in beside.iter_mut().zip(sides(columns, cells, at)) {
                let step = looks[at].zip(looks[side]).map_or(f32::MAX, |((one, _), (other, _))| difference(one, other));
                *beside = (side, (-step / (2.0 * EDGE * EDGE)).exp() + LEAST);
            }
            let weights = own + beside.iter().map(|(_, weight)| weight).sum::<f32>();
            Equation { at, own: own * opinion(at), beside, share: 1.0 / weights }
        };
        let equations: Vec<Equation> = open.par_iter().map(equation).collect();
        let mut subject: Vec<f32> = mask.values.iter().map(|&value| f32::from(u8::from(value >= 0.5))).collect();
        open.iter().for_each(|&at| subject[at] = opinion(at));
        for _ in 0..ROUNDS {
            equations.iter().for_each(|equation| equation.solve(&mut subject));
            equations.iter().rev().for_each(|equation| equation.solve(&mut subject));
        }
        Some((0..cells).map(|at| self.open[at].then_some(subject[at] >= 0.5)).collect())
    }
}

/// What a cell is, as far as its own opinion and its neighbours say.
struct Equation {
    at: usize,
    /// The opinion times its weight.
    own: f32,
    /// The cells beside it, and how much they count.
    beside: [(usize, f32); 4],
    /// One by the sum of all weights.
    share: f32,
}

impl Equation {
    /// Gauss and Seidel's step.
    fn solve(&self, subject: &mut [f32]) {
        let beside: f32 = self.beside.iter().map(|&(at, weight)| weight * subject[at]).sum();
        subject[self.at] = (self.own + beside) * self.share;
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::scene::{BLUE, PICTURE, RED, WHITE, mask, picture};
    use super::*;
    use crate::image::{Buffer, Frame, Size};

    fn settled(frame: &Frame, mask: Mask) -> Mask {
        super::settled(&Evidence::of(frame, &mask)).unwrap_or(mask)
    }

    /// A block, and beside it a bar that reaches to the right border, in the units of the picture.
    const BLOCK: [std::ops::Range<f32>; 2] = [60.0..150.0, 40.0..200.0];
    const BAR: [std::ops::Range<f32>; 2] = [150.0..300.0, 90.0..150.0];

    fn is_in([across, down]: &[std::ops::Range<f32>; 2], x: f32, y: f32) -> bool {
        across.contains(&x) && down.contains(&y)
    }

    /// The network is sure of the block, and of the ground, and says `doubt` of the bar.
    fn doubted(side: u32, doubt: f32) -> Mask {
        mask(side, |x, y| if is_in(&BAR, x, y) { doubt } else { f32::from(u8::from(is_in(&BLOCK, x, y))) })
    }

    fn block_and_bar(block: [u8; 3], bar: [u8; 3], ground: [u8; 3]) -> Frame {
        picture(|x, y| match () {
            () if is_in(&BAR, x, y) => bar,
            () if is_in(&BLOCK, x, y) => block,
            () => ground,
        })
    }

    /// How many cells are not 1 where `is_subject` holds and 0 elsewhere, `margin` pixels around its outline aside.
    fn wrong(mask: &Mask, margin: f32, is_subject: impl Fn(f32, f32) -> bool) -> usize {
        let (columns, rows) = (mask.size.width as f32, mask.size.height as f32);
        let wanted = |at: usize| {
            let (x, y) = ((at as f32 % columns).floor() + 0.5, (at as f32 / columns).floor() + 0.5);
            let (x, y) = (x * PICTURE.width as f32 / columns, y * PICTURE.height as f32 / rows);
            let around = [(-margin, 0.0), (margin, 0.0), (0.0, -margin), (0.0, margin)];
            let subject = is_subject(x, y);
            around.iter().all(|(right, down)| is_subject(x + right, y + down) == subject).then_some(subject)
        };
        let is_wrong =
            |(at, &value): (usize, &f32)| wanted(at).is_some_and(|subject| value != f32::from(u8::from(subject)));
        mask.values.iter().enumerate().filter(|&cell| is_wrong(cell)).count()
    }

    fn in_block(x: f32, y: f32) -> bool {
        is_in(&BLOCK, x, y)
    }

    fn in_both(x: f32, y: f32) -> bool {
        is_in(&BLOCK, x, y) || is_in(&BAR, x, y)
    }

    /// How many cells are not the same.
    fn changed(one: &Mask, other: &Mask) -> usize {
        one.values.iter().zip(&other.values).filter(|(one, other)| one.to_bits() != other.to_bits()).count()
    }

    #[test]
    fn what_has_the_colours_of_the_ground_goes_and_what_has_the_subjects_stays() {
        // The mask leans to the wrong side both times.
        for side in [384, 700, 1600] {
            let gone = settled(&block_and_bar(BLUE, RED, RED), doubted(side, 0.6));
            assert_eq!(wrong(&gone, 1.5, in_block), 0, "{side}");
            let kept = settled(&block_and_bar(BLUE, BLUE, RED), doubted(side, 0.4));
            assert_eq!(wrong(&kept, 1.5, in_both), 0, "{side}");
        }
    }

    #[test]
    fn where_colours_tell_nothing_the_mask_decides() {
        // Another colour than all that it is sure of, white on white, and one colour all over.
        let flat = Frame::new(PICTURE, Buffer::from([0, 0, 0, 255].repeat(PICTURE.area())));
        for frame in [block_and_bar(BLUE, [60, 160, 60], RED), block_and_bar(WHITE, WHITE, WHITE), flat] {
            // What is around counts for a few cells.
            assert_eq!(wrong(&settled(&frame, doubted(384, 0.6)), 5.0, in_both), 0);
            assert_eq!(wrong(&settled(&frame, doubted(384, 0.4)), 5.0, in_block), 0);
        }
    }

    #[test]
    fn the_cut_is_where_the_colour_changes() {
        let half = |x: f32, y: f32| in_block(x, y) || is_in(&BAR, x, y) && x < 220.0;
        let frame = picture(|x, y| if half(x, y) { BLUE } else { RED });
        assert_eq!(wrong(&settled(&frame, doubted(384, 0.5)), 1.5, half), 0);
    }

    #[test]
    fn specks_go_with_what_is_around_them() {
        // Every sixteenth pixel has the colour of the other side.
        let speck = |x: f32, y: f32| (x as u32).is_multiple_of(4) && (y as u32).is_multiple_of(4);
        let frame = picture(|x, y| if in_both(x, y) != (is_in(&BAR, x, y) && speck(x, y)) { BLUE } else { RED });
        assert_eq!(wrong(&settled(&frame, doubted(384, 0.5)), 4.0, in_both), 0);
        let frame = picture(|x, y| if in_block(x, y) != (is_in(&BAR, x, y) && speck(x, y)) { BLUE } else { RED });
        assert_eq!(wrong(&settled(&frame, doubted(384, 0.5)), 4.0, in_block), 0);
    }

    #[test]
    fn a_hole_stays_only_where_the_mask_leans_to_it() {
        let spot = |x: f32, y: f32| f32::hypot(x - 220.0, y - 120.0) < 12.0;
        let frame = picture(|x, y| if in_both(x, y) && !spot(x, y) { BLUE } else { RED });
        assert_eq!(wrong(&settled(&frame, doubted(384, 0.6)), 1.5, in_both), 0);
        assert_eq!(wrong(&settled(&frame, doubted(384, 0.4)), 3.0, |x, y| in_both(x, y) && !spot(x, y)), 0);
    }

    #[test]
    fn edges_are_left_to_matting() {
        // A ramp of six cells, and thin bars of doubt.
        let ramp = mask(384, |x, y| {
            let inside = (x - BLOCK[0].start).min(BLOCK[0].end - x).min(y - BLOCK[1].start).min(BLOCK[1].end - y);
            (0.5 + inside / (6.0 * 240.0 / 384.0)).clamp(0.0, 1.0)
        });
        let frame = block_and_bar(BLUE, RED, RED);
        assert_eq!(changed(&ramp, &settled(&frame, ramp.clone())), 0);
        let thin = mask(384, |x, y| {
            if is_in(&[150.0..300.0, 90.0..93.5], x, y) { 0.5 } else { f32::from(u8::from(is_in(&BLOCK, x, y))) }
        });
        assert_eq!(changed(&thin, &settled(&frame, thin.clone())), 0);
    }

    #[test]
    fn what_is_cut_off_and_small_and_never_sure_is_no_subject() {
        // Of the bar only the end, a twentieth of the block, is blue.
        let frame = picture(|x, y| if is_in(&BLOCK, x, y) || is_in(&BAR, x, y) && x > 290.0 { BLUE } else { RED });
        let after = settled(&frame, doubted(384, 0.5));
        assert_eq!(wrong(&after, 0.0, in_block), 0);
    }

    #[test]
    fn nothing_is_decided_without_anything_sure() {
        let frame = block_and_bar(BLUE, RED, RED);
        for doubt in [0.3, 0.7] {
            let all = mask(384, |_, _| doubt);
            assert_eq!(changed(&all, &settled(&frame, all.clone())), 0);
            let no_ground = mask(384, |x, y| if is_in(&BLOCK, x, y) { 1.0 } else { doubt });
            assert_eq!(changed(&no_ground, &settled(&frame, no_ground.clone())), 0);
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
            pool.install(|| settled(&frame, mask)).values.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(cells(1), cells(5));
    }

    #[test]
    fn noise_is_no_panic_and_gives_masks() {
        for ((width, height), (columns, rows)) in
            [((1, 1), (1, 1)), ((1, 60), (8, 8)), ((60, 1), (384, 384)), ((90, 70), (33, 21)), ((64, 64), (1600, 3))]
        {
            let size = Size::new(width, height);
            let noise = |at: u32| (at + 1).wrapping_mul(2_654_435_761) >> 24;
            let bytes: Vec<u8> = (0..size.area() as u32 * 4).map(|at| noise(at) as u8).collect();
            let values = (0..columns * rows).map(|at| noise(at / 7) as f32 / 255.0).collect();
            let after =
                settled(&Frame::new(size, Buffer::from(bytes)), Mask { size: Size::new(columns, rows), values });
            assert!(after.values.iter().all(|value| (0.0..=1.0).contains(value)), "{size}");
            assert_eq!(after.values.len(), (columns * rows) as usize);
        }
    }
}
