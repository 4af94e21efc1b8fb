//! The stage order, one function.
//!
//! `bytes → Header → Frame → Mask → Cutout → Composite → EncodedImage`, each stage consuming what the one before it
//! made, so that every buffer is free as soon as the next one is there.

mod backdrop;
mod portrait;
mod refine_pass;
mod region;
mod retouch;
mod segment;

pub use segment::{Segmentation, segment};

use crate::codec::{self, DecodeError, EncodeError, EncodeOptions, Header, Limits};
use crate::compose::{self, Flattened, Framing, Head, Materials, OutputTooLarge, SUBJECT_ALPHA, Scene};
use crate::engine::{Engine, EngineError, Lane, Slot};
use crate::face::MIN_FACE_SIDE;
use crate::generate::PICTURE_LIMITS;
use crate::image::{BufferPool, Cutout, EncodedImage, Frame, Mask, Rect, Size};
use crate::matting::{self, NoSubject};
use crate::model::{Retoucher, SegmentError};
use crate::recipe::{Cut, Picture, Portrait, Recipe, RequiredInputs, Source, Work};
use crate::telemetry::metrics::{self, Stage};
use backdrop::Drawing;
use bytes::Bytes;
use portrait::{PortraitFace, PortraitInput};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// How a picture is to be treated, whatever is done with it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Who is served first.
    pub lane: Lane,
    /// When the caller stops waiting.
    pub deadline: Instant,
    /// What the pictures may cost.
    pub limits: Limits,
}

/// A finished picture and what was learned on the way.
#[derive(Clone, Debug)]
pub struct Output {
    /// The file.
    pub image: EncodedImage,
    /// Where the subject is in it: the bounds of all pixels that it covers by more than 3 %. Nothing where none was looked
    /// for.
    pub subject: Option<Rect>,
    /// How unsure the mask is, 0 to 1; 0 for a picture that brought its own. Nothing where no subject was looked for.
    pub uncertainty: Option<f32>,
    /// The face that the picture was made by; nothing where none was looked for.
    pub face: Option<FaceFound>,
    /// Name and version of the model that did what the caller asked for.
    pub model: String,
    /// Where the built-in generator drew the backdrop: the words of the prompt that it understood.
    pub understood: Option<Vec<String>>,
    /// Where the time went.
    pub timings: Timings,
}

/// What became of looking for a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceFound {
    /// There is none.
    None,
    /// Its box in the finished picture.
    At(Rect),
}

impl fmt::Display for FaceFound {
    /// `left,top,width,height`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::At(at) => at.fmt(f),
        }
    }
}

/// Time spent in each stage; none in those that did not take place.
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
    /// Finding and restoring faces, and enlarging.
    pub retouch: Duration,
    /// From mask to cutout.
    pub matte: Duration,
    /// From cutout to finished picture; with the drawing of a backdrop, which is done while the network looks.
    pub compose: Duration,
    /// Writing the file.
    pub encode: Duration,
}

impl Timings {
    /// Each stage with its time, in the order of the work.
    #[must_use]
    pub const fn stages(&self) -> [(Stage, Duration); 8] {
        [
            (Stage::Fetch, self.fetch),
            (Stage::Decode, self.decode),
            (Stage::Queue, self.queue),
            (Stage::Segment, self.segment),
            (Stage::Retouch, self.retouch),
            (Stage::Matte, self.matte),
            (Stage::Compose, self.compose),
            (Stage::Encode, self.encode),
        ]
    }

    /// What is left of the time since `began` was waiting. Tells the metrics all of it.
    fn settle(&mut self, began: Instant) {
        let worked: Duration = self.stages().iter().map(|(_, took)| *took).sum();
        self.queue = (self.fetch + began.elapsed()).saturating_sub(worked);
        for (stage, took) in self.stages() {
            if stage == Stage::Queue || !took.is_zero() {
                metrics::stage_finished(stage, took);
            }
        }
    }
}

/// The pictures that a job may need beside its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuxImage {
    /// The new background.
    Background,
    /// The watermark.
    Mark,
}

