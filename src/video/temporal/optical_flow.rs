//! Dense sub-pixel optical flow between two frames, by inverse search over patches.
//!
//! Kroeger, Timofte, Dai and Van Gool, "Fast Optical Flow using Dense Inverse Search", ECCV 2016, coarse to fine,
//! without the variational refinement. Patches of 8×8 cells every 4 cells start from the best of three motions: the
//! coarser level's flow at the patch, around it, and zero. Each takes a few Gauss-Newton steps. A cell's flow is the
//! mean of the patches over it, weighted by how well they explain the cell. A patch's mean brightness is subtracted, so
//! that a change of exposure is not motion. Patches and cells are independent, so results do not depend on threads.

use backdrop_kernels::interpolation::Plane;
use multiversion::multiversion;
use rayon::prelude::*;
use std::ops::Range;

/// Side of a patch in cells, and distance of adjacent patches.
const PATCH: usize = 8;
const STRIDE: usize = 4;
/// Replicated cells around a level, which patches may overlap.
const PAD: usize = 16;
/// Smallest side of the coarsest level.
const COARSEST: usize = 20;
/// Gauss-Newton steps for each patch.
const STEPS: usize = 6;
/// Step size, in cells, below which iteration stops.
const CONVERGED: f32 = 0.01;
/// Regularisation of the structure tensor, in squared steps of brightness: flat patches keep their initial motion.
const DAMPING: f32 = 40.0;
/// Brightness difference of noise, added to the residual in a patch's weight.
const NOISE: f32 = 2.0;

/// Offset of each cell to its position in the previous frame, in cells, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flow {
    /// Columns and rows.
    pub(super) size: [usize; 2],
    /// To the right.
    pub(super) right: Vec<f32>,
    /// Down.
    pub(super) down: Vec<f32>,
}

impl Flow {
    fn still(size: [usize; 2]) -> Self {
        let none = vec![0.0; size[0] * size[1]];
        Self { size, right: none.clone(), down: none }
    }

    /// The flow from `after` back to `before`, brightness 0 to 255 on a grid of `size`.
    pub(super) fn between(before: &[f32], after: &[f32], size: [usize; 2]) -> Self {
        let mut levels = vec![(Padded::new(before, size), PyramidLevel::new(after.to_vec(), size))];
        let mut planes = (before.to_vec(), after.to_vec(), size);
        while planes.2[0].min(planes.2[1]) >= 2 * COARSEST {
            let (before, half) = halved(&planes.0, planes.2);
            let (after, _) = halved(&planes.1, planes.2);
            levels.push((Padded::new(&before, half), PyramidLevel::new(after.clone(), half)));
            planes = (before, after, half);
        }
        let mut coarser = Self::still(planes.2);
        let last = levels.len() - 1;
        for (index, (before, after)) in levels.iter().enumerate().rev() {
            let scale = if index == last { 1.0 } else { 2.0 };
            let patches = after.search(before, &coarser, scale);
            coarser = after.densify(before, &patches);
        }
        coarser
    }

    /// The flow on a grid of half the size, in cells of that grid: a quarter of the work.
    pub(super) fn between_halves(before: &[f32], after: &[f32], size: [usize; 2]) -> Self {
        let [(before, half), (after, _)] = [before, after].map(|plane| halved(plane, size));
        Self::between(&before, &after, half)
    }

    /// Position in the previous frame of the cell with row-major index `at`.
    #[inline(always)]
    pub(super) fn previous_position(&self, at: usize) -> (f32, f32) {
        let [width, _] = self.size;
        ((at % width) as f32 + self.right[at], (at / width) as f32 + self.down[at])
    }

    /// The flow at a position between cells.
    #[inline(always)]
    pub(super) fn at(&self, x: f32, y: f32) -> [f32; 2] {
        [&self.right, &self.down].map(|values| Plane { values, size: self.size }.linear(x, y))
    }
}

