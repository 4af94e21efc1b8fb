//! The daemon as a process: crashes, memory, overload and its decode workers.

pub(crate) mod cluster;
pub(crate) mod crash;
pub(crate) mod decode_workers;
pub(crate) mod memory;
mod overload;
