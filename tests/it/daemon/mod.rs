//! The daemon as a process: crashes and memory.

pub(crate) mod cluster;
pub(crate) mod crash;
pub(crate) mod memory;