/// A plane of half the size, each cell the mean of four; at an odd border the last cells count twice.
fn halved(plane: &[f32], [width, height]: [usize; 2]) -> (Vec<f32>, [usize; 2]) {
    let half = [width.div_ceil(2), height.div_ceil(2)];
    let mut values = Vec::with_capacity(half[0] * half[1]);
    for y in 0..half[1] {
        let rows = [2 * y, (2 * y + 1).min(height - 1)].map(|row| &plane[row * width..][..width]);
        values.extend((0..half[0]).map(|x| {
            let (left, right) = (2 * x, (2 * x + 1).min(width - 1));
            (rows[0][left] + rows[0][right] + rows[1][left] + rows[1][right]) / 4.0
        }));
    }
    (values, half)
}

/// A pyramid level of the previous frame, its border replicated by [`PAD`] cells.
struct Padded {
    values: Vec<f32>,
    stride: usize,
    size: [usize; 2],
}

impl Padded {
    fn new(plane: &[f32], size: [usize; 2]) -> Self {
        let [width, height] = size;
        let stride = width + 2 * PAD;
        let mut values = Vec::with_capacity(stride * (height + 2 * PAD));
        for y in 0..height + 2 * PAD {
            let row = &plane[y.saturating_sub(PAD).min(height - 1) * width..][..width];
            values.extend_from_slice(&[row[0]; PAD]);
            values.extend_from_slice(row);
            values.extend_from_slice(&[row[width - 1]; PAD]);
        }
        Self { values, stride, size }
    }

    /// First cell in the padded plane, and fractional offset, of a window of `extent` cells at the position (`x`, `y`).
    #[inline(always)]
    fn window_start(&self, [x, y]: [f32; 2], extent: [usize; 2]) -> (usize, [f32; 2]) {
        let place = |value: f32, cells: usize, extent: usize| {
            // Leaves one cell for the second of each interpolated pair.
            let value = (value + PAD as f32).clamp(0.0, (cells + 2 * PAD - extent - 1) as f32 - 0.001);
            (value as usize, value.fract())
        };
        let (column, along) = place(x, self.size[0], extent[0]);
        let (row, down) = place(y, self.size[1], extent[1]);
        (row * self.stride + column, [along, down])
    }

    #[inline(always)]
    fn at(&self, place: [f32; 2]) -> f32 {
        let (first, [along, down]) = self.window_start(place, [1, 1]);
        let mix = |at: usize| self.values[at] + along * (self.values[at + 1] - self.values[at]);
        let (above, below) = (mix(first), mix(first + self.stride));
        above + down * (below - above)
    }
}

/// A pyramid level of the current frame, with its gradients.
struct PyramidLevel {
    size: [usize; 2],
    /// Cells of a patch: fewer than [`PATCH`] if the level is smaller.
    extent: [usize; 2],
    values: Vec<f32>,
    across: Vec<f32>,
    downwards: Vec<f32>,
}

/// The cells of a patch, in rows of [`PATCH`]; unused ones are zero.
type Cells = [[f32; PATCH]; PATCH];

impl PyramidLevel {
    fn new(values: Vec<f32>, size: [usize; 2]) -> Self {
        let [width, height] = size;
        let (mut across, mut downwards) = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
        let row = |y: usize| &values[y * width..][..width];
        for y in 0..height {
            let here = row(y);
            across.extend((0..width).map(|x| (here[(x + 1).min(width - 1)] - here[x.saturating_sub(1)]) / 2.0));
            let (above, below) = (row(y.saturating_sub(1)), row((y + 1).min(height - 1)));
            downwards.extend(below.iter().zip(above).map(|(below, above)| (below - above) / 2.0));
        }
        Self { size, extent: size.map(|side| side.min(PATCH)), values, across, downwards }
    }

    /// Number of patches along each side.
    fn counts(&self) -> [usize; 2] {
        [0, 1].map(|side| (self.size[side] - self.extent[side]).div_ceil(STRIDE) + 1)
    }

    /// The first cell of a patch along a side.
    fn start(&self, side: usize, patch: usize) -> usize {
        (patch * STRIDE).min(self.size[side] - self.extent[side])
    }

