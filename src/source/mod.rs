//! Sources of pictures other than uploads: callers' URLs (SSRF-safe HTTPS) and object storage.

mod address_range;
mod config;
mod fetch;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod global_address;
mod local_store;
mod place;
mod resolve;
mod storage;
mod unaddressable_keys;

pub use address_range::{AddressRange, NotARange};
pub use config::FetchConfig;
pub use fetch::{FetchConfigError, FetchError, FetchFailure, Fetcher, MemoryBudget, OutOfMemory, is_coded};
pub use place::Place;
pub use resolve::Resolve;
pub use storage::{StorageError, StorageLocation};
pub use unaddressable_keys::decode_unaddressable;
