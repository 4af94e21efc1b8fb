//! Searches the highest rate of the server scenario that meets the bound: steps from the service's throughput until the rate
//! is bracketed, then halves the bracket (on a logarithmic scale) to 5 %.

/// Ratio of the rates that ends the search.
const PRECISION: f64 = 1.05;
/// Runs at most.
const MAX_RUNS: usize = 16;
/// The search ends below this share of the throughput: the latency of a single picture is then above the bound.
const LEAST_SHARE: f64 = 1.0 / 16.0;

/// The state of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateSearch {
    throughput: f64,
    runs: usize,
    /// The highest rate that met the bound.
    pub(super) met: Option<f64>,
    /// The lowest rate above `met` that missed the bound.
    pub(super) missed: Option<f64>,
}

impl RateSearch {
    /// For a service with this throughput in a closed loop.
    pub(super) const fn new(throughput: f64) -> Self {
        Self { throughput, runs: 0, met: None, missed: None }
    }

    /// The rate to try next; `None` at the end.
    pub(super) fn next(&self) -> Option<f64> {
        let rate = match (self.met, self.missed) {
            // Queues grow long above some 80 % of the throughput (M/D/1).
            (None, None) => self.throughput * 0.7,
            (Some(met), None) => met * 1.25,
            (None, Some(missed)) if missed < self.throughput * LEAST_SHARE => return None,
            (None, Some(missed)) => missed * 0.6,
            (Some(met), Some(missed)) if missed / met <= PRECISION => return None,
            (Some(met), Some(missed)) => (met * missed).sqrt(),
        };
        (self.runs < MAX_RUNS).then_some(rate)
    }

    /// Records the outcome of `rate`.
    pub(super) fn record(&mut self, rate: f64, met: bool) {
        self.runs += 1;
        *(if met { &mut self.met } else { &mut self.missed }) = Some(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome and the number of runs for a service that meets the bound up to `limit`.
    fn search(throughput: f64, limit: f64) -> (RateSearch, usize) {
        let mut search = RateSearch::new(throughput);
        while let Some(rate) = search.next() {
            search.record(rate, rate <= limit);
        }
        (search, search.runs)
    }

    #[test]
    fn the_limit_is_found_to_5_percent_wherever_it_is() {
        for limit in [1.0, 3.0, 6.9, 7.1, 9.0, 9.9, 15.0] {
            let (search, runs) = search(10.0, limit);
            let (met, missed) = (search.met.unwrap(), search.missed.unwrap());
            assert!(met <= limit && limit < missed && missed / met <= PRECISION, "{limit}: {search:?}");
            assert!(runs <= 11, "{limit}: {runs}");
        }
    }

    #[test]
    fn a_bound_that_no_rate_or_every_rate_meets_ends_the_search() {
        let ((none, runs), (every, most)) = (search(10.0, 0.0), search(10.0, f64::MAX));
        assert_eq!((none.met, runs, every.missed, most), (None, 6, None, MAX_RUNS));
    }
}
