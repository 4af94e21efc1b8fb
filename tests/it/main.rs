//! The integration tests: one binary, a module per behaviour.

mod engine_device;
mod engine_fake;
mod engine_pipeline;
mod engine_queue;
