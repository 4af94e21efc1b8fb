//! One module for each kind of endpoint.

pub(super) mod batch;
pub(super) mod image;
