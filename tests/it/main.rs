//! The integration tests: one binary, a module per behaviour.

mod keys_admin;
mod keys_commands;
mod keys_model;
mod keys_service;
mod store_crash;
mod store_open;
mod store_queue;
mod store_records;
mod store_support;
