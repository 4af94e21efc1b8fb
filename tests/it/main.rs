//! The integration tests: one binary, a module per behaviour.

mod cli_config;
mod cli_eval;
mod cli_remove;
mod cli_serve;
mod command;
