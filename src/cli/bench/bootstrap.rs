//! Confidence intervals of the ratio of a statistic in two series of measurements, by the circular block bootstrap.
//!
//! Politis and Romano, "A circular block-resampling procedure for stationary data", 1992. Consecutive measurements are correlated
//! (queues, batches, the clock of the processor), so that resampling single measurements would give too narrow intervals.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Resamples; the ends of the interval are the 5th from either end.
const RESAMPLES: usize = 1000;
/// Nominal coverage, in percent.
pub(super) const CONFIDENCE: u32 = 99;
/// A constant: the intervals of two records are reproducible.
const SEED: u64 = 0;

/// The ratio of a statistic, `b` to `a`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) a: f64,
    pub(super) b: f64,
    pub(super) ratio: f64,
    /// The ends of the confidence interval of the ratio.
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Compares a statistic of two series, each in the order of measurement and not empty. The statistic may reorder its slice.
pub(super) fn ratio(a: &[f64], b: &[f64], statistic: impl Fn(&mut [f64]) -> f64) -> Ratio {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut resampled = |series: &[f64]| statistic(&mut resample(series, &mut random));
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| resampled(b) / resampled(a)).collect();
    ratios.sort_by(f64::total_cmp);
    let tail = RESAMPLES * (100 - CONFIDENCE as usize) / 200;
    let (a, b) = (statistic(&mut a.to_vec()), statistic(&mut b.to_vec()));
    Ratio { a, b, ratio: b / a, low: ratios[tail - 1], high: ratios[RESAMPLES - tail] }
}

/// Blocks of √n measurements from random places, the end followed by the beginning, up to the length of the series.
fn resample(series: &[f64], random: &mut ChaCha8Rng) -> Vec<f64> {
    let count = series.len();
    let block = (count as f64).sqrt().ceil() as usize;
    let mut resampled = Vec::with_capacity(count + block);
    while resampled.len() < count {
        let from = random.random_range(0..count);
        let to = (from + block).min(count);
        resampled.extend_from_slice(&series[from..to]);
        resampled.extend_from_slice(&series[..from + block - to]);
    }
    resampled.truncate(count);
    resampled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(series: &mut [f64]) -> f64 {
        series.iter().sum::<f64>() / series.len() as f64
    }

    /// Latencies of about 80 ms that follow each other closely: an autoregressive process with coefficient 0.7.
    fn correlated(count: usize, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut state = 0.0;
        let mut next = || {
            state = 0.7 * state + random.random_range(-1.0..1.0);
            80.0 * (1.0 + 0.05 * state)
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn intervals_of_equal_processes_hold_1_almost_always() {
        let missed = (0..100).filter(|&seed| {
            let interval = ratio(&correlated(400, seed), &correlated(400, seed + 1000), mean);
            interval.low > 1.0 || interval.high < 1.0
        });
        // 99 % nominal; a few more are missed, because 20 blocks are few.
        let missed = missed.count();
        assert!(missed <= 5, "{missed} of 100");
    }

    #[test]
    fn the_interval_is_about_the_ratio_and_is_reproducible() {
        let a = correlated(400, 1);
        let b: Vec<f64> = correlated(400, 2).iter().map(|ms| ms * 1.2).collect();
        let interval = ratio(&a, &b, mean);
        assert!(interval.low > 1.1 && interval.low < 1.2 && interval.high > 1.2 && interval.high < 1.3, "{interval:?}");
        assert_eq!(ratio(&a, &b, mean), interval);
    }
}
