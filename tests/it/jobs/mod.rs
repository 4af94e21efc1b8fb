//! Recovery of jobs after crashes of the daemon.

pub(crate) mod crash;
pub(crate) mod video_crash;
mod video_engine;
