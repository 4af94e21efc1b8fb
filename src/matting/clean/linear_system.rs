//! Minimises the energy of [`clean`](super::clean()) over the open cells, by Chebyshev's semi-iteration.
//!
//! `x_{k+1} = x_{k−1} + ω_{k+1} (J x_k − x_{k−1})`, with Jacobi's step `J` of the linear system (Golub and Varga,
//! "Chebyshev Semi-Iterative Methods", Numer. Math. 1961). The largest total weight of a cell's neighbours bounds the
//! spectral radius of `J`. So ω needs no sums over the grid, and the result does not depend on the number of threads.

use super::cell_colors::difference;
use crate::image::Size;
use rayon::prelude::*;
use std::ops::Range;

/// Minimum distance of the mask's probabilities from 0 and 1.
pub(super) const LEAST: f32 = 1e-3;
/// λ: weight of a cell's own probability relative to its neighbours'. Its influence reaches about five cells.
const LAMBDA: f32 = 0.15;
/// Standard deviation σ of colour steps within a surface, in steps of 255, and the coupling that remains at any step,
/// which gives specks the label of their surroundings: `w = exp(−d² / 2σ²) + LEAST_COUPLING`.
const SIGMA: f32 = 30.0;
const LEAST_COUPLING: f32 = 0.1;
/// Steps of the iteration. The error falls to a thirtieth or less.
const STEPS: usize = 16;
/// Rows that are one task.
const TASK: usize = 16;
/// Cells that are solved together when one of them is open.
const BLOCK: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence<'a> {
    pub(super) mask: &'a [f32],
    /// Whether the solution labels the cell. Other cells keep their label.
    pub(super) open: &'a [bool],
    pub(super) labels: &'a [bool],
    /// Mean colours of the open cells and their neighbours.
    pub(super) colors: &'a [[u8; 3]],
    /// Log likelihood ratios of the colours of open cells, and the limit of their absolute value.
    pub(super) likelihood: &'a [f32],
    pub(super) most_likelihood: f32,
}

/// Jacobi's step for every cell of a grid with a border of one cell: `x = own + Σ weight · neighbour`. `own` of a fixed
/// cell is its label; the border is 0.
#[derive(Debug, Default)]
pub(super) struct System {
    own: Vec<f32>,
    weights: [Vec<f32>; 4],
    now: Vec<f32>,
    before: Vec<f32>,
    /// Column ranges with open cells, row after row, and the index of each row's first range.
    spans: Vec<Range<usize>>,
    rows: Vec<usize>,
    radius: f32,
}

impl System {
    /// Builds the system. `unit`: width of a reference cell in cells of the grid.
    pub(super) fn build(&mut self, evidence: Evidence<'_>, grid: Size, unit: f32) {
        let [columns, rows] = [grid.width as usize, grid.height as usize];
        let stride = columns + 2;
        let Evidence { mask, open, labels, colors, likelihood, most_likelihood } = evidence;
        let Self { own, weights: [left, right, above, below], now, before, spans, rows: row_starts, radius } = self;
        let lambda = LAMBDA / (unit * unit);
        *radius = 4.0 * (1.0 + LEAST_COUPLING) / (4.0 * (1.0 + LEAST_COUPLING) + lambda);
        for plane in [&mut *own, left, right, above, below, now, before] {
            plane.resize(stride * (rows + 2), 0.0);
        }
        find_spans(open, columns, spans, row_starts);
        let inner = stride..stride * (rows + 1);
        for border in [0..stride, stride * (rows + 1)..stride * (rows + 2)] {
            now[border].fill(0.0);
        }
        let planes = own[inner.clone()].par_chunks_mut(stride);
        let planes =
            planes.zip(left[inner.clone()].par_chunks_mut(stride)).zip(right[inner.clone()].par_chunks_mut(stride));
        let planes = planes.zip(above[inner.clone()].par_chunks_mut(stride)).zip(below[inner].par_chunks_mut(stride));
        planes.enumerate().with_min_len(TASK).for_each(|(y, ((((own, left), right), above), below))| {
            for x in spans[row_starts[y]..row_starts[y + 1]].iter().cloned().flatten() {
                let at = y * columns + x;
                if !open[at] {
                    own[x + 1] = f32::from(u8::from(labels[at]));
                    [left[x + 1], right[x + 1], above[x + 1], below[x + 1]] = [0.0; 4];
                    continue;
                }
                let weight = |is_inside: bool, other: usize| {
                    if is_inside {
                        (-difference(colors[at], colors[other]) / (2.0 * SIGMA * SIGMA)).exp() + LEAST_COUPLING
                    } else {
                        0.0
                    }
                };
                let beside = [
                    weight(x > 0, at.wrapping_sub(1)),
                    weight(x + 1 < columns, at + 1),
                    weight(y > 0, at.wrapping_sub(columns)),
                    weight(y + 1 < rows, at + columns),
                ];
                let of_mask = mask[at].clamp(LEAST, 1.0 - LEAST);
                let of_color = likelihood[at].clamp(-most_likelihood, most_likelihood).exp();
                let odds = of_mask / (1.0 - of_mask) * of_color;
                let share = 1.0 / (lambda + beside.iter().sum::<f32>());
                own[x + 1] = lambda * share * (odds / (1.0 + odds));
                [left[x + 1], right[x + 1], above[x + 1], below[x + 1]] = beside.map(|weight| weight * share);
            }
        });
        // Starts from the mask's labels. ω starts at 1, so the first step needs no earlier iterate.
        for (y, row) in labels.chunks_exact(columns).enumerate() {
            let now = &mut now[(y + 1) * stride..][..stride];
            [now[0], now[stride - 1]] = [0.0; 2];
            now[1..=columns].iter_mut().zip(row).for_each(|(now, &label)| *now = f32::from(u8::from(label)));
        }
        before.copy_from_slice(now);
    }

