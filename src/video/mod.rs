//! Background removal for video: ffmpeg decodes and encodes through pipes, the engine segments and mats the frames.
//!
//! ```text
//! container · probe          container format, streams and limits, checked before a job is accepted
//! decode                     ffmpeg → upright opaque RGBA at a constant rate
//! temporal                   masks → mattes, smoothed over time along the optical flow
//! composite                  frames and mattes → output frames
//! encode · image_sequence    output frames → segments of two seconds, each a file of its own
//! checkpoint · mux           the job's folder; finished segments → the result, with its sound
//! stages · clip_pipeline     all of it concurrently, in bounded memory
//! sandbox                    resource limits of the ffmpeg processes
//! ```
//!
//! The clip is untrusted: ffmpeg opens only that file, with the demuxer that its first bytes determine, under limits on
//! processor time, memory and output.

mod checkpoint;
mod clip;
mod clip_pipeline;
mod composite;
mod container;
mod decode;
mod encode;
mod error;
mod ffprobe;
mod frame_rate;
mod image_sequence;
mod input;
mod mux;
mod probe;
mod sandbox;
mod stage_clock;
mod stages;
pub mod temporal;
mod tools;

pub use clip::{Clip, Finished, MAX_BYTES, StageTimes};
pub use clip_pipeline::remove;
pub use error::VideoError;
pub use frame_rate::Rate;
pub use tools::{ToolMissing, Tools, VideoConfig};

use std::path::Path;

/// Reads what a file is and checks it against the limits.
///
/// # Errors
/// See [`VideoError`].
pub async fn probe(tools: &Tools, file: &Path) -> Result<Clip, VideoError> {
    probe::probe(tools, file).await.map(|probed| probed.clip)
}
