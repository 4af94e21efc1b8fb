//! Reads the daemon's metrics: paths without a request, and 5xx answers, including answers that no client has read.

use crate::soak::inputs::{DROP_INS, QUERIES};
use backdrop::http::router::ROUTES;

/// Paths without a request.
pub(super) fn missing_paths(metrics: &str) -> Vec<&'static str> {
    let routes = ROUTES.iter().map(|route| route.path);
    let all = routes.chain(DROP_INS.map(|(path, ..)| path)).chain(QUERIES);
    all.filter(|path| !metrics.contains(&format!("{{endpoint=\"{path}\","))).collect()
}

/// Counts of 5xx answers except 503, which a full disk causes.
pub(super) fn faults(metrics: &str) -> Vec<&str> {
    let counts = metrics.lines().filter(|line| line.starts_with("backdrop_requests_total{"));
    counts.filter(|line| line.contains("code=\"5") && !line.contains("code=\"503\"")).collect()
}

#[test]
fn paths_and_faults_are_read_from_the_metrics() {
    let line = |path: &str, code: u16| format!("backdrop_requests_total{{endpoint=\"{path}\",code=\"{code}\"}} 5\n");
    let metrics = ["/remove", "/jobs/{job_id}", "/v1/segment", "/"].map(|path| line(path, 200)).concat();
    let missing = missing_paths(&metrics);
    assert!(!missing.iter().any(|path| ["/remove", "/jobs/{job_id}", "/v1/segment", "/"].contains(path)));
    assert!(["/remove-url", "/jobs", "/api/remove", "/v1/account"].iter().all(|path| missing.contains(path)));
    assert!(faults(&metrics).is_empty() && faults(&line("/bulk", 503)).is_empty());
    assert_eq!(faults(&(metrics + &line("/mask", 500) + &line("/mask", 504))).len(), 2);
}
