//! Generated backdrops: `/replace-bg-ai` over HTTP, in the real daemon, and against a fake image API.

pub(crate) mod daemon;
pub(crate) mod http;
pub(crate) mod images_api;
pub(crate) mod upstream;
