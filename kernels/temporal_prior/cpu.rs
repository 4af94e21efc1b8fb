//! The temporal prior on the CPU.

use super::UNRELATED;
use crate::interpolation::Plane;
use crate::mask_upsample::cpu::Upsampled;
use crate::trimap::UNKNOWN;
use multiversion::multiversion;
use rayon::prelude::*;

/// The previous frame's matte, and the motion from the current frame back to it.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    /// Coverage, row after row.
    pub matte: &'a [u8],
    /// Width and height of both frames in pixels.
    pub size: (usize, usize),
    /// Columns and rows of the grid.
    pub grid: (usize, usize),
    /// Motion to the right and down, in cells.
    pub flow: [&'a [f32]; 2],
    /// Weight of the previous matte, 0 to 1.
    pub share: &'a [f32],
}

impl Past<'_> {
    /// Writes the expected `coverage` and its `weight`, 0 to 255, where `labels` are unknown.
    ///
    /// # Panics
    /// When the sizes of the planes differ.
    pub fn warp(&self, labels: &[u8], coverage: &mut [u8], weight: &mut [u8]) {
        let Self { matte, size, grid, flow, share } = *self;
        let warp = Warp {
            matte: Plane { values: matte, size: [size.0, size.1] },
            flow: flow.map(|plane| Upsampled::new(plane, grid, size)),
            share: Upsampled::new(share, grid, size),
            cell: cell(size, grid),
        };
        let pixels = size.0 * size.1;
        assert!([matte.len(), labels.len(), coverage.len(), weight.len()] == [pixels; 4], "a value for each pixel");
        let rows = coverage.par_chunks_mut(size.0).zip(weight.par_chunks_mut(size.0));
        rows.zip(labels.par_chunks(size.0))
            .enumerate()
            .for_each(|(y, ((coverage, weight), labels))| warp_row(&warp, y, labels, coverage, weight));
    }
}

pub(super) fn cell(size: (usize, usize), grid: (usize, usize)) -> [f32; 2] {
    [size.0 as f32 / grid.0 as f32, size.1 as f32 / grid.1 as f32]
}

struct Warp<'a> {
    matte: Plane<'a, u8>,
    flow: [Upsampled<'a>; 2],
    share: Upsampled<'a>,
    cell: [f32; 2],
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn warp_row(warp: &Warp<'_>, y: usize, labels: &[u8], coverage: &mut [u8], weight: &mut [u8]) {
    let Warp { matte, flow: [right, down], share, cell } = warp;
    for x in (0..labels.len()).filter(|&x| labels[x] == UNKNOWN) {
        weight[x] = (share.at(x, y) * 255.0 + 0.5) as u8;
        if weight[x] > 0 {
            let place = (x as f32 + right.at(x, y) * cell[0], y as f32 + down.at(x, y) * cell[1]);
            coverage[x] = (matte.cubic(place.0, place.1) + 0.5) as u8;
        }
    }
}

/// Moves `start`, in 0..=1, towards the `expected` coverage by its `weight`.
#[must_use]
pub fn toward(start: f32, expected: u8, weight: u8) -> f32 {
    start + (f32::from(expected) / 255.0 - start) * (f32::from(weight) / 255.0)
}

/// Moves the `solved` coverage towards the `expected` one by its `weight`, less with a larger difference.
#[must_use]
pub fn blended(solved: u8, expected: u8, weight: u8) -> u8 {
    let near = UNRELATED.saturating_sub(solved.abs_diff(expected));
    let [solved, expected] = [solved, expected].map(u32::from);
    let (weight, whole) = (u32::from(weight) * u32::from(near), 255 * u32::from(UNRELATED));
    ((solved * (whole - weight) + expected * weight + whole / 2) / whole) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matte_that_moves_by_a_cell_arrives_there_and_known_pixels_stay() {
        // Two pixels a cell; the previous frame was one cell further left.
        let (size, grid) = ((8, 2), (4, 1));
        let matte = [0, 0, 100, 100, 100, 200, 200, 200].repeat(2);
        let past = Past { matte: &matte, size, grid, flow: [&[-1.0; 4], &[0.0; 4]], share: &[1.0; 4] };
        let mut labels = vec![UNKNOWN; 16];
        labels[0] = 255;
        let (mut coverage, mut weight) = (vec![7; 16], vec![0; 16]);
        past.warp(&labels, &mut coverage, &mut weight);
        assert_eq!(coverage[8..], [0, 0, 0, 0, 100, 100, 100, 200]);
        assert_eq!((coverage[0], weight[0], weight[1]), (7, 0, 255));
        let unweighted = Past { share: &[0.0; 4], ..past };
        let mut coverage = vec![7; 16];
        unweighted.warp(&labels, &mut coverage, &mut weight);
        assert_eq!((coverage, weight), (vec![7; 16], vec![0; 16]));
    }

    #[test]
    fn a_start_moves_all_the_way_with_full_weight() {
        assert!((toward(0.25, 255, 255) - 1.0).abs() < 1e-6 && toward(0.25, 255, 0) == 0.25);
    }
}
