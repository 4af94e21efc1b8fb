//! Where pictures come from beside uploads: callers' URLs.

pub mod address;
mod config;
mod fetch;
mod resolve;

pub use config::FetchConfig;
pub use fetch::{FetchConfigError, FetchError, Fetcher};
pub use resolve::Resolve;
