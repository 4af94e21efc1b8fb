//! Prolongation on the CPU, row by row: used by matting, and the GPU's reference.

use super::DECIDED;
use crate::trimap::{BACKGROUND, FOREGROUND, UNKNOWN};

/// The coverage of a coarser level.
#[derive(Clone, Copy, Debug)]
pub struct Coarser<'a> {
    /// Width and height.
    pub size: [usize; 2],
    /// A byte a pixel.
    pub coverage: &'a [u8],
}

/// The labels that a row of the coarser level decides for the two rows beneath it. Its memory is reused.
#[derive(Debug, Default)]
pub struct Decisions {
    row: Option<usize>,
    /// Minimum and maximum coverage over three rows, with one more column on each side.
    least: Vec<u8>,
    most: Vec<u8>,
    /// A label for each pixel of the row.
    labels: Vec<u8>,
}

impl Decisions {
    /// Forgets the row, before another level.
    pub fn clear(&mut self) {
        self.row = None;
    }

    /// Decides labels for the middle one of three `rows`.
    fn fill(&mut self, rows: [&[u8]; 3]) {
        let [above, middle, below] = rows;
        let columns = || above.iter().zip(middle).zip(below);
        let bordered = |values: &mut Vec<u8>, pick: fn(u8, u8) -> u8| {
            values.clear();
            values.push(0);
            values.extend(columns().map(|((&above, &middle), &below)| pick(pick(above, middle), below)));
            values[0] = values[1];
            values.push(values[values.len() - 1]);
        };
        bordered(&mut self.least, u8::min);
        bordered(&mut self.most, u8::max);
        self.labels.clear();
        self.labels.extend(self.least.array_windows().zip(self.most.array_windows()).map(
            |(&[a, b, c], &[d, e, f])| {
                let (least, most) = (a.min(b).min(c), d.max(e).max(f));
                if most <= DECIDED {
                    BACKGROUND
                } else if least >= 255 - DECIDED {
                    FOREGROUND
                } else {
                    UNKNOWN
                }
            },
        ));
    }
}

impl Coarser<'_> {
    /// Row `y` of the level, limited to its last row.
    fn row(&self, y: usize) -> &[u8] {
        &self.coverage[y.min(self.size[1] - 1) * self.size[0]..][..self.size[0]]
    }

    /// Writes 0 or 255 into the unknown `labels` of row `y` of the finer level where the nine parents (nearly) agree.
    pub fn decide(&self, y: usize, decisions: &mut Decisions, labels: &mut [u8]) {
        if !labels.contains(&UNKNOWN) {
            return;
        }
        let parent = y / 2;
        if decisions.row.replace(parent) != Some(parent) {
            decisions.fill([parent.saturating_sub(1), parent, parent + 1].map(|row| self.row(row)));
        }
        let take = |label: &mut u8, decided| *label = if *label == UNKNOWN { decided } else { *label };
        let (pairs, last) = labels.as_chunks_mut::<2>();
        for ([left, right], &decided) in pairs.iter_mut().zip(&decisions.labels) {
            take(left, decided);
            take(right, decided);
        }
        if let ([last], Some(&decided)) = (last, decisions.labels.last()) {
            take(last, decided);
        }
    }

    /// Initial alpha of the finer level's pixels from (`x`, `y`) on, bilinear.
    pub fn start(&self, y: usize, x: usize, values: &mut [f32]) {
        // The nearest parent has three times the weight of the next one.
        let parent = y / 2;
        let near = self.row(parent);
        let far = self.row(if y.is_multiple_of(2) { parent.saturating_sub(1) } else { parent + 1 });
        let mixed = |column: usize| 3 * u16::from(near[column]) + u16::from(far[column]);
        for (value, x) in values.iter_mut().zip(x..) {
            let parent = x / 2;
            let beside =
                if x.is_multiple_of(2) { parent.saturating_sub(1) } else { (parent + 1).min(self.size[0] - 1) };
            *value = f32::from(3 * mixed(parent) + mixed(beside)) * (1.0 / (16.0 * 255.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_starts_bilinear_and_is_decided_away_from_edges() {
        let coverage = [0, 0, 0, 1, 255, 255, 254];
        let coarser = Coarser { size: [7, 1], coverage: &coverage };
        for (x, y, expected) in [(6, 0, 0.75 / 255.0), (8, 1, (3.0 * 255.0 + 1.0) / (4.0 * 255.0))] {
            let mut start = [0.0];
            coarser.start(y, x, &mut start);
            let off = (start[0] - expected).abs();
            assert!(off <= f32::EPSILON * expected, "({x}, {y}): {}, {expected} expected", start[0]);
        }
        let mut labels = [UNKNOWN; 14];
        coarser.decide(1, &mut Decisions::default(), &mut labels);
        assert_eq!(labels, [[BACKGROUND; 6].as_slice(), &[UNKNOWN; 4], &[FOREGROUND; 4]].concat()[..]);
        let mut labels = [FOREGROUND, UNKNOWN];
        coarser.decide(0, &mut Decisions::default(), &mut labels);
        assert_eq!(labels, [FOREGROUND, BACKGROUND], "known pixels stay");
    }
}
