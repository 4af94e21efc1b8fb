//! Run-length encoded pixel sets: the unknown band, the windows of its pixels, and the pixels that those windows read.

use std::ops::Range;

/// Consecutive pixels of one row, and their offset in a compact array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) x: i32,
    pub(super) len: u32,
    pub(super) at: u32,
}

/// A set of pixels as runs, with the offsets of rows into the runs. Its memory is reused.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pub(super) first_row: i32,
    rows: Vec<u32>,
    runs: Vec<Run>,
    pub(super) len: usize,
    intervals: Vec<Range<i32>>,
}

impl Runs {
    pub(super) fn rows(&self) -> Range<i32> {
        self.first_row..self.first_row + self.rows.len() as i32 - 1
    }

    pub(super) fn of_row(&self, y: i32) -> &[Run] {
        let Ok(row) = usize::try_from(y - self.first_row) else { return &[] };
        if row + 1 >= self.rows.len() {
            return &[];
        }
        &self.runs[self.rows[row] as usize..self.rows[row + 1] as usize]
    }

    /// Index in the compact array of pixel (`x`, `y`), which must be in the set.
    pub(super) fn index(&self, x: i32, y: i32) -> u32 {
        let row = self.of_row(y);
        let run = row[row.partition_point(|run| run.x <= x) - 1];
        debug_assert!(x < run.x + run.len as i32, "pixel {x},{y} is not in the set");
        run.at + (x - run.x) as u32
    }

    /// Builds the set from each row's intervals, in any order. Lengths are rounded up to multiples of `multiple`.
    pub(super) fn collect(
        &mut self,
        rows: Range<i32>,
        multiple: i32,
        mut intervals: impl FnMut(i32, &mut Vec<Range<i32>>),
    ) {
        self.first_row = rows.start;
        self.rows.clear();
        self.rows.push(0);
        self.runs.clear();
        self.len = 0;
        for y in rows {
            self.intervals.clear();
            intervals(y, &mut self.intervals);
            self.intervals.sort_unstable_by_key(|interval| interval.start);
            let row_start = self.runs.len();
            for interval in &self.intervals {
                let end_of = |start: i32, end: i32| start + (end - start + multiple - 1) / multiple * multiple;
                match self.runs[row_start..].last_mut() {
                    Some(last) if interval.start <= last.x + last.len as i32 => {
                        let end = (last.x + last.len as i32).max(end_of(last.x, interval.end));
                        last.len = (end - last.x) as u32;
                    }
                    _ => {
                        let len = (end_of(interval.start, interval.end) - interval.start) as u32;
                        self.runs.push(Run { x: interval.start, len, at: 0 });
                    }
                }
            }
            for run in &mut self.runs[row_start..] {
                run.at = self.len as u32;
                self.len += run.len as usize;
            }
            self.rows.push(self.runs.len() as u32);
        }
    }

    /// `set` grown by one pixel to each side.
    pub(super) fn grow(&mut self, set: &Self, multiple: i32) {
        let rows = set.rows();
        self.collect(rows.start - 1..rows.end + 1, multiple, |y, intervals| {
            for row in y - 1..=y + 1 {
                intervals.extend(set.of_row(row).iter().map(|run| run.x - 1..run.x + run.len as i32 + 1));
            }
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (i32, &Run)> + '_ {
        self.rows().flat_map(|y| self.of_row(y).iter().map(move |run| (y, run)))
    }
}

/// A run of windows. `pixels`: indices in A of its first pixel in each of the three rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowRun {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) at: u32,
    pub(super) len: u32,
    pub(super) pixels: [u32; 3],
}

/// A run of unknown pixels. `windows`: indices in W of its windows up-left, left and down-left. `around`: indices in A
/// of the pixels two to the left, from two rows above to two below.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnknownRun {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) at: u32,
    pub(super) len: u32,
    pub(super) pixel: u32,
    pub(super) windows: [u32; 3],
    pub(super) around: [u32; 5],
}

pub(super) fn unknown_runs(set: &Runs, windows: &Runs, pixels: &Runs, runs: &mut Vec<UnknownRun>) {
    runs.clear();
    runs.extend(set.iter().map(|(y, run)| UnknownRun {
        x: run.x,
        y,
        at: run.at,
        len: run.len,
        pixel: pixels.index(run.x, y),
        windows: [-1, 0, 1].map(|dy| windows.index(run.x - 1, y + dy)),
        around: [-2, -1, 0, 1, 2].map(|dy| pixels.index(run.x - 2, y + dy)),
    }));
}

pub(super) fn window_runs(windows: &Runs, pixels: &Runs, runs: &mut Vec<WindowRun>) {
    runs.clear();
    runs.extend(windows.iter().map(|(y, run)| WindowRun {
        x: run.x,
        y,
        at: run.at,
        len: run.len,
        pixels: [-1, 0, 1].map(|dy| pixels.index(run.x - 1, y + dy)),
    }));
}