    #[inline(always)]
    fn cells(&self, plane: &[f32], [left, top]: [usize; 2]) -> Cells {
        let mut cells = [[0.0; PATCH]; PATCH];
        for (y, row) in cells.iter_mut().take(self.extent[1]).enumerate() {
            row[..self.extent[0]].copy_from_slice(&plane[(top + y) * self.size[0] + left..][..self.extent[0]]);
        }
        cells
    }

    /// The motion of every patch, row-major.
    fn search(&self, before: &Padded, coarser: &Flow, scale: f32) -> Vec<[f32; 2]> {
        const TASK: usize = 64;
        let [columns, rows] = self.counts();
        let mut motions = vec![[0.0; 2]; columns * rows];
        motions.par_chunks_mut(TASK).enumerate().for_each(|(task, motions)| {
            refine_patches(self, before, coarser, scale, task * TASK, motions);
        });
        motions
    }

    /// The motion of the patch at `origin`.
    #[inline(always)]
    fn refine_patch(&self, before: &Padded, origin: [usize; 2], coarser: &Flow, scale: f32) -> [f32; 2] {
        let patch = Patch::new(self, origin);
        let middle = [0, 1].map(|side| origin[side] as f32 + (self.extent[side] - 1) as f32 / 2.0);
        let around = PATCH as f32;
        let mut best = ([0.0; 2], patch.misfit(before, [0.0; 2]).0);
        for [right, down] in [[0.0, 0.0], [-around, 0.0], [around, 0.0], [0.0, -around], [0.0, around]] {
            let place = [middle[0] + right, middle[1] + down].map(|value| (value + 0.5) / scale - 0.5);
            let candidate = coarser.at(place[0], place[1]).map(|value| value * scale);
            let misfit = patch.misfit(before, candidate).0;
            if misfit < best.1 {
                best = (candidate, misfit);
            }
        }
        let start = best.0;
        let mut motion = start;
        for _ in 0..STEPS {
            let (misfit, step) = patch.misfit(before, motion);
            if misfit < best.1 {
                best = (motion, misfit);
            }
            motion = [motion[0] - step[0], motion[1] - step[1]];
            let diverged = (0..2).any(|side| (motion[side] - start[side]).abs() > PATCH as f32);
            if diverged || step[0].abs().max(step[1].abs()) < CONVERGED {
                break;
            }
        }
        if patch.misfit(before, motion).0 < best.1 { motion } else { best.0 }
    }

    /// Densification: the motion of every cell from the patches over it.
    fn densify(&self, before: &Padded, patches: &[[f32; 2]]) -> Flow {
        let [width, height] = self.size;
        let mut flow = Flow::still(self.size);
        let motions = Densified { level: self, before, patches, over: [0, 1].map(|side| self.patches_over(side)) };
        let rows = flow.right.par_chunks_mut(width).zip(flow.down.par_chunks_mut(width)).enumerate();
        rows.for_each(|(y, (right, down))| densify_row(&motions, y, right, down));
        debug_assert_eq!(flow.right.len(), width * height);
        flow
    }

    /// For each cell along a side, the patches over it.
    fn patches_over(&self, side: usize) -> Vec<Range<usize>> {
        let count = self.counts()[side];
        let over = |cell: usize| {
            let covers = |patch: &usize| {
                (self.start(side, *patch)..self.start(side, *patch) + self.extent[side]).contains(&cell)
            };
            // Only a few patches can cover a cell.
            let near = (cell / STRIDE).saturating_sub(PATCH / STRIDE)..(cell / STRIDE + 2).min(count);
            let first = near.clone().find(covers).unwrap_or(count - 1);
            let last = near.rev().find(covers).unwrap_or(count - 1);
            first..last + 1
        };
        (0..self.size[side]).map(over).collect()
    }
}

/// Computes the motions of a level's patches from `first` on.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn refine_patches(
    level: &PyramidLevel,
    before: &Padded,
    coarser: &Flow,
    scale: f32,
    first: usize,
    motions: &mut [[f32; 2]],
) {
    let [columns, _] = level.counts();
    for (patch, motion) in (first..).zip(motions) {
        let origin = [level.start(0, patch % columns), level.start(1, patch / columns)];
        *motion = level.refine_patch(before, origin, coarser, scale);
    }
}

