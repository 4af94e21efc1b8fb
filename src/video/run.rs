//! The work on one clip: five stages over bounded channels, each on its own frames at the same time.
//!
//! ```text
//! decode   ffmpeg's pipe → batches of 4           each holds a slot, and its megapixels, until it is encoded
//! segment  batches → masks                        the network, bulk lane
//! steady   masks → mattes, in the clip's order    a CPU worker
//! paint    mattes → pictures, or records of ours  CPU workers, some frames at once, kept in order
//! encode   pictures → ffmpeg's pipe → segments    the end of one segment overlaps with the beginning of the next
//! ```
//!
//! Four batches are under way at most, so memory is bounded whatever the length of the clip, and half of the engine's
//! usual megapixels stay free for others. All of it is one future: dropped, it leaves no process behind.

use super::decode::Decoder;
use super::encode::{Codec, Encoder};
use super::join::{GIF_FASTEST, Joint};
use super::paint::{Paint, has_alpha};
use super::probe::{self, Probed, most_frames};
use super::rate::Rate;
use super::segments::Segments;
use super::steady::Steady;
use super::{Clip, Finished, StageTimes, Tools, VideoError, still};
use crate::engine::{Engine, EngineError, Lane, Segmented, Slot};
use crate::image::{AlphaMatte, Frame, RawMask};
use crate::recipe::VideoRecipe;
use futures_util::stream::{FuturesOrdered, StreamExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Frames that the network looks at together.
const BATCH: usize = 4;
/// Batches that are under way, at most: one in each of decode, segment, steady, and paint with encode.
const BATCHES: usize = 4;
/// Frames that are painted at once, at most.
const PAINTERS: usize = 4;
/// A batch waits so long at most, behind everyone who is served first.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The work on a clip takes at most so long, and so long more for each frame.
const WALL: Duration = Duration::from_secs(900);
const WALL_A_FRAME: Duration = Duration::from_secs(15);
/// Progress when all frames are encoded; the rest is joining.
const ENCODED: u64 = 95;
/// Changes when the same recipe begins to give other bytes: segments of two versions are never joined.
const VERSION: &str = "1";

/// See [`super::remove`].
pub(super) async fn remove(
    engine: &Engine,
    tools: &Tools,
    source: &Path,
    folder: &Path,
    recipe: &VideoRecipe,
    progress: &(dyn Fn(u8) + Send + Sync),
) -> Result<Finished, VideoError> {
    let mut probed = probe::probe(tools, source).await?;
    if Codec::of(recipe) == Codec::Ffv1 && probed.clip.rate.per_second() > GIF_FASTEST.per_second() {
        probed.clip = at_rate(probed.clip, GIF_FASTEST);
    }
    let frames = u32::try_from(most_frames(probed.clip.rate)).unwrap_or(u32::MAX);
    let work = Work { engine, tools, probed, recipe, progress };
    tokio::time::timeout(WALL + WALL_A_FRAME * frames, work.done(source, folder))
        .await
        .unwrap_or_else(|_| Err(VideoError::Exhausted("it took too long".to_owned())))
}

fn at_rate(clip: Clip, rate: Rate) -> Clip {
    let frames = (clip.seconds * rate.per_second()).round().max(1.0) as u64;
    Clip { rate, seconds: rate.length(frames), ..clip }
}

/// Frames in a segment: two seconds, in whole batches so that a clip that is gone on with has the same ones.
fn segment_frames(rate: Rate) -> u64 {
    let batch = BATCH as u64;
    ((2.0 * rate.per_second()).round() as u64).div_ceil(batch).clamp(1, 30) * batch
}

struct Work<'a> {
    engine: &'a Engine,
    tools: &'a Tools,
    probed: Probed,
    recipe: &'a VideoRecipe,
    progress: &'a (dyn Fn(u8) + Send + Sync),
}

/// What a batch holds, until the last of its frames is encoded.
#[derive(Clone)]
struct Held {
    slot: Slot,
    _place: Arc<OwnedSemaphorePermit>,
}

