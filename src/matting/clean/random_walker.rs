//! Labels the uncertain cells of a mask by a random walker, with colour likelihoods.

use super::CleanParams;
use super::cell_colors::sample;
use super::color_histograms::STEP;
use super::component_rules;
use super::linear_system::{Evidence, LEAST};
use super::workspace::Workspace;
use crate::image::Frame;
use crate::matting::chamfer::{STRAIGHT, chamfer};
use backdrop_kernels::recycled::Recycled;

/// Probabilities of an uncertain cell. Other cells are fixed.
pub(super) const UNCERTAIN: std::ops::Range<f32> = 0.05..0.95;
/// Minimum certainty of a histogram's samples.
const SAMPLE: f32 = 0.98;
/// Limit of a log likelihood ratio: no colour overrules a certain mask. Doubled near the edge with `decontaminate`.
const MOST_LIKELIHOOD: f32 = 3.0;
/// Distance from the mask's edge that `decontaminate` reaches, as a share of the longer side.
const REACH: f32 = 0.04;

pub(super) fn label(workspace: &mut Workspace, frame: &Frame, params: CleanParams) {
    workspace.label_by_mask();
    let Workspace { mask, marked, ridge, open, .. } = workspace;
    for (((&mask, &marked), &ridge), open) in mask.iter().zip(&*marked).zip(&*ridge).zip(open) {
        *open = !marked && !ridge && UNCERTAIN.contains(&mask);
    }
    if params.decontaminate {
        open_near_edge(workspace);
    }
    weigh_colors(workspace, frame);
    let most = if params.decontaminate { 2.0 * MOST_LIKELIHOOD } else { MOST_LIKELIHOOD };
    if params.decontaminate {
        close_where_colors_agree(workspace, most);
    }
    let (grid, columns, unit) = (workspace.grid, workspace.columns(), workspace.unit());
    let Workspace { mask, open, labels, colors, likelihood, system, .. } = workspace;
    system.build(Evidence { mask, open, labels, colors, likelihood, most_likelihood: most }, grid, unit);
    system.solve(columns);
    system.read(columns, labels);
}

/// Opens also cells of certain subject near the mask's edge.
fn open_near_edge(workspace: &mut Workspace) {
    let columns = workspace.columns();
    let depth = workspace.mask.iter().map(|&mask| if mask < 0.5 { 0 } else { u16::MAX });
    let mut depth = Recycled::collected(depth);
    chamfer(&mut depth, columns);
    let reach = (REACH * workspace.grid.longest() as f32 * f32::from(STRAIGHT)) as u16;
    for ((open, depth), marked) in workspace.open.iter_mut().zip(&*depth).zip(&workspace.marked) {
        *open |= !marked && *depth > 0 && *depth <= reach;
    }
}

/// Closes cells that mask and colours together make certain subject: the walker would only wear off the edge there.
fn close_where_colors_agree(workspace: &mut Workspace, most: f32) {
    let certain = (UNCERTAIN.end / (1.0 - UNCERTAIN.end)).ln();
    let Workspace { mask, open, likelihood, .. } = workspace;
    for ((open, &mask), &likelihood) in open.iter_mut().zip(&*mask).zip(&*likelihood) {
        let of_mask = mask.clamp(LEAST, 1.0 - LEAST);
        let log_odds = (of_mask / (1.0 - of_mask)).ln() + likelihood.clamp(-most, most);
        *open &= mask < UNCERTAIN.end || log_odds < certain;
    }
}

/// The colours of the open cells, of their neighbours, of holes and of the samples, and the likelihoods of open cells and holes.
fn weigh_colors(workspace: &mut Workspace, frame: &Frame) {
    let (grid, columns) = (workspace.grid, workspace.columns());
    // Whether a hole is background must not depend on its own colours.
    let in_hole = component_rules::holes(workspace);
    let Workspace { mask, open, colors, likelihood, histograms, .. } = workspace;
    let cells = open.len();
    let is_sample = |at: usize| (at / columns).is_multiple_of(STEP) && (at % columns).is_multiple_of(STEP);
    let is_weighed = |at: usize| open[at] || in_hole[at];
    let beside_open = |at: usize| {
        at >= 1 && open[at - 1]
            || at + 1 < cells && open[at + 1]
            || at >= columns && open[at - columns]
            || at + columns < cells && open[at + columns]
    };
    sample(frame, grid, |at| is_sample(at) || is_weighed(at) || beside_open(at), colors);
    let certain = |at: usize| match mask[at] {
        mask if mask >= SAMPLE => Some(true),
        mask if mask <= 1.0 - SAMPLE && !in_hole[at] => Some(false),
        _ => None,
    };
    if histograms.fit(colors, grid, certain) {
        for at in (0..cells).filter(|&at| is_weighed(at)) {
            likelihood[at] = histograms.log_ratio(colors[at]);
        }
    }
}
