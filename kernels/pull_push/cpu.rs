//! Pull-push on the CPU: pyramid down, then up, rows in parallel.

use crate::recycled::Recycled;
use rayon::prelude::*;

/// Fills `samples` (row-major, `width` a row). In: colours multiplied by their weight, and the weight. Out: plain
/// colours and weight 1. Takes a third of the samples' memory in addition.
///
/// Returns whether any weight is above 0; else nothing changes.
///
/// # Panics
/// When the samples are not whole rows.
pub fn fill(samples: &mut [[f32; 4]], width: usize) -> bool {
    let largest = samples.par_iter().map(|sample| sample[3]).reduce(|| 0.0, f32::max);
    if largest.is_nan() || largest <= 0.0 {
        return false;
    }
    assert_eq!(samples.len() % width, 0, "a plane is made of whole rows");
    samples.par_iter_mut().for_each(|sample| *sample = sample.map(|value| value / largest));
    let mut pyramid: Vec<PyramidLevel> = Vec::new();
    loop {
        let next = match pyramid.last() {
            Some(level) if level.samples.len() == 1 => break,
            Some(level) => pull(&level.samples, level.width),
            None if samples.len() == 1 => break,
            None => pull(samples, width),
        };
        pyramid.push(next);
    }
    while let Some(level) = pyramid.pop() {
        match pyramid.last_mut() {
            Some(below) => push(&mut below.samples, below.width, &level),
            None => push(samples, width, &level),
        }
    }
    samples.par_iter_mut().for_each(|sample| sample[3] = 1.0);
    true
}

struct PyramidLevel {
    samples: Recycled<Vec<[f32; 4]>>,
    width: usize,
}

fn pull(samples: &[[f32; 4]], width: usize) -> PyramidLevel {
    let (columns, rows) = (width.div_ceil(2), (samples.len() / width).div_ceil(2));
    let mut level = PyramidLevel { samples: Recycled::filled(columns * rows, [0.0; 4]), width: columns };
    level.samples.par_chunks_mut(columns).zip(samples.par_chunks(2 * width)).for_each(|(row, below)| {
        for below in below.chunks(width) {
            for (sample, below) in row.iter_mut().zip(below.chunks(2)) {
                for below in below {
                    *sample = std::array::from_fn(|channel| sample[channel] + below[channel]);
                }
            }
        }
        for sample in row {
            let scale = 1.0 / sample[3].max(1.0);
            *sample = sample.map(|value| value * scale);
        }
    });
    level
}

/// Fills the missing weight of `samples` from the level `above`, which is already filled.
fn push(samples: &mut [[f32; 4]], width: usize, above: &PyramidLevel) {
    let rows = above.samples.len() / above.width;
    samples.par_chunks_mut(width).enumerate().for_each(|(y, row)| {
        let (near, far) = beside(y, rows);
        let row_above = |row: usize| &above.samples[row * above.width..][..above.width];
        let (near, far) = (row_above(near), row_above(far));
        for (x, sample) in row.iter_mut().enumerate() {
            let lacking = 1.0 - sample[3];
            if lacking <= 0.0 {
                continue;
            }
            let (first, second) = beside(x, above.width);
            for channel in 0..3 {
                let mix = |row: &[[f32; 4]]| 0.75 * row[first][channel] + 0.25 * row[second][channel];
                sample[channel] += lacking * (0.75 * mix(near) + 0.25 * mix(far));
            }
        }
    });
}

/// The sample of the level above that contains a sample, and its neighbour on the sample's side. Bilinear weights are
/// 3/4 and 1/4, because the centres are a quarter of a sample apart.
fn beside(at: usize, above: usize) -> (usize, usize) {
    let first = at / 2;
    let second = if at.is_multiple_of(2) { first.saturating_sub(1) } else { (first + 1).min(above - 1) };
    (first, second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [(usize, usize); 8] = [(1, 1), (2, 1), (1, 7), (97, 1), (5, 3), (64, 64), (33, 65), (100, 41)];

    fn noise(at: usize) -> f32 {
        ((at as u32).wrapping_mul(2_654_435_761) >> 16) as f32 / 65536.0
    }

    #[test]
    fn samples_of_equal_weight_everywhere_stay() {
        for (width, height) in SIZES {
            for weight in [1.0, 0.25] {
                let colours: Vec<[f32; 3]> =
                    (0..width * height).map(|at| [0, 1, 2].map(|channel| noise(3 * at + channel))).collect();
                let mut samples: Vec<[f32; 4]> =
                    colours.iter().map(|&[r, g, b]| [r * weight, g * weight, b * weight, weight]).collect();
                assert!(fill(&mut samples, width));
                for (sample, [red, green, blue]) in samples.iter().zip(colours) {
                    assert_eq!(*sample, [red, green, blue, 1.0]);
                }
            }
        }
    }

    #[test]
    fn a_hole_in_a_gradient_closes_without_an_edge() {
        let (width, height) = (120, 90);
        let gradient = |at: usize| (at % width) as f32 / 200.0 + (at / width) as f32 / 300.0;
        let hole = |at: usize| (at % width).abs_diff(55).pow(2) + (at / width).abs_diff(40).pow(2) < 20 * 20;
        let mut samples: Vec<[f32; 4]> = (0..width * height)
            .map(|at| if hole(at) { [0.0; 4] } else { [gradient(at), 1.0 - gradient(at), 0.5, 1.0] })
            .collect();
        assert!(fill(&mut samples, width));
        let mut worst = (0.0f32, 0.0f32);
        for at in (0..width * height).filter(|&at| hole(at)) {
            let value = samples[at][0];
            assert!((samples[at][1] - (1.0 - value)).abs() < 1e-5 && (samples[at][2] - 0.5).abs() < 1e-5);
            worst.0 = worst.0.max((value - gradient(at)).abs());
            for neighbour in [at - 1, at + 1, at - width, at + width] {
                worst.1 = worst.1.max((value - samples[neighbour][0]).abs());
            }
        }
        // Across the hole the gradient rises by 0.2, 0.005 a sample.
        assert!(worst.0 < 0.02, "{worst:?}");
        assert!(worst.1 < 0.01, "{worst:?}");
    }

    #[test]
    fn a_filled_sample_lies_between_the_known_ones() {
        for (width, height) in SIZES {
            let mut samples: Vec<[f32; 4]> = (0..width * height)
                .map(|at| {
                    // One sample at least is known; in small planes it is the only one.
                    let is_known = at == width * height / 2 || noise(7 * at) < 0.02;
                    let weight = if is_known { noise(11 * at).max(0.01) } else { 0.0 };
                    [weight * (0.2 + 0.5 * noise(at)), weight, 0.0, weight]
                })
                .collect();
            assert!(fill(&mut samples, width));
            for [red, green, blue, weight] in samples {
                assert!((0.2 - 1e-5..=0.7 + 1e-5).contains(&red), "{width}×{height}: {red}");
                assert!((green - 1.0).abs() < 1e-5 && blue == 0.0 && (weight - 1.0).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn samples_without_weight_stay_and_false_is_returned() {
        for samples in [vec![], vec![[0.3, 0.2, 0.1, 0.0]; 35]] {
            let mut filled = samples.clone();
            assert!(!fill(&mut filled, 7));
            assert_eq!(filled, samples);
        }
    }
}
