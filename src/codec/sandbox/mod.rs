//! Runs decoders in processes of their own that can do nothing but decode.
//!
//! ```text
//! daemon                                   decode worker (the same binary, `decode-worker`)
//!   encoded file → sealed memfd  ──────→   mapped read-only, decoded into a memfd
//!   width, height, memfd         ←──────   unmapped, or one of a few refusals
//!   sealed, mapped privately: a buffer
//! ```
//!
//! A worker has one socket and no other descriptor, no environment but where its libraries are and bounds on what allocators
//! reserve, limits on memory and processor time, no new privileges, a seccomp filter that allows what decoding needs and ends the
//! process on other system calls (`openat` and `clone3`, which the C library tries, fail), and a Landlock ruleset without a path.
//! Where the system lacks seccomp or Landlock the worker runs with the rest, and [`status`] says so.
//! The daemon reads twelve bytes of an answer and checks width and height against the requested ones; pixels are data that it
//! does not interpret. A worker that crashes fails its picture (a damaged file), one that is late is killed and fails its
//! picture too, and the next picture has another worker. A worker is replaced after a number of pictures, so that an attacker who
//! took one over sees few pictures of others.
//!
//! Only Linux has what this needs; elsewhere decoders run in this process, with a warning.

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

/// The number of decode workers at once is at most this.
pub const MAX_WORKERS: usize = 4;
