//! Module cli.

pub mod accounts;
pub mod keys;
mod operate;
