//! Limits of a process of ffmpeg or ffprobe: processor time, memory, output, files.

use std::path::Path;

#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux confines processes"))]
pub(super) struct ResourceLimits {
    /// Seconds of processor time, over all threads.
    pub(super) cpu: u64,
    pub(super) memory: u64,
    /// Bytes of the largest file that it may write.
    pub(super) file: u64,
}

/// The files that a process may use in addition to the system's.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux confines processes"))]
pub(super) struct Files<'a> {
    /// The clip to read.
    pub(super) input: Option<&'a Path>,
    /// The job's folder: working directory, and writable.
    pub(super) folder: Option<&'a Path>,
}
