//! The command line: configuration, remove, eval, bench, serve.

mod bench;
pub(crate) mod config;
pub(crate) mod eval;
#[cfg(feature = "gpu")]
mod gpu;
pub(crate) mod remove;
pub(crate) mod serve;
