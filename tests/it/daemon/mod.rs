//! The daemon as a process.

pub(crate) mod crash;
pub(crate) mod memory;