    pub(super) fn solve(&mut self, columns: usize) {
        let stride = columns + 2;
        let squared = self.radius * self.radius;
        let mut omega = 1.0;
        for step in 0..STEPS {
            let Self { own, weights: [left, right, above, below], now, before, spans, rows, .. } = &mut *self;
            let (now, inner) = (&*now, stride..before.len() - stride);
            before[inner].par_chunks_mut(stride).enumerate().with_min_len(TASK).for_each(|(y, before)| {
                for span in &spans[rows[y]..rows[y + 1]] {
                    let (start, len) = ((y + 1) * stride + 1 + span.start, span.len());
                    let before = &mut before[1 + span.start..][..len];
                    let own = &own[start..][..len];
                    let [left, right, above, below] = [&*left, right, above, below].map(|plane| &plane[start..][..len]);
                    let [to_left, to_right] = [&now[start - 1..][..len], &now[start + 1..][..len]];
                    let [up, down] = [&now[start - stride..][..len], &now[start + stride..][..len]];
                    for x in 0..len {
                        let jacobi = own[x]
                            + (left[x] * to_left[x] + right[x] * to_right[x])
                            + (above[x] * up[x] + below[x] * down[x]);
                        before[x] += omega * (jacobi - before[x]);
                    }
                }
            });
            std::mem::swap(&mut self.now, &mut self.before);
            omega = if step == 0 { 1.0 / (1.0 - squared / 2.0) } else { 1.0 / (1.0 - squared * omega / 4.0) };
        }
    }

    /// Labels the open cells: subject where the solution is at least one half.
    pub(super) fn read(&self, columns: usize, labels: &mut [bool]) {
        let rows = labels.chunks_exact_mut(columns).zip(self.now.chunks_exact(columns + 2).skip(1));
        for (y, (labels, solved)) in rows.enumerate() {
            for span in &self.spans[self.rows[y]..self.rows[y + 1]] {
                let solved = &solved[1 + span.start..];
                labels[span.clone()].iter_mut().zip(solved).for_each(|(label, &value)| *label = value >= 0.5);
            }
        }
    }
}

/// Column ranges of the blocks with an open cell; neighbouring blocks are joined.
fn find_spans(open: &[bool], columns: usize, spans: &mut Vec<Range<usize>>, rows: &mut Vec<usize>) {
    spans.clear();
    rows.clear();
    rows.push(0);
    for row in open.chunks_exact(columns) {
        let first = spans.len();
        for (block, _) in row.chunks(BLOCK).enumerate().filter(|(_, cells)| cells.contains(&true)) {
            let (start, end) = (block * BLOCK, ((block + 1) * BLOCK).min(columns));
            match spans[first..].last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => spans.push(start..end),
            }
        }
        rows.push(spans.len());
    }
}
