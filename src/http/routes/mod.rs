//! Handlers of the endpoints, one file each.

pub(super) mod account;
mod backdrop;
pub(super) mod batch;
pub(super) mod bulk;
pub(super) mod estimate;
pub(super) mod image;
pub(super) mod jobs;
pub(super) mod models;
pub(super) mod presets;
pub(super) mod results;
pub(super) mod usage;
pub(super) mod video;
