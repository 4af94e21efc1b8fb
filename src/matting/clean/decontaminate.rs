//! Removes background that the mask includes near its edge, by colour likelihood.
//!
//! Works on the mask, before the unknown band is drawn, so that matting finds the new edge as it finds any other. A cell
//! of the mask's grid is background by the sum of two log odds: how much likelier its colours are the background's
//! ([`ColorModels`], averaged over the cells around of similar colour), and the mask's own. The likelihood ratio is limited, so
//! cells of which the mask is certain (above 0.98) stay whatever their colour. A removed region
//!
//! - lies within [`REACH`] of the mask's edge,
//! - is reached from certain background through cells that are all background by this sum, without a step of colour on the
//!   way: a white collar before a white wall ends on a line,
//! - is deep and large enough to be background; a thinner one is left to matting, or is hair,
//! - is less than [`MOST`] of the subject: colours that would remove more do not discriminate it.
//!
//! Masks on a grid finer than [`FINEST_SIDE`] are classified on a coarser one.
//!
//! Cells just below the threshold lose half of their value, those far below all of it, and none ever gains. Where the two
//! models overlap (white on white) the mask stays as it is, bit for bit.

use super::clean_mask::CleanMask;
use super::color_likelihood::{CellSampler, FINEST_SIDE, MaskedFrame, TUNED_SIDE, difference, reduced, thirds};
use crate::image::Frame;
use crate::matting::chamfer::chamfer;
use crate::matting::connected_components::{components, neighbours};
use crate::matting::gmm::ColorModels;
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use rayon::prelude::*;

/// How far from the mask's edge anything may be removed, as a share of the longer side of the grid.
const REACH: f32 = 0.04;
/// Removed regions reach this deep into the mask at least, in cells.
const DEPTH_CELLS: f32 = 3.0;
/// How far around such deep cells others go with them.
const SPREAD_CELLS: f32 = 6.0;
/// Smaller regions stay, in cells.
const MIN_CELLS: f32 = 20.0;
/// Radius of the neighbourhood that likelihoods are averaged over, in cells.
const AVERAGE_CELLS: f32 = 2.0;
/// Difference in colour, in steps of 255, at which a neighbour's likelihood counts half.
const ALIKE: f32 = 20.0;
/// Difference in colour between neighbouring cells that is an edge.
const EDGE: f32 = 24.0;
/// Cells count as background when likelihood ratio and the mask's log odds together are below this.
const PASSES: f32 = -1.0;
/// So much further below, they lose all of their value.
const CLEAR: f32 = 1.0;
/// The mask's own log odds count no more than those of this probability.
const MOST_SURE: f32 = 0.998;
/// Up to this a cell is certain background; there is nothing to remove from less than [`NOTHING`].
const CERTAIN_BACKGROUND: f32 = 0.1;
const NOTHING: f32 = 0.02;
/// Models with more overlap than this are not used.
const MAX_OVERLAP: f32 = 0.4;
/// The share of the subject that may be removed.
const MOST: f32 = 0.25;

/// The mask without the background that it includes near its edge; `None` where colours do not discriminate.
pub(super) fn decontaminated(masked: &MaskedFrame<'_>) -> Option<CleanMask> {
    let (frame, mask) = (masked.frame, masked.mask);
    let models = masked.models().filter(|models| models.overlap() <= MAX_OVERLAP)?;
    let mut values = mask.values().to_vec();
    let [columns, rows] = [mask.size().width as usize, mask.size().height as usize];
    let factor = columns.max(rows).div_ceil(FINEST_SIDE);
    if factor <= 1 {
        let left = Cells::of(frame, mask, models).left(mask);
        values.iter_mut().zip(left).for_each(|(value, left)| *value *= left);
        return Some(CleanMask::new(mask.size(), values));
    }
    let coarse = reduced(mask, factor);
    let left = Cells::of(frame, &coarse, models).left(&coarse);
    let grid = (coarse.size().width as usize, coarse.size().height as usize);
    let left = Upsampled::new(&left, grid, (columns, rows));
    values.par_chunks_mut(columns).enumerate().for_each(|(y, row)| {
        for (x, value) in row.iter_mut().enumerate() {
            let left = left.at(x, y);
            // Where nothing is taken nothing may change, not even by the rounding of an interpolation.
            if left < 1.0 - 1e-5 {
                *value *= left.max(0.0);
            }
        }
    });
    Some(CleanMask::new(mask.size(), values))
}

