//! What the daemon tells about itself: numbers for Prometheus, lines for the log.

pub mod metrics;
pub mod tracing;
