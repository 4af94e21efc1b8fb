//! From the network's mask to what is certain, and the unknown band between.
//!
//! Before the band is drawn ([`backdrop_kernels::trimap`]), the mask is tidied on its own grid: ghosts and stray patches
//! beside the subject are cleared (`ghosts`), and a hole that the network never thought more likely background
//! is filled. So is a hole that it did think background, but nowhere with conviction, in the midst of what it is sure of:
//! an eye, a logo, a reflection (on the development set such holes are subject two times out of three, three times as
//! much by area).

use super::patches::patches;
use super::{Hair, ghosts, holes};
use crate::image::{Mask, Size, Trimap};
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use backdrop_kernels::trimap::{Params, cpu};

/// The band to either side of a sharp edge: in cells of the network's grid, but never thinner than so many pixels, each
/// along its own axis.
const RADIUS_CELLS: f32 = 2.0;
const RADIUS_PX: f32 = 1.5;
/// What counts as certain.
pub(super) const FOREGROUND: f32 = 0.95;
pub(super) const BACKGROUND: f32 = 0.1;

/// The trimap at `size`.
#[must_use]
pub fn from_mask(mask: &Mask, size: Size) -> Trimap {
    of_tidied(&tidied(mask), size, None)
}

/// The trimap at `size` of a mask that is [`tidied`] already, with room for hair.
pub(super) fn of_tidied(mask: &Mask, size: Size, hair: Option<&Hair>) -> Trimap {
    let grid = (mask.size.width as usize, mask.size.height as usize);
    let cell_px = [size.width as f32 / grid.0 as f32, size.height as f32 / grid.1 as f32];
    let radii = cell_px.map(|cell_px| f32::max(RADIUS_CELLS, RADIUS_PX / cell_px));
    let params = Params { radii, foreground: FOREGROUND, background: BACKGROUND };
    let (low, mut high) = cpu::extremes(&mask.values, grid, &params);
    if let Some(hair) = hair {
        hair.widen(&mask.values, grid, size, cell_px[0].min(cell_px[1]), &mut high);
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

/// `mask` without ghosts, stray patches and half-hearted holes.
#[must_use]
pub fn tidied(mask: &Mask) -> Mask {
    let mut mask = mask.clone();
    ghosts::clear(&mut mask);
    // Before the next step, which then settles the ramps that the holes leave behind.
    holes::fill(&mut mask);
    for doubtful in patches(&mask.values, mask.size.width as usize, |value| value < FOREGROUND) {
        if doubtful.iter().all(|&at| mask.values[at] >= 0.5) {
            doubtful.into_iter().for_each(|at| mask.values[at] = 1.0);
        }
    }
    // What is left of the fringes of what was settled, and any haze far from everything.
    let grid = (mask.size.width as usize, mask.size.height as usize);
    let around = Params { radii: [2.0; 2], foreground: FOREGROUND, background: BACKGROUND };
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
