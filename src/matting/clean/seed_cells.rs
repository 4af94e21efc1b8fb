//! Converts the caller's strokes and points to marked cells of the grid.

use super::points;
use super::seeds::Seeds;
use super::workspace::Workspace;
use crate::image::{Frame, Size, Trimap};

/// Marks every stroked cell with the label of most of its stroked pixels; its mask becomes 0 or 1.
pub(super) fn mark_strokes(workspace: &mut Workspace, seeds: &Seeds) {
    let Some(strokes) = &seeds.strokes else { return };
    let (grid, size) = (workspace.grid, strokes.size());
    let width = size.width as usize;
    for y in 0..grid.height {
        let down = span(y, grid.height, size.height);
        for x in 0..grid.width {
            let across = span(x, grid.width, size.width);
            let rows = down.clone().map(|row| &strokes.labels()[row * width..][across.clone()]);
            let votes: i64 = rows.flatten().map(|&label| vote(label)).sum();
            if votes != 0 {
                workspace.fix((y * grid.width + x) as usize, votes > 0);
            }
        }
    }
}

pub(super) fn mark_points(workspace: &mut Workspace, frame: &Frame, seeds: &Seeds) {
    let grid = workspace.grid;
    let cells =
        |points: &[[u32; 2]]| points.iter().map(|&point| cell_of(point, frame.size(), grid)).collect::<Vec<_>>();
    points::mark(workspace, frame, &cells(&seeds.subject), &cells(&seeds.background));
}

const fn vote(label: u8) -> i64 {
    match label {
        Trimap::FOREGROUND => 1,
        Trimap::BACKGROUND => -1,
        _ => 0,
    }
}

/// The pixels of a cell along one axis; for a cell smaller than a pixel that pixel.
fn span(cell: u32, cells: u32, pixels: u32) -> std::ops::Range<usize> {
    let edge = |cell: u32| (u64::from(cell) * u64::from(pixels) / u64::from(cells)) as usize;
    edge(cell)..edge(cell + 1).max(edge(cell) + 1)
}

fn cell_of([x, y]: [u32; 2], size: Size, grid: Size) -> usize {
    let cell = |at: u32, pixels: u32, cells: u32| {
        let centre = 2 * u64::from(at.min(pixels - 1)) + 1;
        (centre * u64::from(cells) / (2 * u64::from(pixels))) as usize
    };
    cell(y, size.height, grid.height) * grid.width as usize + cell(x, size.width, grid.width)
}
