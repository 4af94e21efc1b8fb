//! The daemon as a process: crashes and memory.

pub(crate) mod crash;
pub(crate) mod memory;
