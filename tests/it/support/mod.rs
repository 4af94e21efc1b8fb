//! Shared support: running the binary, tests in child processes, hang guards, test tiers.

pub(crate) mod child_process;
pub(crate) mod command;
pub(crate) mod hang_guard;
pub(crate) mod tier;
