//! Growth of the daemon's memory (VmRSS) and descriptors over the number of its requests.

use crate::soak::LONG;
use std::time::Duration;

/// Requests before the first sample, which create threads and scratch memory.
pub(super) const WARM_UP: u64 = 1000;
/// Bytes by which memory may grow with each request.
const GROWTH: f64 = 1000.0;
/// Requests after which the high-water marks of rare simultaneous requests and of the allocator hardly rise.
const SETTLED: f64 = 20_000.0;
/// Requests beyond [`SETTLED`] over which the line of least squares distinguishes [`GROWTH`] from noise.
const ENOUGH: f64 = 50_000.0;
/// A run of this length or more must have [`ENOUGH`].
const HOUR: Duration = Duration::from_secs(3600);
/// Bytes by which memory may differ in a shorter run in addition to [`GROWTH`].
const NOISE: f64 = 48e6;

/// A moment of the last daemon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Requests answered before.
    pub(super) requests: f64,
    /// Bytes.
    pub(super) memory: f64,
    pub(super) descriptors: usize,
}

fn mean(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    samples.iter().map(of).sum::<f64>() / samples.len() as f64
}

/// Bytes of memory by request: the slope of the line of least squares.
pub(super) fn slope(samples: &[Sample]) -> f64 {
    let (x, y) = (mean(samples, |sample| sample.requests), mean(samples, |sample| sample.memory));
    let above: f64 = samples.iter().map(|sample| (sample.requests - x) * (sample.memory - y)).sum();
    let below: f64 = samples.iter().map(|sample| (sample.requests - x).powi(2)).sum();
    if below > 0.0 { above / below } else { 0.0 }
}

/// The samples after [`SETTLED`] requests, and the number of requests from the first to the last of them.
fn settled(samples: &[Sample]) -> (&[Sample], f64) {
    let settled = &samples[samples.partition_point(|sample| sample.requests < SETTLED)..];
    let requests = match settled {
        [first, .., last] => last.requests - first.requests,
        _ => 0.0,
    };
    (settled, requests)
}

/// Bytes of memory a request after [`SETTLED`] requests; `None` if fewer than [`ENOUGH`] follow.
pub(super) fn settled_slope(samples: &[Sample]) -> Option<f64> {
    let (settled, requests) = settled(samples);
    (requests >= ENOUGH).then(|| slope(settled))
}

/// Fails when memory grows by more than [`GROWTH`] with each request, by the line of least squares or, in a short run, from the first
/// to the last quarter of the samples, with [`NOISE`]; when there are more than `most_more` descriptors more than in the first
/// sample; or when a run of this `length` has too few samples.
pub(super) fn check(samples: &[Sample], most_more: usize, length: Duration) -> Result<(), String> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        let missing = format!("memory is not compared: fewer than {WARM_UP} requests after the last kill");
        return if length >= LONG { Err(missing) } else { Ok(()) };
    };
    let most = samples.iter().map(|sample| sample.descriptors).max().unwrap_or_default();
    if most > first.descriptors + most_more {
        return Err(format!("{most} descriptors, {} at first", first.descriptors));
    }
    let (_, requests) = settled(samples);
    if length >= HOUR && requests < ENOUGH {
        let most = SETTLED + requests;
        return Err(format!("memory has no slope: {most} requests after the last kill, of {}", SETTLED + ENOUGH));
    }
    if let Some(slope) = settled_slope(samples) {
        return if slope <= GROWTH { Ok(()) } else { Err(format!("memory grows by {slope:.0} bytes a request")) };
    }
    let quarter = samples.len().div_ceil(4);
    let memory = |samples: &[Sample]| mean(samples, |sample| sample.memory);
    let growth = memory(&samples[samples.len() - quarter..]) - memory(&samples[..quarter]);
    let requests = last.requests - first.requests;
    let is_little = growth <= GROWTH * requests + NOISE;
    if is_little { Ok(()) } else { Err(format!("memory grows by {growth:.0} bytes in {requests} requests")) }
}

/// A sample every hundred requests.
fn run(requests: u32, memory: impl Fn(f64) -> f64) -> Vec<Sample> {
    let counts = (0..=requests / 100).map(|count| f64::from(count) * 100.0);
    counts.map(|requests| Sample { requests, memory: 4e8 + memory(requests), descriptors: 40 }).collect()
}

fn passes(requests: u32, memory: impl Fn(f64) -> f64) -> bool {
    check(&run(requests, memory), 0, LONG).is_ok()
}

#[test]
fn the_slope_is_that_of_the_line() {
    assert!((slope(&run(10_000, |requests| 700.0 * requests)) - 700.0).abs() < 1e-6);
    assert!(slope(&run(0, |_| 0.0)).abs() < 1e-6);
}

#[test]
fn a_leak_fails_a_run_by_its_length() {
    assert!(passes(100_000, |requests| 900.0 * requests));
    assert!(!passes(100_000, |requests| 1100.0 * requests));
    // Too short for the line.
    assert!(passes(30_000, |requests| 1100.0 * requests));
    assert!(!passes(30_000, |requests| 4000.0 * requests));
    assert!(!passes(5000, |requests| 20_000.0 * requests));
}

#[test]
fn a_run_of_an_hour_with_too_few_requests_for_the_slope_fails() {
    let checked = |requests, length| check(&run(requests, |_| 0.0), 0, length).is_ok();
    assert!(checked(70_000, HOUR) && !checked(69_000, HOUR));
    assert!(checked(69_000, Duration::from_secs(3599)));
}

#[test]
fn noise_and_what_is_kept_from_the_beginning_pass() {
    assert!(passes(5000, |requests| if requests < 2500.0 { 0.0 } else { 40e6 }));
    assert!(passes(60_000, |requests| if requests < 40_000.0 { 0.0 } else { 60e6 }));
    assert!(passes(100_000, |requests| if requests < 15_000.0 { 0.0 } else { 200e6 }));
    assert!(passes(100_000, |requests| 60e6 * (requests % 1000.0) / 1000.0));
}

#[test]
fn missing_samples_and_more_descriptors_fail() {
    assert!(check(&[], 0, LONG).is_err() && check(&[], 0, Duration::ZERO).is_ok());
    let mut samples = run(1000, |_| 0.0);
    samples[5].descriptors += 3;
    assert!(check(&samples, 2, LONG).is_err() && check(&samples, 3, LONG).is_ok());
}
