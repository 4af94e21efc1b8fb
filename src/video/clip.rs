//! Properties of a probed clip, and the processed result.

use super::Rate;
use crate::image::Size;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum file size of a clip in bytes.
pub const MAX_BYTES: u64 = 200_000_000;

/// Properties of a probed clip.
#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    /// Size of a frame, upright.
    pub size: Size,
    /// Frames per second of the result.
    pub rate: Rate,
    /// Expected length of the result in seconds, by the file's metadata.
    pub seconds: f64,
    /// Whether it has an audio stream.
    pub has_audio: bool,
}

/// A processed clip.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The file, in the folder of the job.
    pub file: PathBuf,
    /// Number of frames.
    pub frames: u64,
    /// Frames per second: `frames / rate` is the exact length.
    pub rate: Rate,
    /// Warnings for the caller, each a sentence.
    pub warnings: Vec<String>,
    /// Busy time of each stage.
    pub took: StageTimes,
}

/// Busy time of each stage; the stages overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Waiting for the decoder and reading its frames.
    pub decode: Duration,
    /// The network.
    pub segment: Duration,
    /// From masks to cutouts.
    pub matte: Duration,
    /// Writing frames to the encoder, and muxing.
    pub encode: Duration,
    /// Wall-clock time of the whole job.
    pub total: Duration,
}
