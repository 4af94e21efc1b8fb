//! Consistency of the optical flow with the flow in the other direction, for each cell, on a grid of half the size.
//!
//! A cell whose path to the previous frame and back does not end near the cell has no counterpart there (it was
//! covered), or one of the flows is wrong, even if the colours match. The threshold is from Sundaram, Brox and Keutzer,
//! "Dense Point Trajectories by GPU-Accelerated Large Displacement Optical Flow", ECCV 2010.

use super::optical_flow::Flow;
use multiversion::multiversion;
use rayon::prelude::*;

/// The squared distance, in cells of the half grid, up to which a path back is consistent: this share of the squares of
/// both flows, plus this constant.
const SHARE: f32 = 0.01;
const OFFSET: f32 = 0.5;
/// Cells per task.
const TASK: usize = 4096;

/// Reduces the confidence of `flow`, which leads to the previous frame, by comparison with `ahead`, the previous
/// frame's flow to this frame on half the grid. Up to the threshold the confidence is unchanged; from double the
/// threshold on it is zero.
pub(super) fn reduce_by_inconsistency(confidence: &mut [f32], flow: &Flow, ahead: &Flow) {
    confidence.par_chunks_mut(TASK).enumerate().for_each(|(task, cells)| {
        reduce_cells(flow, ahead, task * TASK, cells);
    });
}

/// Reduces the confidence of the cells from `first` on.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn reduce_cells(flow: &Flow, ahead: &Flow, first: usize, cells: &mut [f32]) {
    for (at, confidence) in (first..).zip(cells) {
        let (x, y) = flow.previous_position(at);
        let there = [flow.right[at] / 2.0, flow.down[at] / 2.0];
        let back = ahead.at((x + 0.5) / 2.0 - 0.5, (y + 0.5) / 2.0 - 0.5);
        let square = |[right, down]: [f32; 2]| right * right + down * down;
        let distance = square([there[0] + back[0], there[1] + back[1]]);
        let threshold = SHARE * (square(there) + square(back)) + OFFSET;
        *confidence *= (2.0 - distance / threshold).clamp(0.0, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One motion for all cells, on the grid or on half of it.
    fn uniform(size: [usize; 2], right: f32, down: f32) -> Flow {
        let cells = size[0] * size[1];
        Flow { size, right: vec![right; cells], down: vec![down; cells] }
    }

    fn reduced(flow: [f32; 2], ahead: &Flow) -> Vec<f32> {
        let mut confidence = vec![0.8; 84];
        reduce_by_inconsistency(&mut confidence, &uniform([12, 7], flow[0], flow[1]), ahead);
        confidence
    }

    #[test]
    fn a_path_that_leads_back_keeps_its_confidence_and_longer_paths_may_deviate_more() {
        assert_eq!(reduced([2.0, -1.0], &uniform([6, 4], -1.0, 0.5)), [0.8; 84]);
        assert_eq!(reduced([4.0, 0.0], &uniform([6, 4], 0.0, 0.0)), [0.0; 84]);
        let off = |motion: f32| reduced([motion, 0.0], &uniform([6, 4], 0.9 - motion / 2.0, 0.0))[40];
        assert!(0.0 < off(0.0) && off(0.0) < off(18.0), "{} {}", off(0.0), off(18.0));
    }

    #[test]
    fn only_cells_whose_counterpart_moved_elsewhere_lose_confidence() {
        // The left half of the previous frame moved four cells to the right; the right half stood still.
        let mut ahead = uniform([6, 4], 0.0, 0.0);
        for at in (0..24).filter(|at| at % 6 < 3) {
            ahead.right[at] = 2.0;
        }
        let confidence = reduced([0.0, 0.0], &ahead);
        assert_eq!(confidence[2], 0.0, "its place in the previous frame was another's");
        assert_eq!(confidence[9], 0.8, "it stood still");
    }
}
