//! Corrects a mask by the caller's marks, with the guided network: crop, hints, and the merge of its mask.
//!
//! The network sees the mask so far and the marks as discs (Sofiiuk, Petrov and Konushin, "Reviving Iterative Training with
//! Mask Guidance for Interactive Segmentation", ICIP 2022). What it changes away from the marks is undone, except along edges
//! (progressive merge: Chen et al., "FocalClick", CVPR 2022).

use super::merge::replaced;
use super::part::Part;
use super::tiling::{likely, padded, subject_box};
use crate::image::{Hints, RawMask, Rect, Size, Trimap};
use crate::matting::chamfer::{STRAIGHT, chamfer};
use crate::matting::clean::{Seeds, cell_at, span};
use crate::matting::connected_components::Components;
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use std::cmp::Reverse;
use std::ops::Range;

/// The side of the network's input, as in training.
const SIDE: u32 = 384;
/// Radius of a point's disc, in sides of the network's input or of the grid.
const RADIUS: f32 = 5.0 / 384.0;
/// Least distance of discs along a stroke, in pixels of the network's input.
const SPACING: u32 = 48;
/// Margin around the box of the mask, as a share of its longer side.
const MARGIN: f64 = 0.15;
/// Share of the picture above which the whole picture is the crop.
const WHOLE: f64 = 0.6;
/// A changed region is solid if a square of this share of the grid's longer side lies in it.
const SOLID: f32 = 0.01;
/// Cells around an undone region that are undone with it.
const SEAM: u16 = 2;

/// The part of a picture of `size` that is segmented with hints: the subject's box with a margin. The whole picture if that is most of it,
/// and where a mark adds something beside the box, of unknown size.
#[must_use]
pub fn crop(mask: &RawMask, size: Size, seeds: &Seeds) -> Part {
    let whole = Part::subject(Rect::whole(size));
    let Some(cells) = subject_box(&likely(mask), mask.size()) else { return whole };
    let subject = padded(cells, mask.size(), size, 0.0);
    let is_beside = |point: [u32; 2]| !subject.contains(point);
    let adds_beside = seeds.points().any(|(point, is_subject)| is_subject && is_beside(point))
        || seeds.strokes.as_ref().is_some_and(|strokes| strokes_any(strokes, is_beside));
    let padded = padded(cells, mask.size(), size, MARGIN);
    let is_most = padded.size().area() as f64 > WHOLE * size.area() as f64;
    if adds_beside || is_most { whole } else { Part::subject(padded) }
}

/// Whether `is_found` holds for any pixel that is stroked as subject.
fn strokes_any(strokes: &Trimap, is_found: impl Fn([u32; 2]) -> bool) -> bool {
    let columns = strokes.size().width as usize;
    let stroked = strokes.labels().iter().enumerate().filter(|(_, label)| **label == Trimap::FOREGROUND);
    stroked.map(|(at, _)| [(at % columns) as u32, (at / columns) as u32]).any(is_found)
}

/// The hints for `part` of a picture of `size`: `mask` and the marks.
///
/// # Panics
/// When the part lies outside the picture.
#[must_use]
pub fn hints(mask: &RawMask, size: Size, seeds: &Seeds, part: Part) -> Hints {
    let Rect { left, top, width, height } = part.rect;
    let extent = |size: Size| (size.width as usize, size.height as usize);
    let so_far = Upsampled::new(mask.values(), extent(mask.size()), extent(size));
    let pixels = |at: usize, first: u32, length: u32| {
        let own = span(at as u32, SIDE, length);
        first as usize + own.start..first as usize + own.end
    };
    let middle = |pixels: Range<usize>| usize::midpoint(pixels.start, pixels.end);
    let mut hints = Hints::new(SIDE, |x, y| so_far.at(middle(pixels(x, left, width)), middle(pixels(y, top, height))));
    let stroked = |x: usize, y: usize| seeds.stroked(pixels(x, left, width), pixels(y, top, height));
    let points = seeds.points().filter(|(point, _)| part.rect.contains(*point));
    let points = points
        .map(|([x, y], is_subject)| ([cell_at(x - left, SIDE, width), cell_at(y - top, SIDE, height)], is_subject));
    let strokes = seeds.strokes.iter().flat_map(|_| [true, false]);
    let along = strokes.flat_map(|is_subject| {
        points_along(|x, y| stroked(x, y) == Some(is_subject)).into_iter().map(move |point| (point, is_subject))
    });
    let radius = (RADIUS * SIDE as f32).round() as u32;
    for (point, is_subject) in points.chain(along) {
        hints.mark(if is_subject { Hints::MARKS[0] } else { Hints::MARKS[1] }, point, radius);
    }
    hints
}

