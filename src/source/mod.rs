//! Where pictures come from beside uploads: callers' URLs, and object storage.

pub mod address;
mod address_range;
mod config;
mod fetch;
mod folder;
mod interfaces;
mod objects;
mod odd_keys;
mod resolve;

pub use address_range::{AddressRange, NotARange};
pub use config::FetchConfig;
pub use fetch::{FetchConfigError, FetchError, FetchFailure, Fetcher, NoRoom, Room};
pub use objects::{Objects, ObjectsError};
pub use odd_keys::unaddressable;
pub use resolve::Resolve;
