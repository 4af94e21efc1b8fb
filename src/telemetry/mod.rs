//! Prometheus metrics, logging, the texts of error chains and panics, and masked secrets.

mod addresses;
mod causes;
pub mod logging;
pub mod metrics;
mod panics;
mod secret;

pub use addresses::without_secrets;
pub use causes::with_causes;
pub use panics::panic_message;
pub use secret::Secret;
