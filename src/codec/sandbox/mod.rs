//! Runs decoders in separate processes that can do nothing but decode.
//!
//! ```text
//! daemon                                   decode worker (the same binary, `decode-worker`)
//!   encoded file → sealed memfd  ──────→   mapped read-only, decoded into a memfd
//!   width, height, memfd         ←──────   unmapped, or one of a few refusals
//!   sealed, mapped privately: a buffer
//! ```
//!
//! A worker has one socket and no other descriptor; its environment holds the library path and bounds on what
//! allocators reserve; memory and processor time are limited; it gains no new privileges. A seccomp filter allows the
//! system calls of decoding, fails `openat` and `clone3`, which the C library tries, and ends the process on any other
//! call. A Landlock ruleset allows no path. If the system lacks seccomp or Landlock the worker runs with the other
//! protections, and [`status`] reports it.
//!
//! The daemon reads twelve bytes of an answer and checks width and height against the requested ones; it does not
//! interpret pixels. A worker that crashes fails its picture as a damaged file; a late one is killed and fails its
//! picture too; the next picture gets another worker. A worker is replaced after a number of pictures, so that an
//! attacker who took it over sees few pictures of others.
//!
//! Linux only; on other systems decoders run in this process, with a warning.

#[cfg(target_os = "linux")]
mod channel;
mod config;
#[cfg(target_os = "linux")]
mod installed;
#[cfg(target_os = "linux")]
mod lockdown;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod protocol;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(all(test, target_os = "linux"))]
mod tests;
#[cfg(not(target_os = "linux"))]
mod unsupported;
#[cfg(target_os = "linux")]
mod worker;

pub use config::{DecodeConfig, SandboxMode};
#[cfg(target_os = "linux")]
pub(super) use installed::workers_of;
#[cfg(target_os = "linux")]
pub use installed::{install, install_program, start_early, status};
#[cfg(target_os = "linux")]
pub(crate) use lockdown::landlock_version;
#[cfg(target_os = "linux")]
pub use pool::Workers;
#[cfg(target_os = "linux")]
pub use process::Program;
#[cfg(not(target_os = "linux"))]
pub(super) use unsupported::workers_of;
#[cfg(not(target_os = "linux"))]
pub use unsupported::{install, run, start_early, status};
#[cfg(target_os = "linux")]
pub use worker::{run, run_with};

/// Maximum number of decode workers at once.
pub const MAX_WORKERS: usize = 4;
