//! Cleans the network's mask on its own grid: [`RawMask`] → [`CleanMask`].
//!
//! Disconnected low-confidence components are removed (`component_filter`) and holes filled: those where background is
//! nowhere more likely than subject, and those where it is but nowhere with certainty, inside confident subject
//! (`hole_filling`): an eye, a logo, a reflection (on the development set such holes are subject two times out of three,
//! three times as much by area). For single pictures, large uncertain regions are then classified by a colour random walker
//! (`random_walker`), and background that the mask includes near its edge is removed where a recipe says so
//! (`decontaminate`).

mod clean_mask;
mod color_likelihood;
mod component_filter;
mod decontaminate;
mod hole_filling;
mod random_walker;
mod seeds;

pub use clean_mask::CleanMask;
pub(super) use component_filter::clear as clear_components;
pub use seeds::Seeds;

use super::certainty::{BACKGROUND, FOREGROUND};
use super::connected_components::components;
use super::error::{MIN_AREA, NoSubject};
use crate::image::{Frame, RawMask};
use backdrop_kernels::trimap::{Params, cpu};
use color_likelihood::MaskedFrame;

/// `mask` after component filtering and hole filling.
#[must_use]
pub fn clean(mask: &RawMask) -> CleanMask {
    let size = mask.size();
    let columns = size.width as usize;
    let mut values = mask.values().to_vec();
    component_filter::clear(&mut values, columns);
    // Before the next step, which then raises the ramps that the holes leave behind.
    hole_filling::fill(&mut values, columns);
    for uncertain in components(&values, columns, |value| value < FOREGROUND) {
        if uncertain.iter().all(|&at| values[at] >= 0.5) {
            uncertain.into_iter().for_each(|at| values[at] = 1.0);
        }
    }
    // The fringes of what was removed or filled, and any haze far from everything.
    let grid = (columns, size.height as usize);
    let around = Params { radii: [2.0; 2], foreground: FOREGROUND, background: BACKGROUND };
    let (low, high) = cpu::extremes(&values, grid, &around);
    for (value, (low, high)) in values.iter_mut().zip(low.into_iter().zip(high)) {
        if high <= BACKGROUND {
            *value = 0.0;
        } else if low >= FOREGROUND {
            *value = 1.0;
        }
    }
    CleanMask::new(size, values)
}

/// `mask` of `frame` after [`clean`], with its uncertain regions classified by the picture's colours, and with
/// `decontaminate` without background that it includes near its edge.
///
/// # Errors
/// [`NoSubject`] when too little of [`clean`]'s mask is likely subject.
pub fn clean_with_colors(
    frame: &Frame,
    mask: &RawMask,
    _seeds: &Seeds,
    decontaminate: bool,
) -> Result<CleanMask, NoSubject> {
    let mask = with_subject(clean(mask))?;
    let masked = MaskedFrame::new(frame, &mask);
    let classified = random_walker::classified(&masked);
    let reduced = if decontaminate { decontaminate::decontaminated(&masked) } else { None };
    let Some(reduced) = reduced else { return Ok(classified.unwrap_or(mask)) };
    let Some(classified) = classified else { return Ok(reduced) };
    // Decontamination only takes away, also from what is classified.
    let pairs = classified.values().iter().zip(mask.values()).zip(reduced.values());
    let values = pairs.map(|((&value, &before), &reduced)| if reduced < before { value.min(reduced) } else { value });
    Ok(CleanMask::new(mask.size(), values.collect()))
}

/// The mask, if it has a subject of at least [`MIN_AREA`].
pub(super) fn with_subject(mask: CleanMask) -> Result<CleanMask, NoSubject> {
    let likely = mask.values().iter().filter(|&&value| value >= 0.5).count();
    if (likely as f64) < MIN_AREA * mask.values().len() as f64 { Err(NoSubject) } else { Ok(mask) }
}
