//! Clips: formats, inputs, timing, resuming, killed processes, the real network.

pub(crate) mod formats;
#[cfg(target_os = "linux")]
mod full_disk;
pub(crate) mod inputs;
#[cfg(unix)]
mod killed;
pub(crate) mod network;
pub(crate) mod support;
pub(crate) mod time;
