//! The integration tests: one binary, a module per behaviour.

mod engine_device;
mod engine_fake;
mod engine_queue;
mod http_admin;
mod http_connections;
mod http_daemon;
mod http_forms;
mod http_replies;
mod openapi;
