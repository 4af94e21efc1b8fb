//! The command line: configuration, remove, eval, bench, serve.

mod bench;
pub(crate) mod config;
pub(crate) mod eval;
pub(crate) mod remove;
pub(crate) mod serve;
