//! The HTTP interface: a public listener for callers and an admin listener for operators.
//!
//! ```text
//! app              services behind both listeners     state            what the public endpoints share     caller   account and key
//! listeners        runs both until shutdown           public, admin    the service of each                 config   settings
//! standby          admin listener while the database cannot be opened yet
//!
//! connections
//!   server           accepts; HTTP/1.1 and h2c          connection       timeouts                            tls      certificate, reload
//!   connection_limits  in all and by address            descriptors      limit of open files
//!   proxy_protocol   client address of a connection     client_address   of a request (X-Forwarded-For)
//!   head_check       Host, Transfer-Encoding (400), size (431)           head_refusal   malformed heads (400, 431)
//!   drain            graceful shutdown (503)            tracked_body, write_progress   replies to slow clients
//!
//! requests
//!   request_context  id, panic → 500, error envelope, log, metrics       request_id, cors   headers of web pages
//!   router           path and method (404, 405)
//!   authenticate     key (401) → rate (429) → scope (403)                auth_throttle  wrong keys, by address
//!   image_request    form, JSON or raw body → valid fields, recipe, files and URLs (400)
//!     body, form, multipart, json, picture_json, base64_picture, input_names       upload_memory  by account (429)
//!   authorize        model (400) → plan (402) → preset (404) → Idempotency-Key (409) → quota (402)
//!     model_select, preset_fields, idempotency
//!   fetching         pictures by URL (424)              backdrop         generated backdrops (502)
//!   clip, clip_probe uploaded clips: to disk, ffprobe
//!   routes           handlers: fetching → processing → billing → reply    compat   the same in other services' wire formats
//!   bulk_runs        bulk runs of keys: queue, allowed places, preparation
//!   fair_queue       places and turns by account (429)
//!   image_processor  processes one picture              docs             contract and documentation pages
//!   page             the page at `/` and its files
//!
//! replies
//!   reply            pages, JSON, files                 picture_reply    pictures and their headers          range    of a file
//!   reply_budget     memory of finished pictures, by account
//!   error_code, error, error_mapping   codes and statuses; domain errors → codes
//! ```
//!
//! The checks of a request run in the order of this list, each before the next can cost anything; for clips `routes::video`
//! lists them. Limits are enforced while bytes arrive. Where a client disconnects, the future of its request is dropped, which
//! cancels its work in the engine.

mod admin;
mod app;
mod auth_throttle;
mod authenticate;
mod authorize;
mod backdrop;
mod base64_picture;
mod body;
mod bulk_runs;
mod caller;
mod client_address;
mod clip_probe;
mod clip_upload;
pub mod compat;
pub mod config;
mod connection;
mod connection_limits;
mod cors;
pub mod descriptors;
mod docs;
mod drain;
pub mod error;
mod error_code;
mod error_mapping;
mod fair_queue;
mod fetching;
mod form;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod head_check;
mod head_refusal;
mod idle;
mod image_processor;
mod image_request;
mod input_names;
mod json;
mod listeners;
mod model_select;
mod multipart;
pub mod openapi;
mod page;
mod picture_json;
mod picture_reply;
mod preset_fields;
mod proxy_protocol;
mod public;
mod range;
mod reply;
mod reply_budget;
mod request_context;
mod request_fingerprint;
mod request_id;
pub mod router;
mod routes;
mod server;
mod standby;
mod state;
pub mod tls;
mod tracked_body;
mod upload_memory;
mod write_progress;

pub use app::{Administer, App};
pub use bulk_runs::{BulkRefusal, BulkRequest, BulkRuns, PrepareBulk};
pub use caller::Caller;
pub use clip_probe::{Inspect, Inspector};
pub use fetching::Fetch;
pub use image_processor::{Finished, ImageProcessor};
pub use listeners::serve;
pub use standby::{Standby, stand_by};
