//! Prolongation on the CPU, pixel by pixel: the reference of the GPU's. Matting on the CPU works row by row, in a band.

use super::DECIDED;
use crate::trimap::{BACKGROUND, FOREGROUND, UNKNOWN};

/// The coverage of a coarser level.
#[derive(Clone, Copy, Debug)]
pub struct Coarser<'a> {
    /// Its width and height.
    pub size: [usize; 2],
    /// A byte a pixel.
    pub coverage: &'a [u8],
}

impl Coarser<'_> {
    fn at(&self, x: usize, y: usize) -> u8 {
        let [width, height] = self.size;
        self.coverage[y.min(height - 1) * width + x.min(width - 1)]
    }

    /// Alpha where pixel (`x`, `y`) of the finer level starts.
    #[must_use]
    pub fn start(&self, x: usize, y: usize) -> f32 {
        let beside = |at: usize| if at.is_multiple_of(2) { (at / 2).saturating_sub(1) } else { at / 2 + 1 };
        let mixed = |x: usize| 3 * u16::from(self.at(x, y / 2)) + u16::from(self.at(x, beside(y)));
        f32::from(3 * mixed(x / 2) + mixed(beside(x))) * (1.0 / (16.0 * 255.0))
    }

    /// The label of pixel (`x`, `y`) of the finer level, whose trimap says `label`.
    #[must_use]
    pub fn decided(&self, x: usize, y: usize, label: u8) -> u8 {
        if label != UNKNOWN {
            return label;
        }
        let around = |at: usize| [(at / 2).saturating_sub(1), at / 2, at / 2 + 1];
        let near = || around(y).into_iter().flat_map(|y| around(x).map(|x| self.at(x, y)));
        if near().all(|value| value <= DECIDED) {
            BACKGROUND
        } else if near().all(|value| value >= 255 - DECIDED) {
            FOREGROUND
        } else {
            UNKNOWN
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
            let start = coarser.start(x, y);
            assert!((start - expected).abs() <= f32::EPSILON * expected, "({x}, {y}): {start}, {expected} expected");
        }
        let labels: Vec<u8> = (0..14).map(|x| coarser.decided(x, 1, UNKNOWN)).collect();
        assert_eq!(labels, [[BACKGROUND; 6].as_slice(), &[UNKNOWN; 4], &[FOREGROUND; 4]].concat());
        assert_eq!(coarser.decided(0, 0, FOREGROUND), FOREGROUND, "known pixels stay");
    }
}
