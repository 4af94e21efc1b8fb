//! Where pictures come from beside uploads: callers' URLs, and object storage.

pub mod address;
mod config;
mod fetch;
mod folder;
mod objects;
mod odd_keys;
mod resolve;

pub use config::FetchConfig;
pub use fetch::{FetchConfigError, FetchError, Fetcher};
pub use objects::{Objects, ObjectsError};
pub use odd_keys::unaddressable;
pub use resolve::Resolve;
