//! Relabels the cells around the caller's points, after the mask was labelled.
//!
//! - A subject point inside a part selects it: parts without a point become background.
//! - A part other than the largest, half of which background points take, becomes background.
//! - Every point gives its label to the cells within its reach: three times its distance to the nearest cell that
//!   already has the label. So a point in the middle of a missing part adds about that part, and a point on a
//!   superfluous part leaves the subject behind it. Colour steps lengthen the way. Where the reaches of two points
//!   meet, the longer remaining reach decides: a marker-based watershed (Meyer, "Topographic distance and watershed
//!   lines", Signal Processing 1994) of bounded extent.

use super::cell_colors::{difference, sample};
use super::workspace::Workspace;
use crate::image::Frame;
use crate::matting::chamfer::{STRAIGHT, chamfer};
use crate::matting::connected_components::neighbours;
use backdrop_kernels::recycled::Recycled;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Reach of a point as a multiple of its distance to the nearest cell with its label; at least `LEAST_CELLS` cells, at
/// most `MOST_SHARE` of the grid's longer side.
const REACH: f32 = 3.0;
const LEAST_CELLS: f32 = 6.0;
const MOST_SHARE: f32 = 0.25;
/// Length of the way to a neighbour is `1 + d² / σ²` cells, with `d` the difference of their colours in steps of 255.
const SIGMA: f32 = 10.0;
/// Cells within this distance of a point get its label whatever their colours, so that its matte is not empty. A point
/// this deep inside a part selects the part.
const DISC_CELLS: f32 = 4.0;
/// Ways are integers, in thousandths of a cell, so that their order is exact.
const PER_CELL: f32 = 1000.0;

/// Relabels the cells that the points at the cells `subject` and `background` reach.
pub(super) fn mark(workspace: &mut Workspace, frame: &Frame, subject: &[usize], background: &[usize]) {
    sample(frame, workspace.grid, |_| true, &mut workspace.colors);
    let [to_subject, to_background] = [true, false].map(|label| distance_to(workspace, label));
    let before = Recycled::collected(workspace.labels.iter().copied());
    let points = |cells: &[usize], to_own: &[u16], label| -> Vec<Point> {
        cells.iter().map(|&at| Point { at, label, reach: reach(workspace, to_own[at]) }).collect()
    };
    let (subject, background) = (points(subject, &to_subject, true), points(background, &to_background, false));
    // Too deep for any background point to reach, and no correction of the outline.
    let deep = (DISC_CELLS * workspace.unit() * f32::from(STRAIGHT)) as u16;
    let is_reached = |point: &Point| background.iter().any(|other| workspace.away(point.at, other.at) < other.reach);
    let selects = subject.iter().any(|point| to_background[point.at] > deep && !is_reached(point));
    spread(workspace, subject.iter().chain(&background));
    remove_parts(workspace, &before, &subject, selects);
}

struct Point {
    at: usize,
    label: bool,
    reach: f32,
}

/// Reach in cells of a point at distance `to_own` (thirds of a cell) from the nearest cell with its label.
fn reach(workspace: &Workspace, to_own: u16) -> f32 {
    let most = MOST_SHARE * workspace.grid.longest() as f32;
    (REACH * f32::from(to_own) / f32::from(STRAIGHT)).min(most).max(LEAST_CELLS * workspace.unit())
}

/// Distance of every cell to the nearest one with this label, in the chamfer's thirds of a cell.
fn distance_to(workspace: &Workspace, label: bool) -> Recycled<Vec<u16>> {
    let far = workspace.labels.iter().map(|&other| if other == label { 0 } else { u16::MAX });
    let mut distance = Recycled::collected(far);
    chamfer(&mut distance, workspace.columns());
    distance
}

/// Spreads the labels of the points from cell to cell, longest remaining reach first.
fn spread<'a>(workspace: &mut Workspace, points: impl Iterator<Item = &'a Point>) {
    let (columns, cells) = (workspace.columns(), workspace.labels.len());
    let mut front = BinaryHeap::new();
    for &Point { at, label, reach } in points {
        let disc = disc(workspace, at);
        front.extend(disc.map(|(at, away)| ((PER_CELL * (reach - away)) as u32, Reverse(at), label)));
    }
    let mut is_reached = Recycled::filled(cells, false);
    while let Some((left, Reverse(at), label)) = front.pop() {
        // Strokes override points.
        if std::mem::replace(&mut is_reached[at], true) || workspace.marked[at] {
            continue;
        }
        workspace.fix(at, label);
        for beside in neighbours(columns, cells, at).filter(|&beside| !is_reached[beside]) {
            let step = 1.0 + difference(workspace.colors[at], workspace.colors[beside]) / (SIGMA * SIGMA);
            if let Some(left) = left.checked_sub((PER_CELL * step) as u32) {
                front.push((left, Reverse(beside), label));
            }
        }
    }
}

/// The cells around `center` that get its label unconditionally, with their distances.
fn disc(workspace: &Workspace, center: usize) -> impl Iterator<Item = (usize, f32)> {
    let (columns, rows, radius) = (workspace.columns(), workspace.grid.height as usize, DISC_CELLS * workspace.unit());
    let span = |at: usize, end: usize| at.saturating_sub(radius as usize)..end.min(at + radius as usize + 1);
    let (down, across) = (span(center / columns, rows), span(center % columns, columns));
    let cells = down.flat_map(move |row| across.clone().map(move |column| row * columns + column));
    cells.map(move |at| (at, workspace.away(center, at))).filter(move |(_, away)| *away <= radius)
}

/// Makes parts of `before` background that hold no point of `subject`, except marked cells: all such parts where the
/// points select, else those other than the largest of which half is background already.
fn remove_parts(workspace: &mut Workspace, before: &[bool], subject: &[Point], selects: bool) {
    let columns = workspace.columns();
    workspace.components.find(before, columns, |label| label);
    let mut parts = vec![Part::default(); workspace.components.count()];
    for (run, part) in workspace.components.runs() {
        let part = &mut parts[part];
        part.cells += run.len();
        part.lost += workspace.labels[run.clone()].iter().filter(|&&label| !label).count();
        part.is_held |= subject.iter().any(|point| run.contains(&point.at));
    }
    let largest = parts.iter().map(|part| part.cells).max().unwrap_or(0);
    let is_removed = |part: Part| !part.is_held && (selects || part.cells < largest && 2 * part.lost >= part.cells);
    let runs = workspace.components.runs().filter(|&(_, part)| is_removed(parts[part]));
    let removed: Vec<_> = runs.map(|(run, _)| run).collect();
    for at in removed.into_iter().flatten() {
        if !workspace.marked[at] {
            workspace.fix(at, false);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    cells: usize,
    /// Cells that points made background.
    lost: usize,
    is_held: bool,
}
