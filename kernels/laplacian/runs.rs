//! Run-length encoded pixel sets (unknown band, windows, pixels read), split into chunks for parallel work.

use std::ops::Range;

/// Pixels in a unit of parallel work.
const CHUNK_LANES: usize = 4096;

/// Consecutive pixels of one row, and their offset in a compact array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) x: i32,
    pub(super) len: u32,
    pub(super) at: u32,
}

/// A set of pixels as runs; offsets of rows into the runs.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) first_row: i32,
    pub(super) rows: Vec<u32>,
    pub(super) runs: Vec<Run>,
    pub(super) len: usize,
}

impl Runs {
    pub(super) fn of_row(&self, y: i32) -> &[Run] {
        let Ok(row) = usize::try_from(y - self.first_row) else { return &[] };
        if row + 1 >= self.rows.len() {
            return &[];
        }
        &self.runs[self.rows[row] as usize..self.rows[row + 1] as usize]
    }

    /// Index of pixel (`x`, `y`), which must be in the set, in the compact array.
    pub(super) fn index(&self, x: i32, y: i32) -> u32 {
        let row = self.of_row(y);
        let run = row[row.partition_point(|run| run.x <= x) - 1];
        debug_assert!(x < run.x + run.len as i32, "pixel {x},{y} is not in the set");
        run.at + (x - run.x) as u32
    }

    /// Builds the set from each row's intervals, which may overlap and lie in any order. Lengths are rounded up to
    /// a multiple of `multiple`.
    pub(super) fn collect(
        rows: Range<i32>,
        multiple: i32,
        mut intervals: impl FnMut(i32, &mut Vec<Range<i32>>),
    ) -> Self {
        let mut set = Self { first_row: rows.start, rows: vec![0], runs: Vec::new(), len: 0 };
        let mut scratch = Vec::new();
        for y in rows {
            scratch.clear();
            intervals(y, &mut scratch);
            scratch.sort_unstable_by_key(|interval| interval.start);
            let row_start = set.runs.len();
            for interval in &scratch {
                let end_of = |start: i32, end: i32| start + (end - start + multiple - 1) / multiple * multiple;
                match set.runs[row_start..].last_mut() {
                    Some(last) if interval.start <= last.x + last.len as i32 => {
                        let end = (last.x + last.len as i32).max(end_of(last.x, interval.end));
                        last.len = (end - last.x) as u32;
                    }
                    _ => {
                        let len = (end_of(interval.start, interval.end) - interval.start) as u32;
                        set.runs.push(Run { x: interval.start, len, at: 0 });
                    }
                }
            }
            for run in &mut set.runs[row_start..] {
                run.at = set.len as u32;
                set.len += run.len as usize;
            }
            set.rows.push(set.runs.len() as u32);
        }
        set
    }

    pub(super) fn grown(&self, multiple: i32) -> Self {
        let last_row = self.first_row + self.rows.len() as i32 - 1;
        Self::collect(self.first_row - 1..last_row + 1, multiple, |y, intervals| {
            for row in y - 1..=y + 1 {
                intervals.extend(self.of_row(row).iter().map(|run| run.x - 1..run.x + run.len as i32 + 1));
            }
        })
    }
}

/// A run of windows; `pixels` are the indices in A of its first pixel in each of the three rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowRun {
    pub(super) at: u32,
    pub(super) len: u32,
    pub(super) pixels: [u32; 3],
}

/// A run of unknown pixels; `windows` are the indices in W of its windows up-left, left and down-left.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnknownRun {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) at: u32,
    pub(super) len: u32,
    pub(super) pixel: u32,
    pub(super) windows: [u32; 3],
}

/// Runs of one task, and its parts of the compact arrays.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) runs: Range<usize>,
    /// Elements of the array that the runs themselves index (U or W).
    pub(super) own: Range<usize>,
    /// Elements of A that belong to the chunk (chunks of U only).
    pub(super) pixels: Range<usize>,
}

/// Disjoint consecutive parts of `whole`.
pub(super) fn split<T>(whole: &mut [T], parts: impl Iterator<Item = Range<usize>>) -> Vec<&mut [T]> {
    let (mut rest, mut at) = (whole, 0);
    parts
        .map(|part| {
            let (_, tail) = std::mem::take(&mut rest).split_at_mut(part.start - at);
            let (here, tail) = tail.split_at_mut(part.len());
            (rest, at) = (tail, part.end);
            here
        })
        .collect()
}

pub(super) fn unknown_runs(set: &Runs, windows: &Runs, pixels: &Runs) -> Vec<UnknownRun> {
    let mut runs = Vec::with_capacity(set.runs.len());
    for row in 0..set.rows.len() - 1 {
        let y = set.first_row + row as i32;
        runs.extend(set.of_row(y).iter().map(|run| UnknownRun {
            x: run.x,
            y,
            at: run.at,
            len: run.len,
            pixel: pixels.index(run.x, y),
            windows: [-1, 0, 1].map(|dy| windows.index(run.x - 1, y + dy)),
        }));
    }
    runs
}

pub(super) fn window_runs(windows: &Runs, pixels: &Runs) -> Vec<WindowRun> {
    let mut runs = Vec::with_capacity(windows.runs.len());
    for row in 0..windows.rows.len() - 1 {
        let y = windows.first_row + row as i32;
        runs.extend(windows.of_row(y).iter().map(|run| WindowRun {
            at: run.at,
            len: run.len,
            pixels: [-1, 0, 1].map(|dy| pixels.index(run.x - 1, y + dy)),
        }));
    }
    runs
}

fn chunk_bounds(lens: impl Iterator<Item = u32>) -> Vec<Range<usize>> {
    let (mut chunks, mut start, mut sum, mut count) = (Vec::new(), 0, 0, 0);
    for len in lens {
        sum += len as usize;
        count += 1;
        if sum >= CHUNK_LANES {
            chunks.push(start..count);
            (start, sum) = (count, 0);
        }
    }
    if start < count {
        chunks.push(start..count);
    }
    chunks
}

pub(super) fn chunks_of_windows(runs: &[WindowRun]) -> Vec<Chunk> {
    let own = |range: &Range<usize>| {
        let last = &runs[range.end - 1];
        runs[range.start].at as usize..(last.at + last.len) as usize
    };
    chunk_bounds(runs.iter().map(|run| run.len))
        .into_iter()
        .map(|range| Chunk { own: own(&range), pixels: 0..0, runs: range })
        .collect()
}

pub(super) fn chunks_of_unknown(runs: &[UnknownRun], pixels: usize) -> Vec<Chunk> {
    chunk_bounds(runs.iter().map(|run| run.len))
        .into_iter()
        .map(|range| {
            let last = &runs[range.end - 1];
            let end = runs.get(range.end).map_or(pixels, |next| next.pixel as usize);
            Chunk {
                own: runs[range.start].at as usize..(last.at + last.len) as usize,
                pixels: runs[range.start].pixel as usize..end,
                runs: range,
            }
        })
        .collect()
}
