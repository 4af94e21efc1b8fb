//! Cutting the subject out of a clip: ffmpeg decodes and encodes through pipes, the engine does the rest.
//!
//! ```text
//! kind · probe       what the file is, judged before anything is promised
//! decode             ffmpeg → upright opaque RGBA at a constant rate
//! steady · paint     masks → mattes, held together over time → pictures
//! encode · still     pictures → segments of two seconds, each a file that stands alone
//! segments · join    the job's folder; finished segments → the result, with its sound
//! run                all of it at the same time, bounded; sandbox: what a tool may do and cost
//! ```
//!
//! Nothing here trusts the clip: a tool opens that one file with the reader that its first bytes call for, and runs with
//! limits on processor time, memory and output.

mod decode;
mod encode;
mod join;
mod kind;
mod paint;
mod probe;
mod rate;
mod run;
mod sandbox;
mod segments;
pub mod steady;
mod still;

pub use rate::Rate;

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
        let named = [("ffmpeg", &self.ffmpeg), ("ffprobe", &self.ffprobe)];
        let empty = named.into_iter().filter(|(_, program)| program.as_os_str().is_empty());
        empty.map(|(name, _)| format!("video.{name}: expected a program, such as `{name}`")).collect()
    }
}

/// The programs, found.
#[derive(Clone, Debug)]
pub struct Tools {
    ffmpeg: PathBuf,
    ffprobe: PathBuf,
}

/// A program is not there; the text says which, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not installed; install ffmpeg, or say in [video] where it is")]
pub struct ToolMissing(pub String);

impl Tools {
    /// Looks for the programs.
    ///
    /// # Errors
    /// [`ToolMissing`].
    pub fn find(config: &VideoConfig) -> Result<Self, ToolMissing> {
        let found = |program: &Path| found(program).ok_or_else(|| ToolMissing(program.display().to_string()));
        Ok(Self { ffmpeg: found(&config.ffmpeg)?, ffprobe: found(&config.ffprobe)? })
    }
}

/// Where a program is: a name is looked for in `PATH`, as a shell does.
#[expect(clippy::disallowed_methods, reason = "no setting of ours: it is where the system keeps its programs")]
fn found(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return std::path::absolute(program).ok().filter(|path| is_program(path));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    let Ok(found) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    found.is_file() && may_run
}

/// Bytes of a clip at most.
pub const MAX_BYTES: u64 = 200_000_000;

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
    /// A file of another kind than those that are taken, or with a codec that is not.
    #[error(
        "`{0}` is not a kind of video that is taken here: there are mp4, mov, webm, mkv and gif with common codecs"
    )]
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
pub async fn probe(tools: &Tools, file: &Path) -> Result<Clip, VideoError> {
    probe::probe(tools, file).await.map(|probed| probed.clip)
}

/// Cuts the subject out of `source`.
///
/// `folder` is the job's own: segments that are finished are kept there with what the next one has to know, and a call
/// with the same folder goes on after them. `progress` hears 0 to 100. When the future is dropped, the tools are killed.
///
/// # Errors
/// See [`VideoError`].
pub async fn remove(
    engine: &Engine,
    tools: &Tools,
    source: &Path,
    folder: &Path,
    recipe: &VideoRecipe,
    progress: &(dyn Fn(u8) + Send + Sync),
) -> Result<Finished, VideoError> {
    run::remove(engine, tools, source, folder, recipe, progress).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let config = VideoConfig { ffprobe: "/nowhere/ffprobe".into(), ffmpeg: "sh".into() };
        assert_eq!(Tools::find(&config).unwrap_err(), ToolMissing("/nowhere/ffprobe".to_owned()));
        let config = VideoConfig { ffmpeg: "no-such-program-here".into(), ..VideoConfig::default() };
        assert!(Tools::find(&config).unwrap_err().to_string().starts_with("no-such-program-here is not installed"));
    }

    #[test]
    fn an_empty_name_is_a_mistake() {
        assert!(VideoConfig::default().validate().is_empty());
        let empty = VideoConfig { ffmpeg: PathBuf::new(), ffprobe: PathBuf::new() };
        assert_eq!(empty.validate().len(), 2);
    }
}