struct Densified<'a> {
    level: &'a PyramidLevel,
    before: &'a Padded,
    /// The motion of each patch.
    patches: &'a [[f32; 2]],
    /// For each column and each row, the patches over it.
    over: [Vec<Range<usize>>; 2],
}

/// Computes the motion of the cells of row `y`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn densify_row(motions: &Densified<'_>, y: usize, right: &mut [f32], down: &mut [f32]) {
    let Densified { level, before, patches, over } = motions;
    let [columns, _] = level.counts();
    for (x, (right, down)) in right.iter_mut().zip(down).enumerate() {
        let value = level.values[y * level.size[0] + x];
        let mut sums = [0.0; 3];
        for row in over[1][y].clone() {
            for column in over[0][x].clone() {
                let motion = patches[row * columns + column];
                let there = before.at([x as f32 + motion[0], y as f32 + motion[1]]);
                let misfit = (there - value).abs() + NOISE;
                let weight = 1.0 / (misfit * misfit);
                sums = [sums[0] + weight * motion[0], sums[1] + weight * motion[1], sums[2] + weight];
            }
        }
        (*right, *down) = (sums[0] / sums[2], sums[1] / sums[2]);
    }
}

struct Patch {
    origin: [f32; 2],
    extent: [usize; 2],
    values: Cells,
    across: Cells,
    downwards: Cells,
    mean: [f32; 2],
    /// Inverse of the structure tensor: xx, xy, yy.
    inverse: [f32; 3],
}

impl Patch {
    #[inline(always)]
    fn new(level: &PyramidLevel, origin: [usize; 2]) -> Self {
        let values = level.cells(&level.values, origin);
        let (across, downwards) = (level.cells(&level.across, origin), level.cells(&level.downwards, origin));
        let count = (level.extent[0] * level.extent[1]) as f32;
        let sum = |a: &Cells, b: Option<&Cells>| -> f32 {
            let row = |y: usize| (0..PATCH).map(|x| a[y][x] * b.map_or(1.0, |b| b[y][x])).sum::<f32>();
            (0..PATCH).map(row).sum()
        };
        let mean = [sum(&across, None) / count, sum(&downwards, None) / count];
        let xx = sum(&across, Some(&across)) - count * mean[0] * mean[0] + DAMPING;
        let xy = sum(&across, Some(&downwards)) - count * mean[0] * mean[1];
        let yy = sum(&downwards, Some(&downwards)) - count * mean[1] * mean[1] + DAMPING;
        let determinant = xx * yy - xy * xy;
        let inverse = [yy / determinant, -xy / determinant, xx / determinant];
        Self { origin: origin.map(|at| at as f32), extent: level.extent, values, across, downwards, mean, inverse }
    }

