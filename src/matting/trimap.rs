//! From the network's mask to what is certain, and the unknown band between.
//!
//! Before the band is drawn ([`backdrop_kernels::trimap`]), the mask is tidied on its own grid: what the network never
//! once thought more likely subject than not, however large, is background (else it would be a ghost in the cutout),
//! and a hole that it never thought more likely background is filled. So is a hole that it did think background, but
//! nowhere with conviction, in the midst of what it is sure of: an eye, a logo, a reflection (on the development set
//! such holes are subject two times out of three, three times as much by area).

use super::Hair;
use super::holes;
use crate::image::{Mask, Size, Trimap};
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use backdrop_kernels::trimap::{Params, cpu};

/// The band to either side of a sharp edge: in cells of the network's grid, but never thinner than so many pixels.
const RADIUS_CELLS: f32 = 2.0;
const RADIUS_PX: f32 = 1.5;
/// What counts as certain.
const FOREGROUND: f32 = 0.95;
const BACKGROUND: f32 = 0.1;

/// The trimap at `size`.
#[must_use]
pub fn from_mask(mask: &Mask, size: Size) -> Trimap {
    of_tidied(&tidied(mask), size, None)
}

/// The trimap at `size` of a mask that is [`tidied`] already, with room for hair.
pub(super) fn of_tidied(mask: &Mask, size: Size, hair: Option<&Hair>) -> Trimap {
    let grid = (mask.size.width as usize, mask.size.height as usize);
    let cell_px = f32::min(size.width as f32 / grid.0 as f32, size.height as f32 / grid.1 as f32);
    let radius = f32::max(RADIUS_CELLS, RADIUS_PX / cell_px);
    let params = Params { radius, foreground: FOREGROUND, background: BACKGROUND };
    let (low, mut high) = cpu::extremes(&mask.values, grid, &params);
    if let Some(hair) = hair {
        hair.widen(&mask.values, grid, size, cell_px, &mut high);
    }
    let picture = (size.width as usize, size.height as usize);
    let mut labels = vec![Trimap::UNKNOWN; size.area()];
    cpu::label(
        &Upsampled::new(&low, grid, picture),
        &Upsampled::new(&high, grid, picture),
        &params,
        &mut labels,
        picture.0,
    );
    Trimap { size, labels }
}

/// `mask` without ghosts and without half-hearted holes.
#[must_use]
pub fn tidied(mask: &Mask) -> Mask {
    let mut mask = mask.clone();
    settle(&mut mask, |value| value > BACKGROUND, |value| value >= 0.5, 0.0);
    // Before the next step, which then settles the ramps that the holes leave behind.
    holes::fill(&mut mask);
    settle(&mut mask, |value| value < FOREGROUND, |value| value < 0.5, 1.0);
    // What is left of the fringes of what was settled, and any haze far from everything.
    let grid = (mask.size.width as usize, mask.size.height as usize);
    let around = Params { radius: 2.0, foreground: FOREGROUND, background: BACKGROUND };
    let (low, high) = cpu::extremes(&mask.values, grid, &around);
    for (value, (low, high)) in mask.values.iter_mut().zip(low.into_iter().zip(high)) {
        if high <= BACKGROUND {
            *value = 0.0;
        } else if low >= FOREGROUND {
            *value = 1.0;
        }
    }
    mask
}

/// Sets to `value` every connected patch of cells that are `doubtful` of which not one is `decided`.
fn settle(mask: &mut Mask, doubtful: impl Fn(f32) -> bool, decided: impl Fn(f32) -> bool, value: f32) {
    let (width, values) = (mask.size.width as usize, &mut mask.values);
    let mut seen = vec![false; values.len()];
    let mut patch = Vec::new();
    for first in 0..values.len() {
        if seen[first] || !doubtful(values[first]) {
            continue;
        }
        patch.clear();
        patch.push(first);
        seen[first] = true;
        let mut keep = false;
        let mut next = 0;
        while let Some(&at) = patch.get(next) {
            next += 1;
            keep |= decided(values[at]);
            let x = at % width;
            let neighbours = [
                (x > 0).then(|| at - 1),
                (x + 1 < width).then_some(at + 1),
                at.checked_sub(width),
                Some(at + width).filter(|&below| below < values.len()),
            ];
            for neighbour in neighbours.into_iter().flatten() {
                if !seen[neighbour] && doubtful(values[neighbour]) {
                    seen[neighbour] = true;
                    patch.push(neighbour);
                }
            }
        }
        if !keep {
            patch.iter().for_each(|&at| values[at] = value);
        }
    }
}
