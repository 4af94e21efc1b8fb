//! Marks the cells that keep the mask's value: those of the edge between the labels.
//!
//! They are reached from a change of the label through cells of which the mask is uncertain: where these are a thin region, as strands
//! of hair are, at any distance, and elsewhere within [`REACH_CELLS`] steps. So the ramp of an edge and the strands that leave it stay
//! for matting, and haze, dents and the fringes of what was relabelled do not. A cell that was relabelled
//! is among them only where the relabelled region is no more than two cells wide: the edge passes through such cells, their mean
//! colours are mixtures that neither side has, and matting sees the pixels in them. Wider ones (opening by a cell and
//! its four neighbours keeps them) have colours of their own.

use super::random_walker::UNCERTAIN;
use super::workspace::Workspace;
use crate::matting::chamfer::{STRAIGHT, chamfer};
use crate::matting::connected_components::neighbours;

/// How far a ramp reaches from the edge into a wide uncertain region, in cells.
const REACH_CELLS: f32 = 3.0;
/// A region is wide where a disc of this radius fits into it, in cells.
const WIDE_RADIUS: f32 = 4.0;

/// Marks them in `workspace.soft`.
pub(super) fn mark(workspace: &mut Workspace) {
    let (columns, unit) = (workspace.columns(), workspace.unit());
    let steps = (REACH_CELLS * unit).round() as usize;
    let Workspace { mask, marked, labels, soft, front, distance, .. } = workspace;
    let cells = labels.len();
    let is_relabelled = |at: usize| labels[at] != (mask[at] >= 0.5);
    let is_inside = |at: usize| is_relabelled(at) && neighbours(columns, cells, at).all(is_relabelled);
    let is_wide = |at: usize| is_inside(at) || neighbours(columns, cells, at).any(is_inside);
    let keeps = |at: usize| !marked[at] && (!is_relabelled(at) || UNCERTAIN.contains(&mask[at]) && !is_wide(at));
    let radius = (WIDE_RADIUS * unit * f32::from(STRAIGHT)) as u16;
    distance_to_wide(mask, columns, radius, distance);
    let is_thin = |at: usize| distance[at] > radius;
    front.clear();
    for at in 0..cells {
        let right = ((at + 1) % columns != 0).then_some(at + 1);
        let below = Some(at + columns).filter(|&below| below < cells);
        for other in [right, below].into_iter().flatten().filter(|&other| labels[at] != labels[other]) {
            for edge in [at, other] {
                if !soft[edge] && keeps(edge) {
                    soft[edge] = true;
                    front.push(edge as u32);
                }
            }
        }
    }
    // Cells of thin regions join the step that they are reached in, others the next one.
    let mut ahead = Vec::new();
    for step in 0..=steps {
        let mut next = 0;
        while let Some(&at) = front.get(next) {
            next += 1;
            for beside in neighbours(columns, cells, at as usize) {
                if soft[beside] || !UNCERTAIN.contains(&mask[beside]) || !keeps(beside) {
                    continue;
                }
                if is_thin(beside) {
                    soft[beside] = true;
                    front.push(beside as u32);
                } else if step < steps {
                    soft[beside] = true;
                    ahead.push(beside as u32);
                }
            }
        }
        std::mem::swap(front, &mut ahead);
        ahead.clear();
    }
}

/// Distance of each cell to those around which a disc of `radius` is uncertain all over, in the chamfer's thirds of a cell: up to `radius`
/// it is in the opening of the uncertain cells by the disc.
fn distance_to_wide(mask: &[f32], columns: usize, radius: u16, distance: &mut Vec<u16>) {
    distance.clear();
    distance.extend(mask.iter().map(|mask| if UNCERTAIN.contains(mask) { u16::MAX } else { 0 }));
    chamfer(distance, columns);
    if distance.iter().all(|&depth| depth <= radius) {
        distance.fill(u16::MAX);
        return;
    }
    distance.iter_mut().for_each(|depth| *depth = if *depth > radius { 0 } else { u16::MAX });
    chamfer(distance, columns);
}
