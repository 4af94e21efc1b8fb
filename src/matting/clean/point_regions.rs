//! From points to the parts and colour regions that hold them.
//!
//! - A subject point on a part of the mask selects it: parts without a point become background.
//! - A subject point beside the mask adds the colour region around it.
//! - A background point on one of several parts removes the part, on a part that is the only one, or that holds a subject point too,
//!   the colour region around it.
//!
//! A colour region is grown from its point over neighbours of similar colour (seeded region growing: Adams and Bischof, PAMI 1994); a
//! colour that is more like that of a point of the other kind stops it.

use super::cell_colors::{difference, sample};
use super::workspace::Workspace;
use crate::image::Frame;
use crate::matting::connected_components::neighbours;

/// How far the colours of a region may be from the point's, and from one cell to the next, in steps of 255: beyond grain and soft
/// shading, within the tolerance that image editors preset (32 for each channel).
const TOLERANCE: f32 = 50.0;
const STEP: f32 = 30.0;

/// Marks the cells that the points at the cells `subject` and `background` decide.
pub(super) fn mark(workspace: &mut Workspace, frame: &Frame, subject: &[usize], background: &[usize]) {
    sample(frame, workspace.grid, |_| true, &mut workspace.colors);
    let columns = workspace.columns();
    let parts: Vec<bool> = workspace.mask.iter().map(|&mask| mask >= 0.5).collect();
    workspace.components.find(&parts, columns, |part| part);
    let mut part_of = vec![usize::MAX; parts.len()];
    workspace.components.runs().for_each(|(run, part)| part_of[run].fill(part));
    let count = workspace.components.count();
    let holding = |points: &[usize]| {
        let mut holds = vec![false; count];
        points.iter().filter(|&&at| parts[at]).for_each(|&at| holds[part_of[at]] = true);
        holds
    };
    let (selected, rejected) = (holding(subject), holding(background));
    let is_selection = selected.contains(&true);
    let removed: Vec<bool> =
        (0..count).map(|part| !selected[part] && (is_selection || rejected[part] && count > 1)).collect();
    for at in (0..parts.len()).filter(|&at| parts[at] && removed[part_of[at]]) {
        // A stroke is more exact than a point.
        if !workspace.marked[at] {
            workspace.fix(at, false);
        }
    }
    for (points, others, label) in [(subject, background, true), (background, subject, false)] {
        for &point in points {
            if parts[point] != label && !(parts[point] && removed[part_of[point]]) {
                grow(workspace, point, others, label, |at| parts[at] != label);
            }
        }
    }
}

/// Marks the colour region around the cell `point`, among the cells that are `eligible`.
fn grow(workspace: &mut Workspace, point: usize, others: &[usize], label: bool, eligible: impl Fn(usize) -> bool) {
    let (columns, cells) = (workspace.columns(), workspace.mask.len());
    let center = workspace.colors[point];
    let others: Vec<[u8; 3]> = others.iter().map(|&other| workspace.colors[other]).collect();
    let mut reached = vec![false; cells];
    reached[point] = true;
    let mut front = vec![point];
    while let Some(at) = front.pop() {
        workspace.fix(at, label);
        for beside in neighbours(columns, cells, at) {
            let color = workspace.colors[beside];
            let apart = difference(color, center);
            let is_alike = apart < TOLERANCE * TOLERANCE
                && difference(color, workspace.colors[at]) < STEP * STEP
                && others.iter().all(|&other| difference(color, other) >= apart);
            if !reached[beside] && is_alike && eligible(beside) && !workspace.marked[beside] {
                reached[beside] = true;
                front.push(beside);
            }
        }
    }
}
