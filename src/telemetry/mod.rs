//! What the daemon tells about itself: numbers for Prometheus, lines for the log.

mod causes;
pub mod metrics;
pub mod tracing;

pub use causes::with_causes;
