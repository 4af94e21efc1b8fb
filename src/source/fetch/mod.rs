//! Fetches callers' URLs over HTTPS, protected against server-side request forgery (SSRF).

mod address_policy;
mod body;
mod connect;
mod error;
mod fetcher;
mod memory_budget;
mod response;
mod tls;

pub use error::{FetchConfigError, FetchError, FetchFailure};
pub use fetcher::Fetcher;
pub use memory_budget::{MemoryBudget, OutOfMemory};
pub use response::is_coded;
