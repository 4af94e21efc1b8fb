//! Routes in the wire formats of other services: remove.bg v1.0, rembg's server 2.0 and Photoroom's `/v1/segment`.
//!
//! A request is translated to the fields of one recipe (`recipe::DROP_IN`), is authorized and processed like `/remove`,
//! and its reply is translated back. docs/migrate.md lists the differences.
//!
//! ```text
//! dispatch   paths, methods, key, caller → handler; GET /v1.0/account, /v1/account
//! input      multipart, urlencoded and JSON bodies → texts and files
//! removebg, rembg, photoroom   texts → Fields      values     switches, colours, sizes
//! cutout     Fields → authorize → pipeline → finished picture
//! reply      headers and bodies of replies         archive    PNG → color.jpg and alpha.png
//! refusal    ApiError → envelope, status and codes of the service
//! config     section `[compat]`
//! ```

mod archive;
pub(super) mod config;
mod cutout;
mod dispatch;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod input;
mod photoroom;
mod refusal;
mod rembg;
mod removebg;
mod reply;
mod values;

pub use config::CompatConfig;
pub(super) use dispatch::{answer, find};
