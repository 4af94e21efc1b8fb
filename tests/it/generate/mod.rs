//! Generated backdrops.

pub(crate) mod daemon;
pub(crate) mod http;
pub(crate) mod images_api;
pub(crate) mod upstream;
