//! Errors of probing and processing a clip.

use crate::engine::EngineError;
use std::io;

/// Why a clip could not be probed or processed.
#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    /// The file is not a readable video.
    #[error("the file is not a video that can be read here")]
    Unreadable,
    /// The container or codec is unsupported.
    #[error("unsupported video format or codec `{0}`: expected mp4, mov, webm, mkv or gif with a common codec")]
    Unsupported(String),
    /// The file has no video stream.
    #[error("there is sound in the file and no picture")]
    NoPicture,
    /// The clip exceeds the limit on file size, frame size, duration or frame rate.
    #[error("{0}")]
    TooLarge(String),
    /// A job's limit on time, memory or output was reached.
    #[error("a resource limit was reached: {0}")]
    Exhausted(String),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file could not be read or written, for example on a full disk.
    #[error("{what}")]
    Io {
        /// The failed operation.
        what: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// ffmpeg or ffprobe failed unexpectedly.
    #[error("{0}")]
    Tool(String),
}