    /// Mean-free sum of squared differences to the previous frame at offset `motion`, and the Gauss-Newton step.
    #[inline(always)]
    fn misfit(&self, before: &Padded, motion: [f32; 2]) -> (f32, [f32; 2]) {
        let place = [self.origin[0] + motion[0], self.origin[1] + motion[1]];
        let (first, [along, down]) = before.window_start(place, self.extent);
        let [width, height] = self.extent;
        // Sums of the difference, its square, and its product with each gradient; one SIMD lane per column.
        let (mut sums, mut squares) = ([0.0_f32; PATCH], [0.0_f32; PATCH]);
        let (mut across, mut downwards) = ([0.0_f32; PATCH], [0.0_f32; PATCH]);
        let weights = [(1.0 - along) * (1.0 - down), along * (1.0 - down), (1.0 - along) * down, along * down];
        for y in 0..height {
            let above = &before.values[first + y * before.stride..][..width + 1];
            let below = &before.values[first + (y + 1) * before.stride..][..width + 1];
            let mut difference = [0.0; PATCH];
            // Constant bounds for whole patches, so that the loop is vectorised.
            if let (Some(above), Some(below)) =
                (above.first_chunk::<{ PATCH + 1 }>(), below.first_chunk::<{ PATCH + 1 }>())
            {
                for x in 0..PATCH {
                    difference[x] = weights[0] * above[x]
                        + weights[1] * above[x + 1]
                        + weights[2] * below[x]
                        + weights[3] * below[x + 1]
                        - self.values[y][x];
                }
            } else {
                for x in 0..width {
                    difference[x] = weights[0] * above[x]
                        + weights[1] * above[x + 1]
                        + weights[2] * below[x]
                        + weights[3] * below[x + 1]
                        - self.values[y][x];
                }
            }
            for x in 0..PATCH {
                sums[x] += difference[x];
                squares[x] += difference[x] * difference[x];
                across[x] += difference[x] * self.across[y][x];
                downwards[x] += difference[x] * self.downwards[y][x];
            }
        }
        let total = |lanes: [f32; PATCH]| lanes.iter().sum::<f32>();
        let sum = total(sums);
        let pull = [total(across) - sum * self.mean[0], total(downwards) - sum * self.mean[1]];
        let [xx, xy, yy] = self.inverse;
        let step = [xx * pull[0] + xy * pull[1], xy * pull[0] + yy * pull[1]];
        (total(squares) - sum * sum / (width * height) as f32, step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A smooth pattern with detail at all scales.
    fn scene(x: f32, y: f32) -> f32 {
        120.0
            + 40.0 * (x * 0.21 + 0.1 * y).sin()
            + 30.0 * (y * 0.33 - 0.05 * x).cos()
            + 20.0 * (x * 0.9).sin() * (y * 0.8).cos()
    }

    fn plane([width, height]: [usize; 2], at: impl Fn(f32, f32) -> f32) -> Vec<f32> {
        (0..height).flat_map(|y| (0..width).map(move |x| (x as f32, y as f32))).map(|(x, y)| at(x, y)).collect()
    }

    #[test]
    fn flow_is_accurate_to_a_fraction_of_a_cell_at_any_exposure() {
        let size = [96, 80];
        for (right, down) in [(0.0, 0.0), (0.37, -0.61), (3.3, 1.7), (-7.2, 4.5)] {
            let before = plane(size, scene);
            // The point now at x was at x + motion.
            let after = plane(size, |x, y| 1.03 * scene(x + right, y + down) + 4.0);
            let flow = Flow::between(&before, &after, size);
            let mut worst = 0.0_f32;
            for y in 16..64 {
                for x in 16..80 {
                    let at = y * size[0] + x;
                    worst = worst.max((flow.right[at] - right).abs()).max((flow.down[at] - down).abs());
                }
            }
            assert!(worst < 0.15, "{right}, {down}: off by {worst}");
        }
    }

    #[test]
    fn two_motions_are_separated() {
        let size = [96, 96];
        let inside = |x: f32, y: f32| (30.0..66.0).contains(&x) && (30.0..66.0).contains(&y);
        let before = plane(size, |x, y| if inside(x, y) { scene(y * 1.3, x) + 30.0 } else { scene(x, y) });
        let after = plane(size, |x, y| if inside(x - 4.0, y) { scene(y * 1.3, x - 4.0) + 30.0 } else { scene(x, y) });
        let flow = Flow::between(&before, &after, size);
        let at = |x: usize, y: usize| [flow.right[y * 96 + x], flow.down[y * 96 + x]];
        assert!((at(52, 48)[0] + 4.0).abs() < 0.2 && at(52, 48)[1].abs() < 0.2, "{:?}", at(52, 48));
        assert!(at(10, 10)[0].abs() < 0.1 && at(85, 80)[0].abs() < 0.1);
    }

    #[test]
    fn flat_pictures_have_zero_flow_at_any_size() {
        for size in [[1, 1], [1, 9], [3, 2], [7, 8], [8, 8], [9, 17], [41, 40], [83, 57]] {
            let flat = vec![77.0; size[0] * size[1]];
            let flow = Flow::between(&flat, &flat, size);
            assert_eq!(flow, Flow::still(size));
            let noise: Vec<f32> = (0..flat.len()).map(|at| ((at * 7919) % 256) as f32).collect();
            let flow = Flow::between(&noise, &flat, size);
            assert!(flow.right.iter().chain(&flow.down).all(|value| value.is_finite()));
        }
    }
}
