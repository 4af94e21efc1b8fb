//! Marks the cells that keep the mask's value for matting: the edge between the labels.
//!
//! They are reached from a change of the label through uncertain cells: at any distance through a thin uncertain
//! region, such as strands of hair, elsewhere within [`REACH_CELLS`] steps. So edges' ramps and strands are kept for
//! matting; haze, dents and fringes of relabelled regions are not. A relabelled cell is kept only in a region at most
//! two cells wide: the edge passes through such cells, their mean colours are mixtures that neither histogram holds,
//! and matting sees their pixels. Wider relabelled regions (kept by an opening with a cell and its four neighbours)
//! have unmixed colours.

use super::random_walker::UNCERTAIN;
use super::workspace::Workspace;
use crate::matting::chamfer::{STRAIGHT, chamfer};
use crate::matting::connected_components::neighbours;

/// Steps from the edge into a wide uncertain region, in cells.
const REACH_CELLS: f32 = 3.0;
/// Radius in cells of the disc that fits into a wide region.
const WIDE_RADIUS: f32 = 4.0;

/// Sets `workspace.soft`.
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
    // Cells of thin regions are visited in the current step, others in the next.
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

/// Distance of each cell to the nearest centre of an entirely uncertain disc of `radius`, in the chamfer's thirds of a
/// cell. Up to `radius` the cell is in the opening of the uncertain cells by the disc.
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
