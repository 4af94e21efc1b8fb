//! Shared support: running the binary, test tiers.

pub(crate) mod command;
pub(crate) mod tier;
