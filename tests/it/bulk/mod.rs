//! `backdrop bulk` over object stores.

pub(crate) mod cluster;
pub(crate) mod crash;
pub(crate) mod faults;
pub(crate) mod files;
pub(crate) mod http;
pub(crate) mod listing;
pub(crate) mod s3;
pub(crate) mod support;
