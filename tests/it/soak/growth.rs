//! Growth of the daemon's memory (VmRSS) and descriptors over the number of its requests.

/// Requests before the first sample: they create threads and scratch memory, which are kept.
pub(super) const WARM_UP: u64 = 1000;
/// Bytes by which memory may grow with each request.
const GROWTH: f64 = 1000.0;
/// Requests after which high-water marks, of rare requests at once and of the allocator, hardly rise.
const SETTLED: f64 = 20_000.0;
/// Requests beyond them over which the line of least squares distinguishes [`GROWTH`] from noise.
const ENOUGH: f64 = 50_000.0;
/// Bytes by which memory may differ in a shorter run beside its growth.
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

/// The samples of a run that is long enough for the line: those after [`SETTLED`] requests, where [`ENOUGH`] follow.
pub(super) fn settled(samples: &[Sample]) -> Option<&[Sample]> {
    let settled = &samples[samples.partition_point(|sample| sample.requests < SETTLED)..];
    let requests = settled.last()?.requests - settled.first()?.requests;
    (requests >= ENOUGH).then_some(settled)
}

/// An error where memory grows by more than [`GROWTH`] with each request: by the line in a long run, else from the first to the
/// last quarter of the samples, with [`NOISE`]; and where there are more than `most_more` descriptors more than at first.
/// Without samples, an error where they are `required`.
pub(super) fn check(samples: &[Sample], most_more: usize, required: bool) -> Result<(), String> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        let missing = format!("memory is not compared: fewer than {WARM_UP} requests after the last kill");
        return if required { Err(missing) } else { Ok(()) };
    };
    let most = samples.iter().map(|sample| sample.descriptors).max().unwrap_or_default();
    if most > first.descriptors + most_more {
        return Err(format!("{most} descriptors, {} at first", first.descriptors));
    }
    if let Some(settled) = settled(samples) {
        let slope = slope(settled);
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
    check(&run(requests, memory), 0, true).is_ok()
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
    assert!(passes(60_000, |requests| 1100.0 * requests));
    assert!(!passes(60_000, |requests| 3000.0 * requests));
    assert!(!passes(5000, |requests| 20_000.0 * requests));
}

#[test]
fn noise_and_what_is_kept_from_the_beginning_pass() {
    assert!(passes(5000, |requests| if requests < 2500.0 { 0.0 } else { 40e6 }));
    assert!(passes(100_000, |requests| if requests < 15_000.0 { 0.0 } else { 200e6 }));
    assert!(passes(100_000, |requests| 60e6 * (requests % 1000.0) / 1000.0));
}

#[test]
fn missing_samples_and_more_descriptors_fail() {
    assert!(check(&[], 0, true).is_err() && check(&[], 0, false).is_ok());
    let mut samples = run(1000, |_| 0.0);
    samples[5].descriptors += 3;
    assert!(check(&samples, 2, true).is_err() && check(&samples, 3, true).is_ok());
}