/// Points on strokes, in pixels of the network's input, innermost first, none nearer to another than [`SPACING`]. The network was trained
/// with discs at clicks, and does little with whole strokes.
fn points_along(is_stroked: impl Fn(usize, usize) -> bool) -> Vec<[u32; 2]> {
    let side = SIDE as usize;
    let at = |at: usize| [at % side, at / side];
    let mut depth: Vec<u16> =
        (0..side * side).map(at).map(|[x, y]| if is_stroked(x, y) { u16::MAX } else { 0 }).collect();
    chamfer(&mut depth, side);
    let mut stroked: Vec<usize> = (0..depth.len()).filter(|&at| depth[at] > 0).collect();
    stroked.sort_by_key(|&at| Reverse(depth[at]));
    let mut points: Vec<[u32; 2]> = Vec::new();
    for [x, y] in stroked.into_iter().map(at).map(|point| point.map(|at| at as u32)) {
        if points.iter().all(|point| point[0].abs_diff(x).pow(2) + point[1].abs_diff(y).pow(2) >= SPACING.pow(2)) {
            points.push([x, y]);
        }
    }
    points
}

/// `mask` with the guided network's mask of the `part` ([`crop`]) of the picture of `size`, on a grid that is never coarser. Solid changed
/// regions that no mark touches stay as they are in `mask`.
///
/// # Panics
/// When the part lies outside the picture.
#[must_use]
pub fn corrected(mask: &RawMask, size: Size, seeds: &Seeds, part: &[(Part, RawMask)]) -> RawMask {
    let (grid, [before, mut values]) = replaced(mask, size, part);
    undo_unmarked(&before, &mut values, grid, |run| is_marked(seeds, size, grid, run));
    RawMask::new(grid, values).expect("values of two masks").with_edge(mask.edge())
}

/// Takes back the solid changed regions of which no run of cells `is_marked`.
fn undo_unmarked(before: &[f32], values: &mut [f32], grid: Size, is_marked: impl Fn(&Range<usize>) -> bool) {
    let columns = grid.width as usize;
    let changed: Vec<bool> = before.iter().zip(&*values).map(|(was, is)| (*was >= 0.5) != (*is >= 0.5)).collect();
    let mut components = Components::default();
    components.find(&changed, columns, |changed| changed);
    let mut depth: Vec<u16> = changed.iter().map(|&changed| if changed { u16::MAX } else { 0 }).collect();
    chamfer(&mut depth, columns);
    let half = (SOLID * grid.longest() as f32 / 2.0).round().max(1.0) as u16;
    let solid = (half + 1) * STRAIGHT;
    let (mut is_solid, mut is_kept) = (vec![false; components.count()], vec![false; components.count()]);
    for (run, component) in components.runs() {
        is_solid[component] |= depth[run.clone()].iter().any(|&depth| depth >= solid);
        is_kept[component] = is_kept[component] || is_marked(&run);
    }
    let mut distance = vec![u16::MAX; values.len()];
    let undone = components.runs().filter(|&(_, component)| is_solid[component] && !is_kept[component]);
    undone.for_each(|(run, _)| distance[run].fill(0));
    chamfer(&mut distance, columns);
    let cells = values.iter_mut().zip(before).zip(distance);
    cells.filter(|(_, distance)| *distance <= SEAM * STRAIGHT).for_each(|((value, before), _)| *value = *before);
}

