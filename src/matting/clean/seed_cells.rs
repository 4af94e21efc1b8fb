//! Converts the caller's strokes and points to marked cells of the grid.

use super::seeds::Seeds;
use super::workspace::Workspace;
use crate::image::Size;
use std::ops::Range;

/// Cells within this distance of a point that the mask contradicts get its label, so that a point never has an empty matte.
const DISC_CELLS: f32 = 4.0;

/// Marks every stroked cell with the label of most of its stroked pixels, and the cells of the points; their mask becomes 0 or 1.
pub(super) fn mark(workspace: &mut Workspace, size: Size, seeds: &Seeds) {
    mark_points(workspace, size, seeds);
    if seeds.strokes.is_none() {
        return;
    }
    let grid = workspace.grid;
    for y in 0..grid.height {
        let rows = span(y, grid.height, size.height);
        for x in 0..grid.width {
            if let Some(label) = seeds.stroked(span(x, grid.width, size.width), rows.clone()) {
                workspace.fix((y * grid.width + x) as usize, label);
            }
        }
    }
}

/// Marks a disc around each point that the mask contradicts, on the subject after those on the background, and then each point's cell.
fn mark_points(workspace: &mut Workspace, size: Size, seeds: &Seeds) {
    let (grid, radius) = (workspace.grid, DISC_CELLS * workspace.unit());
    let mut points: Vec<_> = seeds.points().map(|(point, label)| (cell_of(point, size, grid), label)).collect();
    points.sort_by_key(|&(_, is_subject)| is_subject);
    let wrong = points.iter().filter(|&&(at, label)| (workspace.mask[at] >= 0.5) != label);
    let discs: Vec<_> = wrong.flat_map(|&(at, label)| workspace.disc(at, radius).map(move |at| (at, label))).collect();
    for (at, label) in discs.into_iter().chain(points) {
        workspace.fix(at, label);
    }
}

/// The pixels of a cell along one axis; for a cell smaller than a pixel that pixel.
pub(in crate::matting) fn span(cell: u32, cells: u32, pixels: u32) -> Range<usize> {
    let edge = |cell: u32| (u64::from(cell) * u64::from(pixels) / u64::from(cells)) as usize;
    edge(cell)..edge(cell + 1).max(edge(cell) + 1)
}

/// The cell of a pixel's centre along one axis.
pub(in crate::matting) fn cell_at(pixel: u32, cells: u32, pixels: u32) -> u32 {
    let centre = 2 * u64::from(pixel.min(pixels - 1)) + 1;
    (centre * u64::from(cells) / (2 * u64::from(pixels))) as u32
}

fn cell_of([x, y]: [u32; 2], size: Size, grid: Size) -> usize {
    let [x, y] = [cell_at(x, grid.width, size.width), cell_at(y, grid.height, size.height)];
    (y * grid.width + x) as usize
}
