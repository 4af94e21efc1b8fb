//! Cutting the subject out of a clip: ffmpeg decodes and encodes through pipes, the engine does the rest.

pub mod steady;

use crate::engine::{Engine, EngineError};
use crate::image::Size;
use crate::recipe::VideoRecipe;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Section `[video]`: the tools and what they may cost.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VideoConfig {
    /// The program that decodes and encodes; a name is looked for in `PATH`.
    pub ffmpeg: PathBuf,
    /// The program that tells what is in a file.
    pub ffprobe: PathBuf,
}

impl Default for VideoConfig {
    fn default() -> Self {
        Self { ffmpeg: "ffmpeg".into(), ffprobe: "ffprobe".into() }
    }
}

impl VideoConfig {
    /// Every mistake in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The programs, found.
#[derive(Clone, Debug)]
pub struct Tools {
    _ffmpeg: PathBuf,
    _ffprobe: PathBuf,
}

/// A program is not there; the text says which, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not installed")]
pub struct ToolMissing(pub String);

impl Tools {
    /// Looks for the programs.
    ///
    /// # Errors
    /// [`ToolMissing`].
    pub fn find(config: &VideoConfig) -> Result<Self, ToolMissing> {
        Ok(Self { _ffmpeg: config.ffmpeg.clone(), _ffprobe: config.ffprobe.clone() })
    }
}

/// Bytes of a clip at most.
pub const MAX_BYTES: u64 = 200_000_000;

/// Frames per second, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Frames.
    pub frames: u32,
    /// In so many seconds.
    pub seconds: u32,
}

/// What a clip is, as far as it was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    /// Size of a frame, upright.
    pub size: Size,
    /// Frames per second of the result.
    pub rate: Rate,
    /// How long the result will be, as far as the file tells the truth.
    pub seconds: f64,
    /// Whether it has sound.
    pub has_audio: bool,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    /// The file is not a clip that can be read.
    #[error("the file is not a video that can be read here")]
    Unreadable,
    /// A file of another kind than those that are taken.
    #[error("`{0}` is not a kind of video that is taken here: there are mp4, mov, webm, mkv and gif")]
    Unsupported(String),
    /// There is no picture in it.
    #[error("there is sound in the file and no picture")]
    NoPicture,
    /// Too long, too large, too fast.
    #[error("{0}")]
    TooLarge(String),
    /// It would take more time or memory than a job may have.
    #[error("the work took more than it may: {0}")]
    Exhausted(String),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file could not be written or read, a disk that is full for one.
    #[error("{what}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A tool failed where it should not.
    #[error("{0}")]
    Tool(String),
}

/// A finished clip.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The file, in the folder of the job.
    pub file: PathBuf,
    /// Frames in it.
    pub frames: u64,
    /// Frames per second of it: `frames / rate` is its exact length.
    pub rate: Rate,
    /// What the caller should know, each as a sentence.
    pub warnings: Vec<String>,
    /// Where the time went.
    pub took: StageTimes,
}

/// Time in each stage, each as it was busy; they overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Waiting for the decoder to have a frame, and reading it.
    pub decode: Duration,
    /// The network.
    pub segment: Duration,
    /// From masks to cutouts.
    pub matte: Duration,
    /// Handing frames to the encoder.
    pub encode: Duration,
    /// From the first to the last.
    pub total: Duration,
}

/// Looks at a file before anything is promised: limits are judged here.
///
/// # Errors
/// See [`VideoError`].
pub async fn probe(_tools: &Tools, _file: &Path) -> Result<Clip, VideoError> {
    Err(VideoError::Unreadable)
}

/// Cuts the subject out of `source`.
///
/// `folder` is the job's own: segments that are finished are kept there with what the next one has to know, and a call
/// with the same folder goes on after them. `progress` hears 0 to 100. When the future is dropped, the tools are killed.
///
/// # Errors
/// See [`VideoError`].
pub async fn remove(
    _engine: &Engine,
    _tools: &Tools,
    _source: &Path,
    _folder: &Path,
    _recipe: &VideoRecipe,
    _progress: &(dyn Fn(u8) + Send + Sync),
) -> Result<Finished, VideoError> {
    Err(VideoError::Unreadable)
}
