//! Background removal for video: ffmpeg decodes and encodes through pipes, the engine segments and mats the frames.
//!
//! ```text
//! container · probe          container format, streams and limits, checked before a job is accepted
//! decode                     ffmpeg → upright opaque RGBA at a constant rate
//! temporal                   masks → mattes, smoothed over time along the optical flow
//! composite                  frames and mattes → output frames
//! encode · image_sequence    output frames → segments of two seconds, one file each
//! checkpoint · mux           the job's folder; finished segments → the result, with its sound
//! stages · clip_pipeline     all of it concurrently, in bounded memory
//! sandbox · confinement      resource limits, network and files of the ffmpeg processes
//! ```
//!
//! The clip is untrusted: ffmpeg opens only that file, with the demuxer that its first bytes determine, under limits on
//! processor time, memory and output, and on Linux without a network and with access to its job's files only.

mod checkpoint;
mod clip;
mod clip_pipeline;
mod composite;
#[cfg(target_os = "linux")]
mod confinement;
mod container;
mod decode;
mod encode;
mod error;
mod ffprobe;
mod frame_rate;
#[cfg(all(test, feature = "gpu"))]
mod frames_on_gpu;
mod image_sequence;
mod input;
mod mux;
mod probe;
mod sandbox;
mod stage_clock;
mod stages;
pub mod temporal;
mod tool_limits;
mod tools;

pub use checkpoint::checkpoint;
pub use clip::{Clip, Finished, MAX_BYTES, StageTimes};
pub use clip_pipeline::remove;
pub use error::VideoError;
pub use frame_rate::Rate;
pub use tools::{ToolMissing, Tools, VideoConfig};

use crate::engine::{Engine, Tenant};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time limit of waiting for memory in [`probe()`]: as long as the runs of ffprobe on a clip of another account may take.
const PROBE_QUEUE_TIMEOUT: Duration = Duration::from_secs(180);

/// The protections against ffmpeg that this system lacks. Starts ffprobe once, confined, without a clip.
///
/// # Errors
/// [`VideoError::Tool`] when it does not run confined.
pub async fn missing_confinement(tools: &Tools) -> Result<Vec<&'static str>, VideoError> {
    const LIMITS: tool_limits::ResourceLimits = tool_limits::ResourceLimits { cpu: 30, memory: 2 << 30, file: 0 };
    let tool = sandbox::ToolProcess::start(&tools.ffprobe, ["-version"], tool_limits::Files::default(), LIMITS)?;
    #[cfg(target_os = "linux")]
    let missing = tool.confinement().missing();
    #[cfg(not(target_os = "linux"))]
    let missing = vec!["landlock", "a network namespace"];
    let exit = tool.wait(Duration::from_secs(60)).await?;
    if exit.status.success() { Ok(missing) } else { Err(exit.failure()) }
}

/// Reads the properties of a file and checks them against the limits. ffprobe takes memory in the turn of `tenant`, as a picture does.
///
/// # Errors
/// See [`VideoError`].
pub async fn probe(engine: &Engine, tenant: Tenant, tools: &Tools, file: &Path) -> Result<Clip, VideoError> {
    let deadline = Instant::now() + PROBE_QUEUE_TIMEOUT;
    probe::probe(engine, tenant, tools, file, deadline).await.map(|probed| probed.clip)
}