/// Depth, mean colour and score of the cells of the mask's grid.
struct Cells {
    columns: usize,
    /// How many cells one of the tuned grid is.
    unit: f32,
    /// Chamfer distance to the nearest cell outside the mask; 0 outside.
    depth: Vec<u16>,
    /// Mean colour, in steps of 255.
    colour: Vec<[f32; 3]>,
    /// The sum of the two log odds, below 0: background. `None` where nothing may be removed.
    score: Vec<Option<f32>>,
}

impl Cells {
    fn of(frame: &Frame, mask: &CleanMask, models: &ColorModels) -> Self {
        let columns = mask.size().width as usize;
        let longer = mask.size().width.max(mask.size().height) as f32;
        let unit = longer / TUNED_SIDE;
        let mut depth: Vec<u16> = mask.values().iter().map(|&value| if value < 0.5 { 0 } else { u16::MAX }).collect();
        chamfer(&mut depth, columns);
        let reach = thirds(REACH * longer);
        let near: Vec<bool> =
            mask.values().iter().zip(&depth).map(|(&value, &depth)| value > NOTHING && depth <= reach).collect();
        let sample = |at: usize| {
            let sampler = CellSampler { frame, models, with_likelihood: near[at] };
            sampler.at([at % columns, at / columns], mask.size())
        };
        let samples: Vec<([f32; 3], f32)> = (0..near.len()).into_par_iter().map(sample).collect();
        let radius = (AVERAGE_CELLS * unit).round() as usize;
        let score = |at: usize| {
            near[at].then(|| {
                let of_mask = mask.values()[at].clamp(1.0 - MOST_SURE, MOST_SURE);
                averaged(&samples, &near, columns, radius, at) + (of_mask / (1.0 - of_mask)).ln()
            })
        };
        let score = (0..near.len()).into_par_iter().map(score).collect();
        Self { columns, unit, depth, colour: samples.into_iter().map(|(colour, _)| colour).collect(), score }
    }

    /// The share of each cell's value that stays.
    fn left(&self, mask: &CleanMask) -> Vec<f32> {
        let taken = self.reached(mask);
        let deep = thirds(DEPTH_CELLS * self.unit);
        let mut from_deep: Vec<u16> = (taken.iter().zip(&self.depth))
            .map(|(&taken, &depth)| if taken && depth >= deep { 0 } else { u16::MAX })
            .collect();
        chamfer(&mut from_deep, self.columns);
        let spread = thirds(SPREAD_CELLS * self.unit);
        let regions: Vec<bool> =
            taken.iter().zip(&from_deep).map(|(&taken, &distance)| taken && distance <= spread).collect();
        let removed = self.large_regions(&regions, mask);
        let subject = |at: &usize| mask.values()[*at] >= 0.5;
        let (lost, all) = (removed.iter().filter(|&at| subject(at)).count(), (0..taken.len()).filter(subject).count());
        let mut left = vec![1.0; taken.len()];
        if lost as f32 <= MOST * all as f32 {
            for at in removed {
                let score = self.score[at].unwrap_or(PASSES);
                left[at] = (0.5 - (PASSES - score) / (2.0 * CLEAR)).clamp(0.0, 0.5);
            }
        }
        left
    }

    /// The cells that count as background and are reached from certain background.
    fn reached(&self, mask: &CleanMask) -> Vec<bool> {
        let mut taken = vec![false; mask.values().len()];
        let mut front: Vec<usize> = (0..taken.len()).filter(|&at| mask.values()[at] <= CERTAIN_BACKGROUND).collect();
        let mut next = 0;
        while let Some(&at) = front.get(next) {
            next += 1;
            for to in neighbours(self.columns, self.depth.len(), at) {
                let passes = self.score[to].is_some_and(|score| score < PASSES);
                if passes && !taken[to] && difference(self.colour[at], self.colour[to]) < EDGE * EDGE {
                    taken[to] = true;
                    front.push(to);
                }
            }
        }
        taken
    }

    /// The cells of those connected regions that hold enough of the mask.
    fn large_regions(&self, regions: &[bool], mask: &CleanMask) -> Vec<usize> {
        let least = MIN_CELLS * self.unit * self.unit;
        let mut regions = components(regions, self.columns, |is_member| is_member);
        regions.retain(|region| region.iter().filter(|&&at| mask.values()[at] >= 0.5).count() as f32 >= least);
        regions.concat()
    }
}

