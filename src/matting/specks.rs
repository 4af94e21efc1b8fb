//! Fills the small 4-connected components of a matte: specks and pinholes.
//!
//! Runs along the rows are found in parallel, sixty-four pixels at a time where all are alike, and joined with
//! union-find. The cost is one pass over the matte, plus the length of its edges.

use super::union_find::Forest;
use backdrop_kernels::recycled::Recycled;
use rayon::prelude::*;

/// Rows of a parallel task.
const ROWS: usize = 64;
/// Pixels that are compared together.
const BLOCK: usize = 64;

/// A run of pixels. A root's count is its component's.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u32,
    end: u32,
    size: u32,
}

/// Sets every component of fewer than `least` pixels that are `inside` to `fill`.
pub(super) fn fill_small(
    coverage: &mut [u8],
    width: usize,
    least: usize,
    inside: impl Fn(u8) -> bool + Sync,
    fill: u8,
) {
    let strips = coverage.par_chunks(width * ROWS).enumerate();
    let found: Vec<Recycled<Vec<(u32, u32)>>> = strips
        .map(|(strip, rows)| {
            let mut runs = Recycled::<Vec<_>>::take();
            runs.clear();
            for (row, pixels) in rows.chunks_exact(width).enumerate() {
                find_runs(pixels, ((strip * ROWS + row) * width) as u32, &inside, &mut runs);
            }
            runs
        })
        .collect();
    let each = found.iter().flat_map(|runs| runs.iter()).map(|&(start, end)| Run { start, end, size: 0 });
    let mut runs = Recycled::<Vec<Run>>::take();
    runs.clear();
    runs.extend(each);
    drop(found);
    let mut forest = Recycled::<Forest>::take();
    forest.clear();
    runs.iter().for_each(|_| forest.push());
    join_rows(&runs, &mut forest, width as u32);
    for index in 0..runs.len() {
        let Run { start, end, .. } = runs[index];
        runs[forest.root(index)].size += end - start;
    }
    for index in 0..runs.len() {
        let Run { start, end, .. } = runs[index];
        if (runs[forest.root(index)].size as usize) < least {
            coverage[start as usize..end as usize].fill(fill);
        }
    }
}

/// Appends the runs of a row, which starts at pixel `base` of the picture.
fn find_runs(row: &[u8], base: u32, inside: impl Fn(u8) -> bool, runs: &mut Vec<(u32, u32)>) {
    let mut open = None;
    let mut x = base;
    for block in row.chunks(BLOCK) {
        let count = block.iter().fold(0u8, |count, &value| count + u8::from(inside(value)));
        if count == 0 {
            runs.extend(open.take().map(|start| (start, x)));
        } else if usize::from(count) == block.len() {
            open.get_or_insert(x);
        } else {
            for (x, &value) in (x..).zip(block) {
                if inside(value) {
                    open.get_or_insert(x);
                } else {
                    runs.extend(open.take().map(|start| (start, x)));
                }
            }
        }
        x += block.len() as u32;
    }
    runs.extend(open.map(|start| (start, x)));
}

fn join_rows(runs: &[Run], forest: &mut Forest, width: u32) {
    let mut above = 0;
    for index in 0..runs.len() {
        let Run { start, end, .. } = runs[index];
        // Runs above that end left of this run touch neither it nor any later one.
        while runs[above].end + width <= start {
            above += 1;
        }
        let mut touching = above;
        while runs[touching].start + width < end {
            forest.join(index, touching);
            touching += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matting::connected_components::Components;

    fn scattered(len: usize, seed: u32) -> Vec<u8> {
        let value = |at: usize| ((at as u32 ^ seed).wrapping_mul(2_654_435_761) >> 16) as u8;
        (0..len).map(|at| if value(at / 3) < 140 { 0 } else { value(at) | 1 }).collect()
    }

    #[test]
    fn small_components_match_labelled_components() {
        for (width, height) in [(1, 1), (1, 200), (200, 1), (63, 70), (64, 130), (130, 129), (257, 66)] {
            for least in [0, 1, 3, 9, 40] {
                let before = scattered(width * height, width as u32);
                let mut expected = before.clone();
                let mut components = Components::default();
                components.find(&before, width, |value| value > 0);
                let mut sizes = vec![0; components.count()];
                components.runs().for_each(|(run, component)| sizes[component] += run.len());
                components
                    .runs()
                    .filter(|(_, component)| sizes[*component] < least)
                    .for_each(|(run, _)| expected[run].fill(7));
                let mut filled = before;
                fill_small(&mut filled, width, least, |value| value > 0, 7);
                assert_eq!(filled, expected, "{width}×{height}, {least}");
            }
        }
    }

    #[test]
    fn a_component_that_spans_strips_is_one() {
        let width = 100;
        let mut coverage = vec![0; width * 200];
        (0..200).for_each(|y| coverage[y * width + 50] = 255);
        let whole = coverage.clone();
        fill_small(&mut coverage, width, 200, |value| value > 0, 0);
        assert_eq!(coverage, whole);
        fill_small(&mut coverage, width, 201, |value| value > 0, 0);
        assert_eq!(coverage, vec![0; width * 200]);
    }
}
