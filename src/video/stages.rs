//! The stages of a clip's pipeline: decode, segment, temporal filter, composite, encode, over bounded channels.

use super::checkpoint::Checkpoint;
use super::composite::FrameCompositor;
use super::decode::Decoder;
use super::encode::{Codec, Encoder};
use super::frame_rate::Rate;
use super::probe::Probed;
use super::stage_clock::StageClock;
use super::temporal::TemporalFilter;
use super::{Clip, Tools, VideoError, image_sequence};
use crate::compose;
use crate::engine::{Engine, EngineError, Lane, Segmented, Slot, Tenant};
use crate::image::{Buffer, Frame, RawMask};
use crate::matting::FrameMatte;
use crate::recipe::VideoRecipe;
use futures_util::stream::{FuturesOrdered, StreamExt};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Frames in a batch for the network.
const BATCH: usize = 4;
/// Maximum number of batches in flight: one each in decode, segment, temporal filter, and composite with encode.
const MAX_BATCHES: usize = 4;
/// Maximum number of frames composited at once.
const MAX_COMPOSITORS: usize = 4;
/// Time limit of a batch's wait for the engine, behind interactive requests.
const BATCH_TIMEOUT: Duration = Duration::from_secs(3600);
/// Progress in percent when all frames are encoded; the rest is muxing.
pub(super) const ENCODED_PROGRESS: u64 = 95;

/// Frames of a segment: two seconds, in whole batches so that a resumed clip has identical segments.
fn segment_frames(rate: Rate) -> u64 {
    let batch = BATCH as u64;
    ((2.0 * rate.per_second()).round() as u64).div_ceil(batch).clamp(1, 30) * batch
}

/// A clip and the parameters of its processing.
pub(super) struct ClipJob<'a> {
    pub(super) engine: &'a Engine,
    pub(super) tenant: Tenant,
    pub(super) tools: &'a Tools,
    pub(super) probed: Probed,
    pub(super) recipe: &'a VideoRecipe,
    pub(super) progress: &'a (dyn Fn(u8) + Send + Sync),
}

/// The engine's slot and one of [`MAX_BATCHES`] batch slots, held until the last frame of the batch is encoded.
#[derive(Clone)]
pub(super) struct BatchPermit {
    slot: Slot,
    _batch_slot: Arc<OwnedSemaphorePermit>,
}

pub(super) struct Batch<T> {
    items: Vec<T>,
    permit: BatchPermit,
}

/// The warning for a clip whose alpha was kept.
const ALPHA_KEPT: &str = "the clip has transparency, which was kept; `keep_alpha=false` cuts the subject out anew";

pub(super) struct Matted {
    frame: Frame,
    /// `None` if the frame's alpha is the matte.
    matte: Option<FrameMatte>,
    permit: BatchPermit,
    /// The temporal filter's saved state, after the last frame of a segment.
    state: Option<Vec<u8>>,
}

pub(super) struct Composited {
    /// The input of [`Encoder::write`].
    bytes: Buffer,
    _permit: BatchPermit,
    state: Option<Vec<u8>>,
}

/// A segment whose frames are all written to its encoder.
pub(super) struct WrittenSegment {
    encoder: Encoder,
    frames: u64,
    state: Vec<u8>,
}

