//! Commands other than `serve` and `bulk`.

pub(crate) mod config;
pub(crate) mod eval;
pub(crate) mod remove;
pub(crate) mod serve;
