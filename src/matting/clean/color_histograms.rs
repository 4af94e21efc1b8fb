//! Log likelihood ratio of a colour under two histograms of the picture: certain subject and certain background.
//!
//! Likelihoods from histograms: Boykov and Jolly, "Interactive Graph Cuts", ICCV 2001. These are smoothed, as a kernel
//! density estimate, and mixed with a uniform component: a colour that neither holds has a log ratio near 0.

use crate::image::Size;

const BINS: usize = 32;
/// Weights of a Gaussian at 0 to 3 bins. Its standard deviation is one bin, eight steps of 255.
const SMOOTHING: [f32; 4] = [0.399_05, 0.242_04, 0.054_01, 0.004_43];
const UNIFORM: f32 = 0.03;
/// Minimum number of samples of subject and of background.
const FEWEST: usize = 64;
/// Step between samples along both axes: neighbouring cells are alike.
pub(super) const STEP: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Histograms {
    subject: Vec<f32>,
    background: Vec<f32>,
    smoothed: Vec<f32>,
}

impl Histograms {
    /// Fits to the samples, subject or background by `certain`. False with too few samples of either.
    pub(super) fn fit(&mut self, colors: &[[u8; 3]], grid: Size, certain: impl Fn(usize) -> Option<bool>) -> bool {
        let columns = grid.width as usize;
        for histogram in [&mut self.subject, &mut self.background] {
            histogram.clear();
            histogram.resize(BINS * BINS * BINS, 0.0);
        }
        let mut counts = [0usize; 2];
        for y in (0..grid.height as usize).step_by(STEP) {
            for at in (y * columns..(y + 1) * columns).step_by(STEP) {
                let Some(is_subject) = certain(at) else { continue };
                let histogram = if is_subject { &mut self.subject } else { &mut self.background };
                histogram[bin(colors[at])] += 1.0;
                counts[usize::from(is_subject)] += 1;
            }
        }
        if counts[0] < FEWEST || counts[1] < FEWEST {
            return false;
        }
        let [background, subject] = counts;
        for (histogram, count) in [(&mut self.subject, subject), (&mut self.background, background)] {
            smooth(histogram, &mut self.smoothed);
            let uniform = UNIFORM / (BINS * BINS * BINS) as f32;
            histogram.iter_mut().for_each(|value| *value = *value / count as f32 + uniform);
        }
        true
    }

    /// Natural logarithm of the likelihood ratio; positive for subject.
    pub(super) fn log_ratio(&self, color: [u8; 3]) -> f32 {
        let bin = bin(color);
        (self.subject[bin] / self.background[bin]).ln()
    }
}

fn bin(color: [u8; 3]) -> usize {
    let [red, green, blue] = color.map(|channel| (usize::from(channel) * (BINS - 1) + 127) / 255);
    (red * BINS + green) * BINS + blue
}

/// Convolves along the three axes; values beyond the cube are added to its border.
fn smooth(histogram: &mut Vec<f32>, smoothed: &mut Vec<f32>) {
    for stride in [1, BINS, BINS * BINS] {
        smoothed.clear();
        smoothed.resize(histogram.len(), 0.0);
        for (at, &value) in histogram.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let place = at / stride % BINS;
            for (reach, weight) in SMOOTHING.iter().enumerate() {
                let up = (place + reach).min(BINS - 1) - place;
                smoothed[at + up * stride] += weight * value;
                if reach > 0 {
                    smoothed[at - reach.min(place) * stride] += weight * value;
                }
            }
        }
        std::mem::swap(histogram, smoothed);
    }
}
