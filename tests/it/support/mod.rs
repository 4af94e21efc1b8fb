//! Shared support: running the binary, tests in child processes, test tiers.

pub(crate) mod child_process;
pub(crate) mod command;
pub(crate) mod tier;
