//! The command line: configuration, remove, watch, pipe, eval, bench, serve, models, doctor, manual pages, a closed standard error.

mod bench;
#[cfg(unix)]
mod closed_stderr;
pub(crate) mod config;
mod doctor;
pub(crate) mod eval;
#[cfg(feature = "gpu")]
mod gpu;
mod manual;
mod models;
mod pipe;
pub(crate) mod remove;
pub(crate) mod serve;
#[cfg(target_os = "linux")]
pub(crate) mod socket_activation;
#[cfg(unix)]
mod watch;
