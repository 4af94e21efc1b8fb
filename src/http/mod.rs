//! The HTTP interface: a public listener for callers and an admin listener for operators.
//!
//! ```text
//! app              services behind both listeners      state     what the public endpoints share      config   settings
//! public, admin    the service of each listener        standby   admin listener while the database cannot be opened yet
//! router           path and method (404, 405)          request_context   id, panic → 500, error envelope, log, metrics
//!
//! connection       listeners, TLS, PROXY protocol, limits, timeouts, drain (503)
//! admission        key (401) → rate (429) → scope (403); after the fields: model (400) → plan (402) → preset (404) →
//!                  Idempotency-Key (409) → quota (402); memory of each account (429)
//! request          form, JSON or raw body → valid fields, recipe, files and URLs (400); fetching (424)
//! routes           handlers: fetching → processing → billing → reply
//! compat           the routes in other services' wire formats
//! contract         OpenAPI and `/docs`                 page      the page at `/` and its files
//! reply            pages, JSON, pictures and their headers; codes and statuses
//! error_mapping    domain errors → codes
//! ```
//!
//! The checks of a request run in the order of `admission`, each before the next can cost anything; for clips `routes::video`
//! lists them. Limits are enforced while bytes arrive. Where a client disconnects, the future of its request is dropped, which
//! cancels its work in the engine.

mod admin;
mod admission;
mod app;
mod bulk_runs;
pub mod compat;
pub mod config;
mod connection;
pub mod contract;
mod error_mapping;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod image_processor;
mod page;
mod public;
mod reply;
mod request;
mod request_context;
pub mod router;
mod routes;
mod standby;
mod state;

pub use admission::Caller;
pub use app::{Administer, App};
pub use bulk_runs::{BulkRefusal, BulkRequest, BulkRuns, PrepareBulk};
pub use connection::listeners::serve;
pub use connection::{descriptors, tls};
pub use image_processor::ImageProcessor;
pub(crate) use reply::ApiError;
pub use reply::ErrorCode;
pub(crate) use reply::picture_reply::local_reply;
pub use request::clip_probe::{Inspect, Inspector};
pub use request::fetching::Fetch;
pub use standby::{Standby, stand_by};