/// Whether a mark touches a run of cells.
fn is_marked(seeds: &Seeds, size: Size, grid: Size, run: &Range<usize>) -> bool {
    let columns = grid.width as usize;
    let [row, first, last] = [run.start / columns, run.start % columns, (run.end - 1) % columns].map(|at| at as u32);
    let radius = (RADIUS * grid.longest() as f32).max(3.0) as u32;
    let is_near = |[x, y]: [u32; 2]| {
        let [x, y] = [cell_at(x, grid.width, size.width), cell_at(y, grid.height, size.height)];
        y.abs_diff(row) <= radius && first <= x + radius && x <= last + radius
    };
    let across = |cell: u32| span(cell, grid.width, size.width);
    let is_stroked =
        || seeds.stroked(across(first).start..across(last).end, span(row, grid.height, size.height)).is_some();
    seeds.points().any(|(point, _)| is_near(point)) || is_stroked()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size::new(800, 400);

    /// A mask of 96 × 96 cells, of the rectangle from one corner to another in cells.
    fn block(columns: Range<usize>, rows: Range<usize>) -> RawMask {
        let cells = (0..96 * 96).map(|at| columns.contains(&(at % 96)) && rows.contains(&(at / 96)));
        let values = cells.map(|is_subject| if is_subject { 1.0 } else { 0.0 }).collect::<Vec<f32>>();
        RawMask::new(Size::new(96, 96), values).expect("probabilities")
    }

    fn on_subject(x: u32, y: u32) -> Seeds {
        Seeds { subject: vec![[x, y]], ..Seeds::default() }
    }

    fn on_background(x: u32, y: u32) -> Seeds {
        Seeds { background: vec![[x, y]], ..Seeds::default() }
    }

    #[test]
    fn the_crop_is_the_subject_with_a_margin_or_the_whole_picture_where_a_mark_adds_something_beside_it() {
        let (mask, whole) = (block(24..48, 24..48), Part::subject(Rect::whole(SIZE)));
        let near = Part::subject(Rect { left: 161, top: 61, width: 278, height: 178 });
        assert_eq!(crop(&mask, SIZE, &on_subject(300, 150)), near);
        assert_eq!(crop(&mask, SIZE, &on_background(790, 390)), near);
        assert_eq!(crop(&mask, SIZE, &on_subject(700, 150)), whole);
        let mut strokes = vec![Trimap::UNKNOWN; SIZE.area()];
        strokes[50 * 800 + 700] = Trimap::FOREGROUND;
        let strokes = Seeds { strokes: Some(Trimap::new(SIZE, strokes)), ..Seeds::default() };
        assert_eq!(crop(&mask, SIZE, &strokes), whole);
        assert_eq!(crop(&block(2..90, 2..90), SIZE, &on_background(4, 4)), whole);
        assert_eq!(crop(&block(0..0, 0..0), SIZE, &on_subject(4, 4)), whole);
    }

    #[test]
    fn hints_are_the_mask_and_discs_at_points_and_along_strokes_inside_the_part() {
        let part = Part::subject(Rect { left: 200, top: 100, width: 384, height: 192 });
        let mut strokes = vec![Trimap::UNKNOWN; SIZE.area()];
        strokes[100 * 800 + 210] = Trimap::FOREGROUND;
        let seeds = Seeds {
            strokes: Some(Trimap::new(SIZE, strokes)),
            subject: vec![[300, 150], [799, 399]],
            background: vec![[583, 291]],
        };
        const SIDE: usize = super::SIDE as usize;
        let mut squares = vec![0.0; 3 * SIDE * SIDE];
        hints(&block(48..96, 0..96), SIZE, &seeds, part).write_squares(1, &mut squares);
        let plane = |plane: usize| squares.iter().skip(plane).step_by(3).copied().collect::<Vec<f32>>();
        let [mask, subject, background] = [0, 1, 2].map(plane);
        assert_eq!([mask[100 * SIDE + 150], mask[100 * SIDE + 250]], [0.0, 1.0]);
        assert_eq!(subject.iter().sum::<f32>(), 81.0 + 46.0, "a disc, and half a disc at the border");
        assert_eq!([subject[100 * SIDE + 100], subject[100 * SIDE + 106], subject[10]], [1.0, 0.0, 1.0]);
        assert!(background[SIDE * SIDE - 1] > 0.0 && background.iter().sum::<f32>() < 81.0, "the part ends there");
    }

    #[test]
    fn solid_changes_away_from_the_marks_are_undone_and_edges_and_marked_regions_are_not() {
        let mask = block(20..40, 20..40);
        let change = |x: usize, y: usize| {
            let is_subject = (20..41).contains(&x) && (20..40).contains(&y);
            is_subject || (60..80).contains(&x) && ((10..30).contains(&y) || (60..80).contains(&y))
        };
        let values = (0..96 * 96).map(|at| if change(at % 96, at / 96) { 1.0 } else { 0.0 }).collect::<Vec<f32>>();
        let guided = || RawMask::new(Size::new(96, 96), values.clone()).expect("probabilities");
        let part = Part::subject(Rect::whole(Size::new(96, 96)));
        let after = |seeds: &Seeds| corrected(&mask, Size::new(96, 96), seeds, &[(part, guided())]);
        let at = |mask: &RawMask, x: usize, y: usize| mask.values()[y * 96 + x] >= 0.5;
        let marked = after(&on_subject(70, 20));
        assert!(at(&marked, 70, 20) && !at(&marked, 70, 70) && at(&marked, 40, 30));
        let elsewhere = after(&on_background(3, 3));
        assert!(!at(&elsewhere, 70, 20) && !at(&elsewhere, 70, 70) && at(&elsewhere, 40, 30));
    }
}