/// Mean log likelihood ratio of the cells around, weighted by similarity of colour.
fn averaged(samples: &[([f32; 3], f32)], near: &[bool], columns: usize, radius: usize, at: usize) -> f32 {
    let (x, y, rows) = (at % columns, at / columns, near.len() / columns);
    let (mut sum, mut weights) = (0.0, 0.0);
    for row in y.saturating_sub(radius)..(y + radius + 1).min(rows) {
        for other in (row * columns + x.saturating_sub(radius))..(row * columns + (x + radius + 1).min(columns)) {
            if near[other] {
                let weight = 1.0 / (1.0 + difference(samples[at].0, samples[other].0) / (ALIKE * ALIKE));
                sum += weight * samples[other].1;
                weights += weight;
            }
        }
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::super::color_likelihood::scene::{BLUE, PICTURE, RED, WHITE, mask, picture};
    use super::*;
    use crate::image::{Buffer, Size};
    use crate::matting::chamfer::STRAIGHT;

    fn decontaminated(frame: &Frame, mask: CleanMask) -> CleanMask {
        super::decontaminated(&MaskedFrame::new(frame, &mask)).unwrap_or(mask)
    }

    /// In the units of the picture.
    const CENTRE: [f32; 2] = [130.0, 120.0];
    const RADIUS: f32 = 70.0;

    /// How far inside the disc.
    fn inside(x: f32, y: f32) -> f32 {
        RADIUS - f32::hypot(x - CENTRE[0], y - CENTRE[1])
    }

    /// Whether beside the disc, no more than `thick` to its right.
    fn in_slab(x: f32, y: f32, thick: f32) -> bool {
        (-thick..0.0).contains(&inside(x, y)) && (90.0..150.0).contains(&y) && x > CENTRE[0]
    }

    /// The disc with a ramp of three pixels, and a slab beside it of lower probability.
    fn kept(side: u32, thick: f32) -> CleanMask {
        mask(side, |x, y| {
            let disc = (0.5 + inside(x, y) / 3.0).clamp(0.0, 1.0);
            if in_slab(x, y, thick) { disc.max(0.8) } else { disc }
        })
    }

    fn disc_on(ground: [u8; 3], disc: [u8; 3]) -> Frame {
        picture(|x, y| if inside(x, y) >= 0.0 { disc } else { ground })
    }

    /// How many cells are not what they were, bit for bit.
    fn changed(before: &CleanMask, after: &CleanMask) -> usize {
        let cells = before.values().iter().zip(after.values());
        cells.filter(|(before, after)| before.to_bits() != after.to_bits()).count()
    }

    fn only_removes(before: &CleanMask, after: &CleanMask) -> bool {
        before.values().iter().zip(after.values()).all(|(before, after)| (0.0..=*before).contains(after))
    }

    #[test]
    fn a_slab_of_red_beside_a_blue_disc_is_removed_and_nothing_else() {
        for side in [96, 384, 1600] {
            let before = kept(side, 12.0);
            let after = decontaminated(&disc_on(RED, BLUE), before.clone());
            assert!(only_removes(&before, &after));
            let slab = mask(side, |x, y| f32::from(u8::from(in_slab(x, y, 12.0) && inside(x, y) < -3.0)));
            let cells = || before.values().iter().zip(after.values()).zip(slab.values());
            let (all, gone) = cells()
                .filter(|(_, slab)| **slab > 0.0)
                .fold((0, 0), |(all, gone), ((_, after), _)| (all + 1, gone + usize::from(*after < 0.1)));
            assert!(gone * 20 >= all * 19, "{gone} of {all} cells of {side}");
            let disc = mask(side, |x, y| f32::from(u8::from(inside(x, y) > 3.0)));
            let same = before.values().iter().zip(after.values()).zip(disc.values());
            assert!(same.filter(|(_, disc)| **disc > 0.0).all(|((before, after), _)| before == after), "{side}");
        }
    }

    #[test]
    fn where_colours_are_alike_the_mask_stays_bit_for_bit() {
        for (ground, disc) in [(WHITE, WHITE), ([20; 3], [21; 3]), (WHITE, [240, 240, 240])] {
            let before = kept(384, 12.0);
            assert_eq!(
                changed(&before, &decontaminated(&disc_on(ground, disc), before.clone())),
                0,
                "{disc:?} on {ground:?}"
            );
        }
    }

    #[test]
    fn where_most_colours_are_alike_nothing_is_removed() {
        // White on white, but for a red corner of the background that the mask includes in part.
        let frame = picture(|x, y| if inside(x, y) < 0.0 && x > 190.0 && y > 90.0 && y < 150.0 { RED } else { WHITE });
        let before = kept(384, 12.0);
        assert_eq!(changed(&before, &decontaminated(&frame, before.clone())), 0);
    }

    #[test]
    fn a_mask_that_is_right_stays() {
        let before = kept(384, 0.0);
        assert_eq!(changed(&before, &decontaminated(&disc_on(RED, BLUE), before.clone())), 0);
    }

    #[test]
    fn nothing_is_removed_beyond_the_reach() {
        // The slab is as deep as the disc's radius, and all of it has the background's colour.
        let before = kept(384, 60.0);
        let after = decontaminated(&disc_on(RED, BLUE), before.clone());
        assert!(after != before && only_removes(&before, &after));
        let mut depth: Vec<u16> = before.values().iter().map(|&value| if value < 0.5 { 0 } else { u16::MAX }).collect();
        chamfer(&mut depth, 384);
        // A 25th of the side.
        let deeper = depth.iter().map(|&depth| depth > 384 * STRAIGHT / 25);
        assert!(
            deeper
                .zip(before.values().iter().zip(after.values()))
                .all(|(deeper, (before, after))| !deeper || before == after)
        );
    }

    #[test]
    fn what_the_subject_encloses_stays() {
        // A badge in the colour of the background, near the edge but behind a rim.
        let badge = |x: f32, y: f32| f32::hypot(x - CENTRE[0], y - CENTRE[1] - 52.0) < 9.0;
        let frame = picture(|x, y| if inside(x, y) >= 0.0 && !badge(x, y) { BLUE } else { RED });
        let before = kept(384, 0.0);
        assert_eq!(changed(&before, &decontaminated(&frame, before.clone())), 0);
    }

    #[test]
    fn a_part_in_the_colours_of_the_background_ends_on_a_line() {
        // Red as the background is elsewhere, but dark beside it; the mask is a little wider.
        let part = |x: f32, y: f32| in_slab(x, y, 12.5) && (91.0..149.0).contains(&y);
        let frame = picture(|x, y| match inside(x, y) >= 0.0 {
            true => BLUE,
            false if part(x, y) || x < CENTRE[0] + 20.0 => RED,
            false => [60, 30, 30],
        });
        let before = kept(384, 14.0);
        assert_eq!(changed(&before, &decontaminated(&frame, before.clone())), 0);
    }

    #[test]
    fn thin_rims_are_left_to_matting() {
        let before = kept(384, 1.6);
        assert_eq!(changed(&before, &decontaminated(&disc_on(RED, BLUE), before.clone())), 0);
    }

    #[test]
    fn colours_that_would_remove_most_of_the_subject_are_ignored() {
        // A small disc of blue of which the mask is certain, and as much again around it of which it is not.
        let small = |x: f32, y: f32| f32::hypot(x - 150.0, y - 120.0);
        let frame = picture(|x, y| if small(x, y) < 20.0 { BLUE } else { RED });
        let around = |radius: f32| {
            mask(384, move |x, y| match small(x, y) {
                distance if distance < 20.0 => 1.0,
                distance if distance < radius => 0.85,
                _ => 0.0,
            })
        };
        let some = around(22.5);
        assert!(changed(&some, &decontaminated(&frame, some.clone())) > 0);
        let before = around(27.0);
        assert_eq!(changed(&before, &decontaminated(&frame, before.clone())), 0);
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let clean = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mask = pool.install(|| decontaminated(&disc_on(RED, BLUE), kept(900, 12.0)));
            mask.values().iter().copied().map(f32::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(clean(1), clean(5));
    }

    #[test]
    fn noise_does_not_panic_and_never_adds() {
        let noise = |seed: u32, at: u32| {
            let mut value = (at + 1).wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(2_246_822_519);
            value ^= value >> 15;
            (value.wrapping_mul(2_246_822_519) >> 16) & 255
        };
        for (seed, (width, height), (columns, rows)) in [
            (1, (1, 1), (1, 1)),
            (2, (1, 60), (8, 8)),
            (3, (60, 1), (384, 384)),
            (4, (17, 9), (5, 31)),
            (5, (90, 70), (33, 21)),
            (6, (64, 64), (800, 3)),
        ] {
            let size = Size::new(width, height);
            let bytes: Vec<u8> = (0..size.area() as u32 * 4).map(|at| noise(seed, at) as u8).collect();
            let frame = Frame::new(size, Buffer::from(bytes));
            let values = (0..columns * rows).map(|at| noise(seed + 9, at / 7) as f32 / 255.0).collect();
            let before = CleanMask::new(Size::new(columns, rows), values);
            let after = decontaminated(&frame, before.clone());
            assert!(only_removes(&before, &after), "{size}");
            for value in [0.0, 0.5, 1.0] {
                let flat = CleanMask::new(before.size(), vec![value; before.values().len()]);
                assert_eq!(changed(&flat, &decontaminated(&frame, flat.clone())), 0);
            }
        }
    }

    #[test]
    fn one_colour_all_over_stays() {
        let before = kept(384, 12.0);
        let frame = Frame::new(PICTURE, Buffer::from([0, 0, 0, 255].repeat(PICTURE.area())));
        assert_eq!(changed(&before, &decontaminated(&frame, before.clone())), 0);
    }
}