impl fmt::Display for AuxImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Background => "the background",
            Self::Mark => "the watermark",
        })
    }
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The input cannot be used.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A picture beside the input cannot be used.
    #[error("{which}: {error}")]
    AuxImage {
        /// Which one.
        which: AuxImage,
        /// Why.
        #[source]
        error: DecodeError,
    },
    /// The result would be too large.
    #[error(transparent)]
    OutputTooLarge(#[from] OutputTooLarge),
    /// There is no subject in it.
    #[error(transparent)]
    NoSubject(#[from] NoSubject),
    /// There is no face in it.
    #[error("there is no face in the picture, or none of {MIN_FACE_SIDE} pixels or more")]
    NoFace,
    /// The result lets something through, and its format cannot.
    #[error("the picture is transparent in places, which a jpg cannot be; png and webp can")]
    NoAlpha,
    /// The engine is full, late, or broken.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The result could not be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl From<SegmentError> for PipelineError {
    fn from(error: SegmentError) -> Self {
        Self::Engine(EngineError::Device(error.into_reason()))
    }
}

/// The files of one job.
#[derive(Clone, Debug)]
pub struct Files {
    /// The picture with the subject.
    pub source: Bytes,
    /// The new background, where the recipe wants one. A backdrop that is made from words is drawn here without it.
    pub background: Option<Bytes>,
    /// The watermark, where the recipe wants one.
    pub mark: Option<Bytes>,
    /// How long it took to fetch those that had to be.
    pub fetch: Duration,
}

impl From<Bytes> for Files {
    /// A picture that needs no other.
    fn from(source: Bytes) -> Self {
        Self { source, background: None, mark: None, fetch: Duration::ZERO }
    }
}

/// Makes of `files` what `recipe` says.
///
/// When the returned future is dropped, or the deadline passes, no further stage is begun.
///
/// # Errors
/// See [`PipelineError`].
pub async fn run(
    engine: &Engine,
    files: impl Into<Files>,
    recipe: &Recipe,
    call: &Call,
) -> Result<Output, PipelineError> {
    let slot = engine.admit()?;
    run_in(engine, &slot, files, recipe, call).await
}

/// The same in a slot that the request has already.
///
/// # Errors
/// See [`PipelineError`].
pub async fn run_in(
    engine: &Engine,
    slot: &Slot,
    files: impl Into<Files>,
    recipe: &Recipe,
    call: &Call,
) -> Result<Output, PipelineError> {
    let slot = slot.clone();
    let Recipe { work, scene, encode, inputs } = recipe.within(&call.limits);
    let job = Job { files: files.into(), scene, encode, inputs };
    let stages = async {
        match work {
            Work::Cut { cut, picture } => stages(engine, slot, job, cut, picture, call).await,
            Work::Retouch(retouch) => retouch::stages(engine, slot, job, retouch, call).await,
        }
    };
    timeout_at(call.deadline.into(), stages).await.unwrap_or(Err(PipelineError::Engine(EngineError::DeadlineExceeded)))
}

/// Name and version of the model that does what `recipe` asks for, as `x-service-model` tells them: of `segmenter`'s weights,
/// or of those of `retoucher` where nothing is cut out.
#[must_use]
pub fn model_of(recipe: &Recipe, segmenter: impl FnOnce() -> String, retoucher: &dyn Retoucher) -> String {
    match recipe.work {
        Work::Cut { ref cut, .. } => cut.model.of(&segmenter()),
        Work::Retouch(retouch) => retouch::model_of(retoucher, retouch),
    }
}

/// What every kind of work needs.
struct Job {
    files: Files,
    scene: Scene,
    encode: EncodeOptions,
    inputs: RequiredInputs,
}

/// The stages of a picture whose subject is looked for.
async fn stages(
    engine: &Engine,
    slot: Slot,
    job: Job,
    cut: Cut,
    picture: Picture,
    call: &Call,
) -> Result<Output, PipelineError> {
    let Job { files, scene, encode, inputs } = job;
    let workers = Workers { engine, slot: &slot };
    let began = Instant::now();
    let mut timings = Timings { fetch: files.fetch, ..Timings::default() };

    let drawing = Drawing::of(&inputs, &files);
    let limits = call.limits;
    let of_background = match inputs.background {
        Some(Source::Generated(_)) => PICTURE_LIMITS,
        Some(Source::Attached | Source::Url(_)) | None => limits,
    };
    let (probed, probing) = workers.run("probe", move || Probed::of(files, &limits, &of_background)).await?;
    let probed = probed?;
    let size = probed.source.header.size;
    if scene.framing == Framing::Whole {
        // No subject can change it, so a result that would be too large is refused before it costs anything.
        scene.layout(size, Rect::whole(size))?;
    }
    let drawing = drawing.map(|drawing| drawing.on(&scene, size)).transpose()?;
    let drawn_pixels = drawing.as_ref().map_or(0, Drawing::most_pixels);
    let work_pixels = most_pixels(&scene, picture, size) + segment::most_pixels(size, &cut) + drawn_pixels;
    engine.reserve_pixels(&slot, probed.pixels() + work_pixels, call.deadline).await?;

    let (buffers, scene) = (engine.buffers().clone(), Arc::new(scene));
    let decode = {
        let scene = Arc::clone(&scene);
        move || {
            let (mut frame, materials) = probed.decoded(&buffers)?;
            let transparent = frame.has_transparency();
            let own_alpha = cut.keep_alpha && transparent;
            let plate = scene.plate(&frame);
            if transparent && !own_alpha && picture != Picture::Source {
                // Cut out anew: matting is to see what the network sees, and not colours that nobody else does.
                compose::flatten_onto_white(&mut frame);
            }
            Ok::<_, PipelineError>((frame, own_alpha, Materials { plate, ..materials }))
        }
    };
    let (decoded, decoding) = workers.run("decode", decode).await?;
    let (frame, own_alpha, materials) = decoded?;
    timings.decode = probing + decoding;

    let looking = async {
        if own_alpha {
            return Ok((None, 0.0, frame, Duration::ZERO));
        }
        let Segmentation { frame, mask, uncertainty, took } = segment(engine, &slot, frame, &cut, call).await?;
        Ok((Some(mask), uncertainty, frame, took))
    };
    let ((mask, uncertainty, frame, looked), drawn) = tokio::try_join!(looking, backdrop::drawn(&workers, drawing))?;
    timings.segment = looked;
    let region = cut.region.map(|region| region.of(size));
    let mask = match region {
        Some(region) => mask.map(|mask| region::masked(mask, size, region)),
        None => mask,
    };
    let PortraitInput { frame, mask, sitter, took } = match picture {
        Picture::Portrait(portrait) => PortraitFace::find(&workers, frame, mask, portrait).await?,
        Picture::Classified => {
            PortraitFace::find(&workers, frame, mask, Portrait { aspect: None, restore_face: false }).await?
        }
        Picture::Cutout | Picture::Source => PortraitInput { frame, mask, sitter: None, took: Duration::ZERO },
    };
    timings.retouch = took;
    // A face that only classifies the subject changes nothing of the picture.
    let framed_by = sitter.filter(|_| matches!(picture, Picture::Portrait(_)));
    let matting = framed_by.map_or(cut.matting, |sitter| sitter.matting(cut.matting, size));
    let matte = move || {
        let (frame, subject) = subject_of(frame, mask.as_ref(), picture, &matting)?;
        match region {
            Some(region) => region::cleared(frame, region),
            None => Ok((frame, subject)),
        }
    };
    let (found, took) = workers.run("matte", matte).await?;
    let (frame, subject) = found?;
    timings.matte = took;

    let (scene, materials, understood, drawing) = backdrop::placed(drawn, &scene, materials);
    let compose = move || {
        let scene = match framed_by {
            Some(sitter) => Cow::Owned(sitter.scene(&scene, &frame)),
            None => scene.anchored(&frame),
        };
        let layout = scene.layout(size, subject)?;
        let face = sitter.map_or(FaceFound::None, |sitter| sitter.found(&layout, size));
        Ok::<_, PipelineError>((compose::flatten(frame, subject, &layout, &scene, materials), face))
    };
    let (flattened, took) = workers.run("compose", compose).await?;
    let (Flattened { composite, subject }, face) = flattened?;
    timings.compose = drawing + took;
    // A subject that the resize left nothing of: an empty picture is never called a success.
    let subject = subject.ok_or(NoSubject)?;

    let (image, took) = workers.run("encode", move || codec::encode(composite, &encode)).await?;
    let image = image?;
    timings.encode = took;

    timings.settle(began);
    // Reported only where faces were detected.
    let face = matches!(picture, Picture::Portrait(_) | Picture::Classified).then_some(face);
    let (subject, uncertainty) = (Some(subject), Some(uncertainty));
    Ok(Output { image, subject, uncertainty, face, model: cut.model.of(&engine.model()), understood, timings })
}

/// Pixels that composing needs at most beside a source of `size`, whatever is found in it.
fn most_pixels(scene: &Scene, picture: Picture, size: Size) -> usize {
    match picture {
        Picture::Portrait(portrait) => {
            let framed = portrait.scene(scene, Head::anywhere(size)).most_pixels(size);
            framed.max(scene.most_pixels(size))
        }
        Picture::Cutout | Picture::Classified | Picture::Source => scene.most_pixels(size),
    }
}

/// The picture to put into the scene, and where its subject is. Without a mask the picture's own alpha says.
fn subject_of(
    frame: Frame,
    mask: Option<&Mask>,
    picture: Picture,
    options: &matting::Options,
) -> Result<(Frame, Rect), NoSubject> {
    let (frame, subject) = match (mask, picture) {
        (None, _) => {
            let Cutout(frame) = matting::from_own_alpha(frame)?;
            let subject = frame.covered(SUBJECT_ALPHA);
            (frame, subject)
        }
        (Some(mask), Picture::Cutout | Picture::Classified | Picture::Portrait(_)) => {
            let Cutout(frame) = matting::cut_out(frame, mask, options)?;
            let subject = frame.covered(SUBJECT_ALPHA);
            (frame, subject)
        }
        (Some(mask), Picture::Source) => {
            let subject = matting::matte_of(&frame, mask, options)?.covered(SUBJECT_ALPHA);
            (frame, subject)
        }
    };
    Ok((frame, subject.ok_or(NoSubject)?))
}

/// A file whose header has been judged.
struct Judged {
    bytes: Bytes,
    header: Header,
}

impl Judged {
    fn of(bytes: Bytes, limits: &Limits) -> Result<Self, DecodeError> {
        let header = codec::probe(&bytes, limits)?;
        Ok(Self { bytes, header })
    }

    fn decoded(self, buffers: &BufferPool) -> Result<Frame, DecodeError> {
        let Self { bytes, header } = self;
        let frame = codec::decode(&bytes, &header, buffers)?;
        if frame.size() == header.size {
            Ok(frame)
        } else {
            Err(DecodeError::Corrupt(format!("the header says {}, the pixels {}", header.size, frame.size())))
        }
    }
}

/// The files of a job, all of them judged before the first is decoded.
struct Probed {
    source: Judged,
    background: Option<Judged>,
    mark: Option<Judged>,
}

impl Probed {
    /// The background has limits of its own.
    fn of(files: Files, limits: &Limits, of_background: &Limits) -> Result<Self, PipelineError> {
        let beside = |which, bytes: Option<Bytes>, limits| {
            let judged = bytes.map(|bytes| Judged::of(bytes, limits)).transpose();
            judged.map_err(|error| PipelineError::AuxImage { which, error })
        };
        Ok(Self {
            source: Judged::of(files.source, limits)?,
            background: beside(AuxImage::Background, files.background, of_background)?,
            mark: beside(AuxImage::Mark, files.mark, limits)?,
        })
    }

    /// Pixels that the decoded pictures hold.
    fn pixels(&self) -> usize {
        let area = |judged: &Option<Judged>| judged.as_ref().map_or(0, |judged| judged.header.size.area());
        self.source.header.size.area() + area(&self.background) + area(&self.mark)
    }

    fn decoded(self, buffers: &BufferPool) -> Result<(Frame, Materials), PipelineError> {
        let beside = |which, judged: Option<Judged>| {
            let decoded = judged.map(|judged| judged.decoded(buffers)).transpose();
            decoded.map_err(|error| PipelineError::AuxImage { which, error })
        };
        let background = beside(AuxImage::Background, self.background)?;
        let mark = beside(AuxImage::Mark, self.mark)?;
        Ok((self.source.decoded(buffers)?, Materials { background, plate: None, mark }))
    }
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
