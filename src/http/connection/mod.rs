//! Connections: listeners, TLS, PROXY protocol, limits, timeouts, graceful shutdown.

pub(super) mod client_address;
pub mod descriptors;
pub(super) mod drain;
pub(super) mod head_refusal;
pub(super) mod idle;
pub(super) mod limits;
pub(super) mod listeners;
pub(super) mod proxy_protocol;
pub(super) mod server;
pub(super) mod timeouts;
pub mod tls;
pub(super) mod write_progress;