impl ClipJob<'_> {
    /// Decodes the clip into batches, skipping the `first` frames. Returns warnings.
    pub(super) async fn decode(
        &self,
        first: u64,
        to: Sender<Batch<Frame>>,
        clock: &StageClock,
    ) -> Result<Vec<String>, VideoError> {
        let mut decoder = Decoder::start(self.tools, &self.probed, self.engine.buffers())?;
        let mut next = async || {
            let began = Instant::now();
            let frame = decoder.next().await;
            clock.decode.add(began.elapsed());
            frame
        };
        let batch_slots = Arc::new(Semaphore::new(MAX_BATCHES));
        let (mut is_over, mut keeps_alpha) = (false, false);
        for _ in 0..first {
            if next().await?.is_none() {
                is_over = true;
                break;
            }
        }
        while !is_over {
            let permit = self.acquire(&batch_slots).await?;
            let mut items = Vec::with_capacity(BATCH);
            while items.len() < BATCH && !is_over {
                match next().await? {
                    Some(mut frame) => {
                        if self.probed.source.has_alpha && frame.has_transparency() {
                            if self.recipe.keep_alpha && frame.is_cut_out() {
                                keeps_alpha = true;
                            } else {
                                // As for pictures.
                                compose::flatten_onto_white(&mut frame);
                            }
                        }
                        items.push(frame);
                    }
                    None => is_over = true,
                }
            }
            // An error means that a later stage failed; that stage returns the cause.
            if !items.is_empty() && to.send(Batch { items, permit }).await.is_err() {
                break;
            }
        }
        drop(to);
        let mut warnings = if is_over { decoder.finish().await? } else { Vec::new() };
        if keeps_alpha {
            warnings.push(ALPHA_KEPT.to_owned());
        }
        Ok(warnings)
    }

    /// Acquires a slot with the pixels of a batch; waits while the engine is full, as a job has no client to retry.
    async fn acquire(&self, batch_slots: &Arc<Semaphore>) -> Result<BatchPermit, VideoError> {
        let batch_slot = Arc::clone(batch_slots).acquire_owned().await.map_err(|_| EngineError::Stopped)?;
        let pixels = BATCH * self.probed.clip.size.area();
        let slot = self.engine.admit(self.tenant, pixels, Instant::now() + BATCH_TIMEOUT).await?;
        Ok(BatchPermit { slot, _batch_slot: Arc::new(batch_slot) })
    }

    pub(super) async fn segment(
        &self,
        mut from: Receiver<Batch<Frame>>,
        to: Sender<Batch<(Frame, RawMask)>>,
        clock: &StageClock,
    ) -> Result<(), VideoError> {
        while let Some(Batch { items, permit }) = from.recv().await {
            let deadline = Instant::now() + BATCH_TIMEOUT;
            let Segmented { frames, masks, took, .. } =
                self.engine.segment(&self.recipe.network, &permit.slot, items, Lane::Bulk, deadline).await?;
            clock.segment.add(took);
            let items = frames.into_iter().zip(masks).collect();
            if to.send(Batch { items, permit }).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Estimates the temporally filtered mattes frame by frame, in the clip's order, from frame `index` on.
    pub(super) async fn filter(
        &self,
        mut index: u64,
        mut filter: TemporalFilter,
        mut from: Receiver<Batch<(Frame, RawMask)>>,
        to: Sender<Matted>,
        clock: &StageClock,
    ) -> Result<(), VideoError> {
        let segment = segment_frames(self.probed.clip.rate);
        let has_alpha = self.probed.source.has_alpha;
        while let Some(Batch { items, permit }) = from.recv().await {
            for (frame, mask) in items {
                index += 1;
                let is_last = index.is_multiple_of(segment);
                let worker_permit = permit.clone();
                let work = move || {
                    let _permit = worker_permit;
                    let began = Instant::now();
                    let is_cut_out = has_alpha && frame.has_transparency();
                    let matte = (!is_cut_out).then(|| filter.next(&frame, mask));
                    let state = is_last.then(|| filter.save());
                    (filter, frame, matte, state, began.elapsed())
                };
                let (returned, frame, matte, state, took) = self.engine.cpu(self.tenant, work).await?;
                filter = returned;
                clock.matte.add(took);
                if to.send(Matted { frame, matte, permit: permit.clone(), state }).await.is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Composites frames in parallel and returns them in order, from frame `index` on.
    pub(super) async fn composite(
        &self,
        mut index: u64,
        mut from: Receiver<Matted>,
        to: Sender<Composited>,
        clock: &StageClock,
    ) -> Result<(), VideoError> {
        let compositor = Arc::new(FrameCompositor::of(self.recipe));
        let (codec, rate) = (Codec::of(self.recipe), self.probed.clip.rate);
        let mut in_flight = FuturesOrdered::new();
        let mut is_open = true;
        while is_open || !in_flight.is_empty() {
            tokio::select! {
                biased;
                Some(finished) = in_flight.next() => {
                    let (composited, matting, encoding): (Result<Composited, VideoError>, Duration, Duration) = finished?;
                    clock.matte.add(matting);
                    clock.encode.add(encoding);
                    if to.send(composited?).await.is_err() {
                        break;
                    }
                }
                matted = from.recv(), if is_open && in_flight.len() < MAX_COMPOSITORS => match matted {
                    Some(matted) => {
                        let (compositor, at) = (Arc::clone(&compositor), index);
                        index += 1;
                        in_flight.push_back(self.engine.cpu(self.tenant, move || composited(&compositor, matted, codec, rate, at)));
                    }
                    None => is_open = false,
                },
            }
        }
        Ok(())
    }

    /// Writes frames to the encoders of successive segments.
    pub(super) async fn encode(
        &self,
        checkpoint: Checkpoint,
        mut from: Receiver<Composited>,
        to: Sender<WrittenSegment>,
        clock: &StageClock,
    ) -> Result<(), VideoError> {
        let Clip { size, rate, seconds, .. } = self.probed.clip;
        let codec = Codec::of(self.recipe);
        let most = segment_frames(rate);
        let expected = (seconds * rate.per_second()).round().max(1.0) as u64;
        let (mut index, mut done) = (checkpoint.files.len(), checkpoint.finished_frames());
        let mut current: Option<(Encoder, u64)> = None;
        while let Some(Composited { bytes, state, .. }) = from.recv().await {
            let began = Instant::now();
            let (encoder, frames) = match current.take() {
                Some(current) => current,
                None => (Encoder::start(self.tools, codec, size, rate, most, &checkpoint.part(index)).await?, 0),
            };
            let encoder = encoder.write(&bytes).await?;
            clock.encode.add(began.elapsed());
            let frames = frames + 1;
            done += 1;
            (self.progress)((done * ENCODED_PROGRESS / expected).min(ENCODED_PROGRESS) as u8);
            match state {
                None => current = Some((encoder, frames)),
                Some(state) => {
                    index += 1;
                    if to.send(WrittenSegment { encoder, frames, state }).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
        if let Some((encoder, frames)) = current {
            // The end of the clip needs no state.
            let _closed = to.send(WrittenSegment { encoder, frames, state: Vec::new() }).await;
        }
        Ok(())
    }
}

/// Finishes segments in order, while the next ones are written.
pub(super) async fn finish_segments(
    mut checkpoint: Checkpoint,
    mut from: Receiver<WrittenSegment>,
) -> Result<Checkpoint, VideoError> {
    while let Some(WrittenSegment { encoder, frames, state }) = from.recv().await {
        encoder.finish().await?;
        checkpoint.finish(frames, state).await?;
    }
    Ok(checkpoint)
}

/// Composites a frame and encodes its record, if the codec needs one; returns the times of both.
fn composited(
    compositor: &FrameCompositor,
    matted: Matted,
    codec: Codec,
    rate: Rate,
    index: u64,
) -> (Result<Composited, VideoError>, Duration, Duration) {
    let Matted { frame, matte, permit, state } = matted;
    let began = Instant::now();
    let frame = match matte {
        Some(matte) => compositor.composite(frame, &matte),
        None => compositor.composite_cut_out(frame),
    };
    let matting = began.elapsed();
    let bytes = if codec.is_builtin() {
        image_sequence::record(frame, codec, rate, index).map(Buffer::from)
    } else {
        Ok(frame.into_pixels())
    };
    let encoding = began.elapsed() - matting;
    (bytes.map(|bytes| Composited { bytes, _permit: permit, state }), matting, encoding)
}
