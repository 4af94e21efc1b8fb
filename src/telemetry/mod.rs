//! Prometheus metrics, logging, and the texts of error chains and panics.

mod addresses;
mod causes;
pub mod logging;
pub mod metrics;
mod panics;

pub use addresses::without_secrets;
pub use causes::with_causes;
pub use panics::panic_message;
