//! The stage order, one function.
//!
//! `bytes → Header → Frame → Mask → Cutout → Composite → EncodedImage`, each stage consuming what the one before it
//! made, so that every buffer is free as soon as the next one is there.

use crate::codec::{self, DecodeError, EncodeError, Limits};
use crate::compose::{self, Layout, OutputTooLarge};
use crate::engine::{Engine, EngineError, Lane, Segmented, Slot};
use crate::image::{EncodedImage, Frame, Rect, Size};
use crate::matting::{self, NoSubject};
use crate::recipe::Recipe;
use crate::telemetry::metrics::{self, Stage};
use bytes::Bytes;
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// Coverage, of 255, from which a pixel counts as subject in [`Output::subject`]: 3 %, below which nobody sees it
/// and a matte's last traces lie.
const SUBJECT_ALPHA: u8 = 8;

/// How a picture is to be treated, whatever is done with it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Who is served first.
    pub lane: Lane,
    /// When the caller stops waiting.
    pub deadline: Instant,
}

/// A finished picture and what was learned on the way.
#[derive(Clone, Debug)]
pub struct Output {
    /// The file.
    pub image: EncodedImage,
    /// Where the subject is in it: the bounds of all pixels that it covers by more than 3 %.
    pub subject: Rect,
    /// How unsure the mask is, 0 to 1; 0 for a picture that brought its own.
    pub uncertainty: f32,
    /// Name and version of the weights.
    pub model: String,
    /// Where the time went.
    pub timings: Timings,
}

/// Time spent in each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Fetching a caller's URL.
    pub fetch: Duration,
    /// Reading the header and the pixels.
    pub decode: Duration,
    /// All waiting: for megapixels, for a CPU worker, for the device.
    pub queue: Duration,
    /// The network, the whole batch.
    pub segment: Duration,
    /// From mask to cutout.
    pub matte: Duration,
    /// From cutout to finished picture.
    pub compose: Duration,
    /// Writing the file.
    pub encode: Duration,
}

impl Timings {
    /// Each stage with its time, in the order of the work.
    #[must_use]
    pub const fn stages(&self) -> [(Stage, Duration); 7] {
        [
            (Stage::Fetch, self.fetch),
            (Stage::Decode, self.decode),
            (Stage::Queue, self.queue),
            (Stage::Segment, self.segment),
            (Stage::Matte, self.matte),
            (Stage::Compose, self.compose),
            (Stage::Encode, self.encode),
        ]
    }
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The input cannot be used.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The result would be too large.
    #[error(transparent)]
    OutputTooLarge(#[from] OutputTooLarge),
    /// There is no subject in it.
    #[error(transparent)]
    NoSubject(#[from] NoSubject),
    /// The engine is full, late, or broken.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The result could not be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Cuts the subject out of the picture in `bytes`.
///
/// When the returned future is dropped, or the deadline passes, no further stage is begun.
///
/// # Errors
/// See [`PipelineError`].
pub async fn run(engine: &Engine, bytes: Bytes, recipe: &Recipe, call: &Call) -> Result<Output, PipelineError> {
    let slot = engine.admit()?;
    timeout_at(call.deadline.into(), stages(engine, slot, bytes, recipe, call))
        .await
        .unwrap_or(Err(PipelineError::Engine(EngineError::DeadlineExceeded)))
}

async fn stages(
    engine: &Engine,
    slot: Slot,
    bytes: Bytes,
    recipe: &Recipe,
    call: &Call,
) -> Result<Output, PipelineError> {
    let Recipe { matting, resize, encode, keep_alpha } = recipe.clone();
    let workers = Workers { engine, slot: &slot };
    let began = Instant::now();
    let mut timings = Timings::default();

    let (header, bytes, probing) = {
        let (probed, took) = workers
            .run("probe", move || codec::probe(&bytes, &Limits::default()).map(|header| (header, bytes)))
            .await?;
        let (header, bytes) = probed?;
        (header, bytes, took)
    };
    let layout = resize.layout(header.size)?;
    engine.reserve_pixels(&slot, pixels_needed(header.size, &layout), call.deadline).await?;

    let buffers = engine.buffers().clone();
    let (decoded, decoding) = workers
        .run("decode", move || {
            let frame = codec::decode(&bytes, &header, &buffers)?;
            let own_alpha = keep_alpha && frame.has_transparency();
            Ok::<_, DecodeError>((frame, own_alpha))
        })
        .await?;
    let (frame, own_alpha) = decoded?;
    if frame.size() != header.size {
        return Err(
            DecodeError::Corrupt(format!("the header says {}, the pixels {}", header.size, frame.size())).into()
        );
    }
    timings.decode = probing + decoding;

    let (cutout, uncertainty) = if own_alpha {
        let (cutout, took) = workers.run("matte", move || matting::from_own_alpha(frame)).await?;
        timings.matte = took;
        (cutout?, 0.0)
    } else {
        let Segmented { frame, mask, took, .. } = engine.segment(&slot, frame, call.lane, call.deadline).await?;
        timings.segment = took;
        let uncertainty = matting::uncertainty(&mask);
        let (cutout, took) = workers.run("matte", move || matting::cut_out(frame, &mask, &matting)).await?;
        timings.matte = took;
        (cutout?, uncertainty)
    };

    let ((composite, subject), took) = workers
        .run("compose", move || {
            let composite = compose::flatten(cutout, &layout);
            let subject = subject_bounds(&composite.0);
            (composite, subject)
        })
        .await?;
    timings.compose = took;
    // A subject that the resize left nothing of: an empty picture is never called a success.
    let subject = subject.ok_or(NoSubject)?;

    let (image, took) = workers.run("encode", move || codec::encode(composite, &encode)).await?;
    let image = image?;
    timings.encode = took;

    let worked: Duration = timings.stages().iter().map(|(_, took)| *took).sum();
    timings.queue = began.elapsed().saturating_sub(worked);
    for (stage, took) in timings.stages() {
        if stage != Stage::Fetch {
            metrics::stage_finished(stage, took);
        }
    }
    Ok(Output { image, subject, uncertainty, model: engine.model(), timings })
}

/// CPU work that keeps the request's slot until it ends, also when nobody waits for it any more.
struct Workers<'a> {
    engine: &'a Engine,
    slot: &'a Slot,
}

impl Workers<'_> {
    /// What `work` returns, and how long it worked.
    async fn run<T: Send + 'static>(
        &self,
        stage: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Duration), EngineError> {
        let slot = self.slot.clone();
        self.engine
            .cpu(move || {
                let _slot = slot;
                let _entered = tracing::debug_span!("stage", name = stage).entered();
                let began = Instant::now();
                let done = work();
                (done, began.elapsed())
            })
            .await
    }
}

