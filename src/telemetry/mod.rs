//! What the daemon reports: Prometheus metrics, the log, and error and panic texts for it.

mod causes;
pub mod metrics;
mod panics;
pub mod tracing;

pub use causes::with_causes;
pub use panics::panic_message;
