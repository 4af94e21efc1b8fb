//! `backdrop bulk` over object stores.

pub(crate) mod cluster;
pub(crate) mod crash;
pub(crate) mod faults;
pub(crate) mod files;
pub(crate) mod http;
#[cfg(target_os = "linux")]
pub(crate) mod idle_exit;
pub(crate) mod in_process;
pub(crate) mod listing;
pub(crate) mod s3;
pub(crate) mod support;
