//! Prometheus metrics, logging, and the texts of error chains and panics.

mod causes;
pub mod metrics;
mod panics;
pub mod tracing;

pub use causes::with_causes;
pub use panics::panic_message;
