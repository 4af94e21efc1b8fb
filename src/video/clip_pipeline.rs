//! Processes one clip: resumes from its checkpoint, runs the five stages concurrently over bounded channels, and muxes.
//!
//! ```text
//! decode     ffmpeg's pipe → batches of 4             each holds a slot and its megapixels until it is encoded
//! segment    batches → masks                          the network, bulk lane
//! temporal   masks → mattes, in the clip's order      a CPU worker
//! composite  mattes → output frames or records        CPU workers, some frames at once, kept in order
//! encode     output frames → ffmpeg's pipe → segments the end of one segment overlaps with the start of the next
//! ```
//!
//! At most four batches are in flight, so memory is bounded for any length of clip, and half of the engine's default
//! megapixels stay free for other work. The whole pipeline is one future: dropping it kills all processes.

use super::checkpoint::Checkpoint;
use super::composite::has_alpha;
use super::encode::Codec;
use super::frame_rate::Rate;
use super::mux::{GIF_MAX_RATE, Mux};
use super::probe::{self, max_frames};
use super::stage_clock::StageClock;
use super::stages::{ClipJob, ENCODED_PROGRESS, finish_segments};
use super::temporal::TemporalFilter;
use super::{Clip, Finished, Tools, VideoError};
use crate::engine::{Engine, Tenant};
use crate::recipe::VideoRecipe;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::channel;

/// Time limit of a job, and its increase per frame.
const JOB_TIMEOUT: Duration = Duration::from_secs(900);
const JOB_TIMEOUT_PER_FRAME: Duration = Duration::from_secs(15);
/// Part of the checkpoint's plan, incremented when a recipe's bytes change: versions of segments are never mixed.
const VERSION: &str = "4";

/// Removes the background of `source`, in the turns of `tenant`.
///
/// `folder` belongs to the job: it keeps finished segments with the temporal filter's state, and a later call with this
/// folder resumes after them. `progress` is called with 0 to 100. Dropping the future kills the ffmpeg processes.
///
/// # Errors
/// See [`VideoError`].
pub async fn remove(
    engine: &Engine,
    tenant: Tenant,
    tools: &Tools,
    source: &Path,
    folder: &Path,
    recipe: &VideoRecipe,
    progress: &(dyn Fn(u8) + Send + Sync),
) -> Result<Finished, VideoError> {
    let mut probed = probe::probe(engine, tenant, tools, source, Instant::now() + JOB_TIMEOUT).await?;
    if Codec::of(recipe) == Codec::Ffv1 && probed.clip.rate.per_second() > GIF_MAX_RATE.per_second() {
        probed.clip = at_rate(probed.clip, GIF_MAX_RATE);
    }
    let frames = u32::try_from(max_frames(probed.clip.rate)).unwrap_or(u32::MAX);
    let job = ClipJob { engine, tenant, tools, probed, recipe, progress };
    tokio::time::timeout(JOB_TIMEOUT + JOB_TIMEOUT_PER_FRAME * frames, job.run(source, folder))
        .await
        .unwrap_or_else(|_| Err(VideoError::Exhausted("the job timed out".to_owned())))
}

fn at_rate(clip: Clip, rate: Rate) -> Clip {
    let frames = (clip.seconds * rate.per_second()).round().max(1.0) as u64;
    Clip { rate, seconds: rate.length(frames), ..clip }
}

impl ClipJob<'_> {
    async fn run(self, source: &Path, folder: &Path) -> Result<Finished, VideoError> {
        let began = Instant::now();
        let codec = Codec::of(self.recipe);
        let Clip { size, rate, .. } = self.probed.clip;
        let bytes = tokio::fs::metadata(source).await.map_or(0, |metadata| metadata.len());
        let plan = format!("{VERSION} {bytes} {:?} {:?}\n", self.probed.clip, self.recipe);
        let mut checkpoint = Checkpoint::open(folder, codec, plan).await?;
        let filter = if checkpoint.state.is_empty() {
            // At the beginning, or after the last segment.
            TemporalFilter::new(self.recipe.smoothing)
        } else if let Some(filter) = TemporalFilter::restore(self.recipe.smoothing, &checkpoint.state) {
            filter
        } else {
            checkpoint = checkpoint.restarted().await?;
            TemporalFilter::new(self.recipe.smoothing)
        };
        if checkpoint.finished_frames() > 0 {
            tracing::info!(frames = checkpoint.finished_frames(), "a clip resumes after the frames that are finished");
        }
        let clock = StageClock::default();
        let (checkpoint, mut warnings) = self.process_frames(checkpoint, filter, &clock).await?;
        (self.progress)(ENCODED_PROGRESS as u8);
        let mux = Mux {
            tools: self.tools,
            checkpoint: &checkpoint,
            codec,
            size,
            rate,
            alpha: has_alpha(self.recipe),
            audio: self.recipe.audio.then_some(&self.probed.source),
        };
        let mux_began = Instant::now();
        let (file, mux_warnings) = mux.write().await?;
        clock.encode.add(mux_began.elapsed());
        warnings.extend(mux_warnings);
        (self.progress)(100);
        let took = clock.times(began.elapsed());
        Ok(Finished { file, frames: checkpoint.finished_frames(), rate, warnings, took })
    }

    /// Processes all frames after the finished ones into segments. Returns the segments and warnings.
    async fn process_frames(
        &self,
        checkpoint: Checkpoint,
        filter: TemporalFilter,
        clock: &StageClock,
    ) -> Result<(Checkpoint, Vec<String>), VideoError> {
        let first = checkpoint.finished_frames();
        let (to_segment, decoded) = channel(1);
        let (to_filter, segmented) = channel(1);
        let (to_composite, matted) = channel(1);
        let (to_encoder, composited) = channel(1);
        let (to_finish, finishing) = channel(1);
        let encoder_checkpoint = checkpoint.clone();
        let (warnings, (), (), (), (), checkpoint) = tokio::try_join!(
            self.decode(first, to_segment, clock),
            self.segment(decoded, to_filter, clock),
            self.filter(first, filter, segmented, to_composite, clock),
            self.composite(first, matted, to_encoder, clock),
            self.encode(encoder_checkpoint, composited, to_finish, clock),
            finish_segments(checkpoint, finishing),
        )?;
        Ok((checkpoint, warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_rate_keeps_the_duration() {
        let clip = Clip {
            size: crate::image::Size::new(2, 2),
            rate: Rate { frames: 60, seconds: 1 },
            seconds: 2.0,
            has_audio: false,
        };
        let slower = at_rate(clip, GIF_MAX_RATE);
        assert!((slower.seconds - 2.0).abs() < 1e-9 && slower.rate == GIF_MAX_RATE);
    }
}
