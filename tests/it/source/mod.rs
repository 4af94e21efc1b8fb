//! Fetching and address rules.

pub(crate) mod address;
pub(crate) mod fetch;
pub(crate) mod origin;
