//! Jobs across crashes.

pub(crate) mod crash;
pub(crate) mod video_crash;
