//! The stage order, one function.
//!
//! `bytes → Header → Frame → Mask → Cutout → Composite → EncodedImage`, each stage consuming what the one before it
//! made, so that every buffer is free as soon as the next one is there.

use crate::codec::{self, DecodeError, EncodeError, Limits};
use crate::compose::{self, Flattened, Framing, Materials, OutputTooLarge, SUBJECT_ALPHA};
use crate::engine::{Engine, EngineError, Lane, Segmented, Slot};
use crate::image::{EncodedImage, Rect};
use crate::matting::{self, NoSubject};
use crate::recipe::Recipe;
use crate::telemetry::metrics::{self, Stage};
use bytes::Bytes;
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

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
    let Recipe { matting, scene, encode, keep_alpha } = recipe.clone();
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
    if scene.framing == Framing::Whole {
        // No subject can change it, so a result that would be too large is refused before it costs anything.
        scene.layout(header.size, Rect::whole(header.size))?;
    }
    engine.reserve_pixels(&slot, header.size.area() + scene.most_pixels(header.size), call.deadline).await?;

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

    let (flattened, took) = workers
        .run("compose", move || {
            let picture = cutout.0;
            let subject = picture.covered(SUBJECT_ALPHA).ok_or(NoSubject)?;
            let layout = scene.layout(picture.size(), subject)?;
            Ok::<_, PipelineError>(compose::flatten(picture, subject, &layout, &scene, Materials::default()))
        })
        .await?;
    let Flattened { composite, subject } = flattened?;
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