/// Frames of one batch.
struct Batch<T> {
    items: Vec<T>,
    held: Held,
}

/// A frame after the matte was found.
struct Matted {
    frame: Frame,
    matte: AlphaMatte,
    held: Held,
    /// What the next frame has to know, after the last frame of a segment.
    state: Option<Vec<u8>>,
}

/// What is written for a frame.
enum Picture {
    Frame(Frame),
    Record(Vec<u8>),
}

struct Painted {
    picture: Picture,
    _held: Held,
    state: Option<Vec<u8>>,
}

/// A segment whose frames are all handed over.
struct Closing {
    encoder: Encoder,
    frames: u64,
    state: Vec<u8>,
}

/// Times of the stages.
#[derive(Default)]
struct Clock {
    decode: Time,
    segment: Time,
    matte: Time,
    encode: Time,
}

/// Nanoseconds that add up.
#[derive(Default)]
struct Time(AtomicU64);

impl Time {
    fn add(&self, took: Duration) {
        self.0.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

impl Work<'_> {
    async fn done(self, source: &Path, folder: &Path) -> Result<Finished, VideoError> {
        let began = Instant::now();
        let codec = Codec::of(self.recipe);
        let Clip { size, rate, .. } = self.probed.clip;
        let bytes = tokio::fs::metadata(source).await.map_or(0, |found| found.len());
        let plan = format!("{VERSION} {bytes} {:?} {:?}\n", self.probed.clip, self.recipe);
        let mut segments = Segments::open(folder, codec, plan).await?;
        let steady = if segments.state.is_empty() {
            // At the beginning, or after the last segment.
            Steady::new(self.recipe.smoothing)
        } else if let Some(steady) = Steady::restore(self.recipe.smoothing, &segments.state) {
            steady
        } else {
            segments = segments.begun_anew().await?;
            Steady::new(self.recipe.smoothing)
        };
        let clock = Clock::default();
        let (segments, mut warnings) = self.frames(segments, steady, &clock).await?;
        (self.progress)(ENCODED as u8);
        let joint = Joint {
            tools: self.tools,
            segments: &segments,
            codec,
            size,
            rate,
            alpha: has_alpha(self.recipe),
            sound: self.recipe.audio.then_some(&self.probed.source),
        };
        let joining = Instant::now();
        let (file, more) = joint.join().await?;
        clock.encode.add(joining.elapsed());
        warnings.extend(more);
        (self.progress)(100);
        let took = StageTimes {
            decode: clock.decode.get(),
            segment: clock.segment.get(),
            matte: clock.matte.get(),
            encode: clock.encode.get(),
            total: began.elapsed(),
        };
        Ok(Finished { file, frames: segments.finished(), rate, warnings, took })
    }

    /// All frames that are not finished yet, from the clip into segments. Gives the segments, and what is to be said.
    async fn frames(
        &self,
        segments: Segments,
        steady: Steady,
        clock: &Clock,
    ) -> Result<(Segments, Vec<String>), VideoError> {
        let first = segments.finished();
        let (to_network, decoded) = channel(1);
        let (to_steady, seen) = channel(1);
        let (to_paint, matted) = channel(1);
        let (to_encoder, painted) = channel(1);
        let (to_close, closing) = channel(1);
        let parts = segments.clone();
        let (warnings, (), (), (), (), segments) = tokio::try_join!(
            self.decode(first, to_network, clock),
            self.segment(decoded, to_steady, clock),
            self.steady(first, steady, seen, to_paint, clock),
            self.paint(first, matted, to_encoder, clock),
            self.encode(parts, painted, to_close, clock),
            close(segments, closing),
        )?;
        Ok((segments, warnings))
    }

    async fn decode(&self, first: u64, to: Sender<Batch<Frame>>, clock: &Clock) -> Result<Vec<String>, VideoError> {
        let mut decoder = Decoder::start(self.tools, &self.probed, self.engine.buffers())?;
        let mut next = async || {
            let began = Instant::now();
            let frame = decoder.next().await;
            clock.decode.add(began.elapsed());
            frame
        };
        let places = Arc::new(Semaphore::new(BATCHES));
        let mut is_over = false;
        for _ in 0..first {
            if next().await?.is_none() {
                is_over = true;
                break;
            }
        }
        while !is_over {
            let held = self.held(&places).await?;
            let mut items = Vec::with_capacity(BATCH);
            while items.len() < BATCH && !is_over {
                match next().await? {
                    Some(frame) => items.push(frame),
                    None => is_over = true,
                }
            }
            // An error means that a later stage failed, and has said so.
            if !items.is_empty() && to.send(Batch { items, held }).await.is_err() {
                break;
            }
        }
        drop(to);
        if is_over { decoder.finish().await } else { Ok(Vec::new()) }
    }

    /// A slot with room for a batch; waits while the engine is full, as nobody is there who could come back later.
    async fn held(&self, places: &Arc<Semaphore>) -> Result<Held, VideoError> {
        let place = Arc::clone(places).acquire_owned().await.map_err(|_| EngineError::Stopped)?;
        let slot = loop {
            match self.engine.admit() {
                Ok(slot) => break slot,
                Err(EngineError::QueueFull { retry_after }) => {
                    tokio::time::sleep(retry_after.min(Duration::from_millis(200))).await
                }
                Err(
                    error @ (EngineError::DeadlineExceeded
                    | EngineError::Stopped
                    | EngineError::Failed(_)
                    | EngineError::Device(_)
                    | EngineError::Panicked(_)),
                ) => return Err(error.into()),
            }
        };
        self.engine.reserve_pixels(&slot, BATCH * self.probed.clip.size.area(), Instant::now() + PATIENCE).await?;
        Ok(Held { slot, _place: Arc::new(place) })
    }

    async fn segment(
        &self,
        mut from: Receiver<Batch<Frame>>,
        to: Sender<Batch<(Frame, RawMask)>>,
        clock: &Clock,
    ) -> Result<(), VideoError> {
        while let Some(Batch { items, held }) = from.recv().await {
            let deadline = Instant::now() + PATIENCE;
            let Segmented { frames, masks, took, .. } =
                self.engine.segment(&held.slot, items, Lane::Bulk, deadline).await?;
            clock.segment.add(took);
            let items = frames.into_iter().zip(masks).collect();
            if to.send(Batch { items, held }).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    async fn steady(
        &self,
        mut index: u64,
        mut steady: Steady,
        mut from: Receiver<Batch<(Frame, RawMask)>>,
        to: Sender<Matted>,
        clock: &Clock,
    ) -> Result<(), VideoError> {
        let segment = segment_frames(self.probed.clip.rate);
        while let Some(Batch { items, held }) = from.recv().await {
            for (frame, mask) in items {
                index += 1;
                let is_last = index.is_multiple_of(segment);
                let kept = held.clone();
                let work = move || {
                    let _held = kept;
                    let began = Instant::now();
                    let matte = steady.next(&frame, mask);
                    let state = is_last.then(|| steady.save());
                    (steady, frame, matte, state, began.elapsed())
                };
                let (again, frame, matte, state, took) = self.engine.cpu(work).await?;
                steady = again;
                clock.matte.add(took);
                if to.send(Matted { frame, matte, held: held.clone(), state }).await.is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn paint(
        &self,
        mut index: u64,
        mut from: Receiver<Matted>,
        to: Sender<Painted>,
        clock: &Clock,
    ) -> Result<(), VideoError> {
        let (paint, codec, rate) = (Arc::new(Paint::of(self.recipe)), Codec::of(self.recipe), self.probed.clip.rate);
        let mut under_way = FuturesOrdered::new();
        let mut is_open = true;
        while is_open || !under_way.is_empty() {
            tokio::select! {
                biased;
                Some(finished) = under_way.next() => {
                    let (painted, matting, encoding): (Result<Painted, VideoError>, Duration, Duration) = finished?;
                    clock.matte.add(matting);
                    clock.encode.add(encoding);
                    if to.send(painted?).await.is_err() {
                        break;
                    }
                }
                matted = from.recv(), if is_open && under_way.len() < PAINTERS => match matted {
                    Some(matted) => {
                        let (paint, at) = (Arc::clone(&paint), index);
                        index += 1;
                        under_way.push_back(self.engine.cpu(move || painted(&paint, matted, codec, rate, at)));
                    }
                    None => is_open = false,
                },
            }
        }
        Ok(())
    }

    async fn encode(
        &self,
        segments: Segments,
        mut from: Receiver<Painted>,
        to: Sender<Closing>,
        clock: &Clock,
    ) -> Result<(), VideoError> {
        let Clip { size, rate, seconds, .. } = self.probed.clip;
        let codec = Codec::of(self.recipe);
        let most = segment_frames(rate);
        let expected = (seconds * rate.per_second()).round().max(1.0) as u64;
        let (mut index, mut done) = (segments.files.len(), segments.finished());
        let mut current: Option<(Encoder, u64)> = None;
        while let Some(Painted { picture, state, .. }) = from.recv().await {
            let began = Instant::now();
            let (encoder, frames) = match current.take() {
                Some(current) => current,
                None => (Encoder::start(self.tools, codec, size, rate, most, &segments.part(index)).await?, 0),
            };
            let encoder = match &picture {
                Picture::Frame(frame) => encoder.write(frame.pixels()).await?,
                Picture::Record(bytes) => encoder.write(bytes).await?,
            };
            clock.encode.add(began.elapsed());
            let frames = frames + 1;
            done += 1;
            (self.progress)((done * ENCODED / expected).min(ENCODED) as u8);
            match state {
                None => current = Some((encoder, frames)),
                Some(state) => {
                    index += 1;
                    if to.send(Closing { encoder, frames, state }).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
        if let Some((encoder, frames)) = current {
            // Nothing comes after it, so there is nothing to know.
            let _closed = to.send(Closing { encoder, frames, state: Vec::new() }).await;
        }
        Ok(())
    }
}

/// Finishes segments one after the other, while the next ones are written.
async fn close(mut segments: Segments, mut from: Receiver<Closing>) -> Result<Segments, VideoError> {
    while let Some(Closing { encoder, frames, state }) = from.recv().await {
        encoder.finish().await?;
        segments.finish(frames, state).await?;
    }
    Ok(segments)
}

/// The picture of a frame, and how long cutting it out and writing it took.
fn painted(
    paint: &Paint,
    matted: Matted,
    codec: Codec,
    rate: Rate,
    index: u64,
) -> (Result<Painted, VideoError>, Duration, Duration) {
    let Matted { frame, matte, held, state } = matted;
    let began = Instant::now();
    let frame = paint.painted(frame, &matte);
    let matting = began.elapsed();
    let picture = if codec.is_ours() {
        still::record(frame, codec, rate, index).map(Picture::Record)
    } else {
        Ok(Picture::Frame(frame))
    };
    let encoding = began.elapsed() - matting;
    (picture.map(|picture| Painted { picture, _held: held, state }), matting, encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_two_seconds_in_whole_batches() {
        let frames = |frames, seconds| segment_frames(Rate { frames, seconds });
        assert_eq!(frames(30, 1), 60);
        assert_eq!(frames(30_000, 1001), 60);
        assert_eq!(frames(25, 1), 52);
        assert_eq!(frames(60, 1), 120);
        assert_eq!(frames(1, 100), 4);
    }

    #[test]
    fn a_slower_rate_keeps_the_length() {
        let clip = Clip {
            size: crate::image::Size::new(2, 2),
            rate: Rate { frames: 60, seconds: 1 },
            seconds: 2.0,
            has_audio: false,
        };
        let slower = at_rate(clip, GIF_FASTEST);
        assert!((slower.seconds - 2.0).abs() < 1e-9 && slower.rate == GIF_FASTEST);
    }
}
