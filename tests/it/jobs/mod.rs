//! Recovery of jobs after crashes of the daemon.

pub(crate) mod video_crash;
mod video_engine;
