//! Clips: formats, inputs, timing, resuming, the real network.

pub(crate) mod formats;
#[cfg(target_os = "linux")]
mod full_disk;
pub(crate) mod inputs;
pub(crate) mod network;
pub(crate) mod support;
pub(crate) mod time;
