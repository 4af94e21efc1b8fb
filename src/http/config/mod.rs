//! Settings of the HTTP listeners: sections `[server]` and `[limits]`.

mod limits;
mod server;

pub use limits::LimitsConfig;
pub use server::HttpConfig;
