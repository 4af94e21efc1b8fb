//! Clips: formats, inputs, timing, resuming, the real network.

pub(crate) mod formats;
pub(crate) mod inputs;
pub(crate) mod network;
pub(crate) mod support;
pub(crate) mod time;
