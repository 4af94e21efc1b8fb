//! Generated backdrops: the endpoint, image APIs, the daemon with both.

pub(crate) mod daemon;
pub(crate) mod http;
pub(crate) mod images_api;
pub(crate) mod upstream;
