//! Accounts, keys, quotas and the admin API.

pub(crate) mod keys_admin;
pub(crate) mod keys_commands;
pub(crate) mod keys_model;
pub(crate) mod keys_service;
pub(crate) mod quota;
