//! Cleans the network's mask on its own grid: [`RawMask`] → [`CleanMask`], by one labelling of its cells.
//!
//! ```text
//! least over x of  Σ w(i, j) (x_i − x_j)²  +  λ Σ (x_i − p_i)²
//! logit p = logit of the mask + log likelihood ratio of the cell's colour
//! ```
//!
//! Fixed are cells of which the mask is certain, cells of subject on thin ridges of the mask, whose mean colours are
//! mixtures, and cells that the caller has marked ([`Seeds`]). The others are subject where the solution is above one
//! half: Grady, "Random Walks for Image Segmentation", PAMI 2006, with priors (Grady, "Multilabel Random Walker Image
//! Segmentation Using Prior Models", CVPR 2005). The likelihoods come from two colour histograms of the picture
//! (`color_histograms`); the weights fall with the colour step between two cells (`linear_system`). Then components
//! without a certain cell are merged into their surroundings (`component_rules`). Cells at an edge between the labels
//! keep the mask's value for matting (`soft_edge`); every other cell becomes 0 or 1.
//!
//! Grids finer than `FINEST_SIDE` are labelled on a coarser one: finer colours are no more reliable, and take time.

mod cell_colors;
mod clean_mask;
mod color_histograms;
mod component_rules;
mod linear_system;
mod random_walker;
mod seed_cells;
mod seeds;
mod soft_edge;
mod workspace;

#[cfg(test)]
mod tests;

pub use clean_mask::CleanMask;
pub(super) use component_rules::clear_uncertain_parts;
pub(super) use seed_cells::{cell_at, span};
pub use seeds::Seeds;

use super::error::{NoSubject, check_area};
use crate::image::{Frame, RawMask, Size};
use backdrop_kernels::recycled::Recycled;
use backdrop_kernels::trimap::cpu::opened;
use rayon::prelude::*;
use std::borrow::Cow;
use workspace::Workspace;

/// Side of the grid to which lengths in cells refer; on finer grids they grow in proportion.
const REFERENCE_SIDE: f32 = 384.0;
const FINEST_SIDE: usize = 768;

/// Half the width of the widest ridge, in cells, and the minimum height of a ridge above its surroundings.
const RIDGE_RADIUS: f32 = 3.0;
const LEAST_RIDGE: f32 = 0.25;

/// Influence of colours on the labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanParams {
    /// Whether colours may overrule a mask that is certain of subject, near the mask's edge.
    pub decontaminate: bool,
    /// Whether the subject is opaque all over: holes are closed unless they have the background's colours.
    pub opaque: bool,
}

/// The mask of `frame` after labelling, with `seeds` on the side that they mark.
///
/// # Errors
/// [`NoSubject`] when less than a ten-thousandth of the grid is subject.
pub fn clean(frame: &Frame, mask: &RawMask, seeds: &Seeds, params: CleanParams) -> Result<CleanMask, NoSubject> {
    labelled(mask, |workspace| {
        seed_cells::mark(workspace, frame.size(), seeds);
        random_walker::label(workspace, frame, params);
        component_rules::apply(workspace, params.opaque);
    })
}

/// `mask` after labelling by its own values: for an average over a clip's frames, each labelled by its colours before.
///
/// # Errors
/// [`NoSubject`] when less than a ten-thousandth of the grid is subject.
pub fn clean_without_colors(mask: &RawMask) -> Result<CleanMask, NoSubject> {
    labelled(mask, |workspace| {
        workspace.label_by_mask();
        component_rules::apply(workspace, false);
    })
}

fn labelled(mask: &RawMask, label: impl FnOnce(&mut Workspace)) -> Result<CleanMask, NoSubject> {
    let mut workspace = Recycled::<Workspace>::take();
    let [columns, rows] = [mask.size().width as usize, mask.size().height as usize];
    let factor = columns.max(rows).div_ceil(FINEST_SIDE).max(1);
    let coarse = if factor > 1 { Cow::Owned(reduced(mask, factor)) } else { Cow::Borrowed(mask) };
    let grid = coarse.size();
    workspace.load(coarse.values(), grid);
    mark_ridges(&mut workspace);
    label(&mut workspace);
    soft_edge::mark(&mut workspace);
    let width = grid.width as usize;
    let mut values = Recycled::for_overwrite(columns * rows);
    values.par_chunks_mut(columns).zip(mask.values().par_chunks(columns)).enumerate().for_each(|(y, (row, mask))| {
        for (x, (value, &mask)) in row.iter_mut().zip(mask).enumerate() {
            let cell = y / factor * width + x / factor;
            *value = if workspace.soft[cell] { mask } else { f32::from(u8::from(workspace.labels[cell])) };
        }
    });
    let subject = workspace.labels.iter().filter(|&&label| label).count();
    drop(workspace);
    check_area(subject, grid.area())?;
    Ok(CleanMask::new(mask.size(), values))
}

/// Marks ridges, such as legs of chairs and laces: cells of subject that an opening of the mask by a disc lowers.
fn mark_ridges(workspace: &mut Workspace) {
    let grid = (workspace.grid.width as usize, workspace.grid.height as usize);
    let opened = opened(&workspace.mask, grid, RIDGE_RADIUS * workspace.unit());
    let cells = workspace.ridge.iter_mut().zip(&workspace.mask).zip(&*opened);
    cells.for_each(|((ridge, &mask), opened)| *ridge = mask >= 0.5 && mask - opened >= LEAST_RIDGE);
}

fn reduced(mask: &RawMask, factor: usize) -> RawMask {
    let [columns, rows] = [mask.size().width as usize, mask.size().height as usize];
    let [width, height] = [columns.div_ceil(factor), rows.div_ceil(factor)];
    let mean = |at: usize| {
        let [left, top] = [at % width * factor, at / width * factor];
        let [right, bottom] = [(left + factor).min(columns), (top + factor).min(rows)];
        let sum: f32 =
            (top..bottom).map(|y| mask.values()[y * columns + left..y * columns + right].iter().sum::<f32>()).sum();
        sum / ((right - left) * (bottom - top)) as f32
    };
    let mut values = Recycled::for_overwrite(width * height);
    values.par_iter_mut().enumerate().for_each(|(at, value)| *value = mean(at));
    RawMask::new(Size::new(width as u32, height as u32), values).expect("means of probabilities")
}
