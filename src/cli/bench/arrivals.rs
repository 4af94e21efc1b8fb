//! The schedule of a load from a seed: arrival times of a Poisson process, and the order of the photos.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Streams of the generator: the seed gives independent numbers for each use.
const ARRIVALS: u64 = 0;
const PHOTOS: u64 = 1;

fn random(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    random
}

/// Arrival times of a Poisson process with `rate` arrivals a second, since its start. Another rate scales the same times.
pub(super) fn poisson(rate: f64, seed: u64) -> impl Iterator<Item = Duration> {
    let mut random = random(seed, ARRIVALS);
    let mut at = 0.0;
    std::iter::repeat_with(move || {
        // The gaps are exponential: the inverse of their distribution function at a uniform number of 0..1.
        at -= (1.0 - random.random::<f64>()).ln() / rate;
        Duration::from_secs_f64(at)
    })
}

/// The order of the photos: rounds that have each photo once, shuffled, so that every run has the same mixture and no photo
/// keeps step with the concurrency.
#[derive(Debug)]
pub(super) struct PhotoOrder {
    round: Vec<usize>,
    next: usize,
    random: ChaCha8Rng,
}

impl PhotoOrder {
    /// For `photos`, at least one.
    pub(super) fn new(photos: usize, seed: u64) -> Self {
        Self { round: (0..photos).collect(), next: photos, random: random(seed, PHOTOS) }
    }

    /// The next photo.
    pub(super) fn next(&mut self) -> usize {
        if self.next == self.round.len() {
            self.round.shuffle(&mut self.random);
            self.next = 0;
        }
        self.next += 1;
        self.round[self.next - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(rate: f64, seed: u64, count: usize) -> Vec<f64> {
        let times: Vec<f64> = poisson(rate, seed).take(count).map(|at| at.as_secs_f64()).collect();
        [0.0].iter().chain(&times).zip(&times).map(|(before, at)| at - before).collect()
    }

    #[test]
    fn arrivals_are_those_of_their_seed() {
        assert_eq!(gaps(5.0, 7, 100), gaps(5.0, 7, 100));
        assert_ne!(gaps(5.0, 7, 100), gaps(5.0, 8, 100));
        // What a seed means may not change: recorded runs name it.
        let first: Vec<f64> = poisson(1.0, 0).take(4).map(|at| (at.as_secs_f64() * 1e3).round()).collect();
        assert_eq!(first, [1235.0, 1862.0, 3063.0, 3125.0]);
    }

    #[test]
    fn gaps_are_exponential() {
        let (rate, count) = (8.0, 100_000);
        let gaps = gaps(rate, 1, count);
        let mean = gaps.iter().sum::<f64>() / count as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count as f64;
        // Five standard errors: of the mean 1 / √n, of the variance √8 / √n, relative.
        let error = 5.0 / (count as f64).sqrt();
        assert!((mean * rate - 1.0).abs() < error, "{mean}");
        assert!((variance * rate * rate - 1.0).abs() < error * 8_f64.sqrt(), "{variance}");
        let longer = gaps.iter().filter(|&&gap| gap * rate > 1.0).count() as f64 / count as f64;
        assert!((longer - (-1_f64).exp()).abs() < error, "{longer}");
    }

    #[test]
    fn every_round_has_every_photo_and_the_order_is_that_of_the_seed() {
        let order = |seed| {
            let mut order = PhotoOrder::new(5, seed);
            (0..15).map(|_| order.next()).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        for round in order(1).chunks(5) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, [0, 1, 2, 3, 4]);
        }
    }
}
