//! Shared support: the binary, child processes, servers, hang guards, pictures, a fake network, notices, test tiers.

pub(crate) mod child_process;
pub(crate) mod command;
pub(crate) mod hang_guard;
pub(crate) mod haproxy;
pub(crate) mod isa;
pub(crate) mod moto;
pub(crate) mod onnxruntime;
pub(crate) mod pictures;
pub(crate) mod postgres;
pub(crate) mod postgres_pair;
pub(crate) mod segmenter;
pub(crate) mod skipped;
#[cfg(target_os = "linux")]
pub(crate) mod small_disk;
pub(crate) mod tier;