/// What will be in memory: the picture, and beside it the canvas, where that is another one.
fn pixels_needed(source: Size, layout: &Layout) -> usize {
    if *layout == Layout::unchanged(source) { source.area() } else { source.area() + layout.canvas.area() }
}

/// The bounds of all pixels with at least [`SUBJECT_ALPHA`].
fn subject_bounds(frame: &Frame) -> Option<Rect> {
    let Size { width, height } = frame.size();
    let rows = || frame.pixels().chunks_exact(width as usize * 4).zip(0..height);
    let covers = |row: &[u8]| row.as_chunks::<4>().0.iter().any(|pixel| pixel[3] >= SUBJECT_ALPHA);
    let (_, top) = rows().find(|(row, _)| covers(row))?;
    let (_, bottom) = rows().rfind(|(row, _)| covers(row))?;
    let (mut left, mut right) = (width, 0);
    for (row, y) in rows() {
        if (top..=bottom).contains(&y) {
            let pixels = row.as_chunks::<4>().0;
            // Only what lies outside the bounds so far can widen them.
            let before = pixels.iter().zip(0..left).find(|(pixel, _)| pixel[3] >= SUBJECT_ALPHA);
            left = before.map_or(left, |(_, x)| x);
            let after = pixels.iter().zip(0..width).skip(right as usize).rfind(|(pixel, _)| pixel[3] >= SUBJECT_ALPHA);
            right = after.map_or(right, |(_, x)| x + 1);
        }
    }
    Some(Rect { left, top, width: right - left, height: bottom + 1 - top })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::Resize;
    use crate::image::Buffer;

    fn frame(size: Size, alpha: impl Fn(u32, u32) -> u8) -> Frame {
        let alpha = &alpha;
        let bytes = (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| [9, 9, 9, alpha(x, y)]));
        Frame::new(size, Buffer::from(bytes.collect::<Vec<u8>>()))
    }

    #[test]
    fn subject_bounds_are_those_of_visible_pixels() {
        let size = Size::new(20, 10);
        let spots = [(7, 3, 255), (11, 6, SUBJECT_ALPHA), (2, 5, 90), (19, 9, SUBJECT_ALPHA - 1)];
        let spotted = frame(size, |x, y| spots.iter().find(|s| (s.0, s.1) == (x, y)).map_or(0, |s| s.2));
        assert_eq!(subject_bounds(&spotted), Some(Rect { left: 2, top: 3, width: 10, height: 4 }));
        assert_eq!(subject_bounds(&frame(size, |_, _| 255)), Some(Rect::whole(size)));
        assert_eq!(subject_bounds(&frame(size, |_, _| SUBJECT_ALPHA - 1)), None);
        let corner = frame(size, |x, y| if (x, y) == (19, 0) { 200 } else { 0 });
        assert_eq!(subject_bounds(&corner), Some(Rect { left: 19, top: 0, width: 1, height: 1 }));
    }

    #[test]
    fn a_canvas_of_its_own_counts_as_memory() {
        let source = Size::new(100, 50);
        let needed = |resize: Resize| pixels_needed(source, &resize.layout(source).unwrap());
        assert_eq!(needed(Resize::default()), 5000);
        assert_eq!(needed(Resize { width: Some(200), ..Resize::default() }), 5000 + 20_000);
    }
}
