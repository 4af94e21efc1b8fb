//! Marks the cells that keep the mask's value: those of the edge between the labels.
//!
//! They are reached from a change of the label within [`REACH_CELLS`] steps through cells of which the mask is uncertain. So the
//! ramp of an edge stays for matting, and haze, dents and the fringes of what was relabelled do not. A cell that was relabelled
//! is among them only where the relabelled region is no more than two cells wide: the edge passes through such cells, their mean
//! colours are mixtures that neither side has, and matting sees the pixels in them. Wider ones (opening by a cell and
//! its four neighbours keeps them) have colours of their own.

use super::random_walker::UNCERTAIN;
use super::workspace::Workspace;
use crate::matting::connected_components::neighbours;

/// How far a ramp reaches from the edge, in cells.
const REACH_CELLS: f32 = 3.0;

/// Marks them in `workspace.soft`.
pub(super) fn mark(workspace: &mut Workspace) {
    let (columns, steps) = (workspace.columns(), (REACH_CELLS * workspace.unit()).round() as usize);
    let Workspace { mask, marked, labels, soft, front, .. } = workspace;
    let cells = labels.len();
    let is_relabelled = |at: usize| labels[at] != (mask[at] >= 0.5);
    let is_inside = |at: usize| is_relabelled(at) && neighbours(columns, cells, at).all(is_relabelled);
    let is_wide = |at: usize| is_inside(at) || neighbours(columns, cells, at).any(is_inside);
    let keeps = |at: usize| !marked[at] && (!is_relabelled(at) || UNCERTAIN.contains(&mask[at]) && !is_wide(at));
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
    let mut done = 0;
    for _ in 0..steps {
        let reached = front.len();
        for next in done..reached {
            let at = front[next] as usize;
            for beside in neighbours(columns, cells, at) {
                if !soft[beside] && UNCERTAIN.contains(&mask[beside]) && keeps(beside) {
                    soft[beside] = true;
                    front.push(beside as u32);
                }
            }
        }
        done = reached;
    }
}
