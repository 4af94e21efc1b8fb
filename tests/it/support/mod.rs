//! Shared support: the binary, child processes, hang guards, pictures, a fake network, test tiers.

pub(crate) mod child_process;
pub(crate) mod command;
pub(crate) mod hang_guard;
pub(crate) mod isa;
pub(crate) mod pictures;
pub(crate) mod segmenter;
pub(crate) mod tier;
