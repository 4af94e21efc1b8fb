//! The integration tests: one binary, a folder per part of the service, a module per behaviour.

mod account;
mod bulk;
mod cli;
mod codec;
mod daemon;
mod engine;
mod generate;
mod golden;
mod http;
mod jobs;
mod matting;
mod model;
mod nightly;
mod portraits;
mod soak;
mod source;
mod store;
mod support;
mod video;
