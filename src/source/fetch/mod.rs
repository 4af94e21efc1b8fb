//! Fetches callers' URLs over HTTPS, protected against server-side request forgery (SSRF).

mod address_policy;
mod body;
mod error;
mod fetcher;
mod response;
mod tls;

pub use body::{MemoryBudget, OutOfMemory};
pub use error::{FetchConfigError, FetchError, FetchFailure};
pub use fetcher::Fetcher;
pub use response::is_coded;
