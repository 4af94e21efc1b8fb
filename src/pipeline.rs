//! The pipeline: runs the stages of a recipe, from the bytes of the input files to the bytes of the result.
//!
//! `bytes → Header → Frame → RawMask → CleanMask → Trimap → AlphaMatte → Cutout → Composite → EncodedImage`. Each stage
//! consumes the result of the previous one, so that every buffer is free as soon as the next one exists.
//!
//! `cut` is the plain `/remove`. Optional steps do nothing unless the recipe has them: `backdrop` (a backdrop rendered
//! from a prompt), `decode` (a plate for a blurred background), `coverage` (a picture's alpha, or the caller's mask),
//! `window` (the caller's box), `region` and `portrait`. `retouch` is the stage order without segmentation.

mod backdrop;
mod call;
mod coverage;
mod decode;
mod error;
mod executor;
mod files;
mod given_mask;
mod infer;
mod output;
mod per_file;
mod portrait;
mod probe;
mod refine_pass;
mod region;
mod retouch;
mod segment;
#[cfg(all(test, feature = "gpu"))]
pub(crate) mod tests;
mod timings;
mod warning;
mod window;
mod workers;

pub use call::Call;
pub use error::PipelineError;
pub use files::{AuxImage, Files};
pub use output::{FaceFound, Output};
pub use probe::header_of;
pub use segment::{Segmentation, segment};
pub use timings::Timings;
pub use warning::Warning;

use crate::compose::{Framing, OutputTooLarge, Scene};
use crate::engine::{Engine, EngineError};
use crate::image::{Rect, Size};
use crate::model::Retoucher;
use crate::recipe::{Cut, Picture, Recipe, Work};
use backdrop::{GeneratedBackdrop, Placed};
use coverage::Found;
use decode::Decoded;
use executor::{Composition, FinishedPicture, Task};
use files::Job;
use portrait::PortraitInput;
use probe::Probed;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout_at;
use workers::Workers;

/// Runs `recipe` on `files`.
///
/// When the returned future is dropped or the deadline passes, no further stage starts.
///
/// # Errors
/// See [`PipelineError`].
pub async fn run(
    engine: &Engine,
    files: impl Into<Files>,
    recipe: &Recipe,
    call: &Call,
) -> Result<Output, PipelineError> {
    let Recipe { work, scene, encode, inputs } = recipe.within(&call.limits);
    let job = Job { files: files.into(), scene, encode, inputs };
    let stages = async {
        match work {
            Work::Cut { cut: how, picture } => cut(engine, job, how, picture, call).await,
            Work::Retouch(retouch) => retouch::retouch(engine, job, retouch, call).await,
        }
    };
    timeout_at(call.deadline.into(), stages).await.unwrap_or(Err(PipelineError::Engine(EngineError::DeadlineExceeded)))
}

/// Name and version of the model that does `recipe`'s work, as `x-service-model` reports it: of `segmenter`'s weights
/// or, without a cutout, of `retoucher`'s.
#[must_use]
pub fn model_of(recipe: &Recipe, segmenter: impl FnOnce() -> String, retoucher: &dyn Retoucher) -> String {
    match recipe.work {
        Work::Cut { ref cut, .. } => cut.network.of(&segmenter()),
        Work::Retouch(retouch) => retouch::model_of(retoucher, retouch),
    }
}

/// The stages of a picture whose subject is cut out.
async fn cut(engine: &Engine, job: Job, cut: Cut, picture: Picture, call: &Call) -> Result<Output, PipelineError> {
    let Job { files, scene, mut encode, inputs } = job;
    let began = Instant::now();
    let mut timings = Timings { fetch: files.fetch, ..Timings::default() };
    let backdrop = GeneratedBackdrop::of(&inputs, &files);

    // Bytes → Header: limits are checked before any allocation.
    let (limits, background_limits) = (call.limits, backdrop::file_limits(&inputs, call.limits));
    let probed = Probed::of(files, background_limits, engine, call, &mut timings.decode).await?;
    let (size, of_file) = (probed.size(), probed.flaw());
    let located = cut.guidance.located(size)?;
    if let (Some(mask), Some(source)) = (probed.mask_size(), &inputs.mask) {
        given_mask::check_size(mask, size, source.param())?;
    }
    check_canvas(&scene, size)?;
    let backdrop = backdrop.sized(&scene, size)?;
    // The network and matting see a copy of the box only.
    let window = located.area.map_or(Rect::whole(size), |area| window::around(area, size));
    let copy = if located.area.is_some() { window.size().area() } else { 0 };
    let working_pixels = portrait::most_pixels(&scene, picture, size)
        + segment::most_pixels(window.size(), &cut)
        + copy
        + probed.background_size().map_or(0, |background| scene.most_background_pixels(size, background))
        + backdrop.most_pixels();
    let slot = engine.admit(call.tenant, probed.pixels() + working_pixels, call.deadline).await?;
    let workers = Workers { engine, slot: &slot };

    // Header → Frame.
    let probed = probed.received(&workers, &mut timings.decode).await?;
    let (buffers, scene) = (engine.buffers().clone(), Arc::new(scene));
    let (for_scene, how) = (Arc::clone(&scene), cut.clone());
    let kept = located.area.map(|area| window::kept(area, size));
    let region = located.area.or_else(|| cut.region.map(|region| region.of(size)));
    let decode = move || decode::decoded(probed, &buffers, &for_scene, (&how, &located, &inputs));
    let Decoded { frame, given, materials } = workers.timed("decode", &mut timings.decode, decode).await??;

    // Frame → RawMask.
    let found = coverage::find(&workers, frame, given, window, &cut, call);
    let (found, backdrop) = tokio::try_join!(found, backdrop.rendered(&workers))?;
    let Found { frame, coverage, uncertainty, took } = found;
    timings.segment = took;
    let of_mask = coverage.warning(uncertainty);
    // Before masks are restricted, which drops their outlines.
    let outline = coverage.outline();
    let matting = cut.matting_of(outline);
    let coverage = region::restricted(coverage, kept.or(region));
    let PortraitInput { frame, coverage, face, took } = portrait::find(&workers, frame, coverage, picture).await?;
    timings.retouch = took;

    // RawMask → CleanMask → Trimap → AlphaMatte → Cutout → Composite.
    let Placed { scene, materials, understood, took } = backdrop.placed(&scene, materials);
    let of_words = understood.as_ref().filter(|words| words.is_empty()).map(|_| Warning::NoWordRecognized);
    let of_face = face.warning();
    let (options, composition) = (face.matting(matting, size), Composition { scene, materials, face });
    let task = Task { frame, coverage, picture, options, region, composition };
    let (finished, _) = workers.run("finish", move || executor::finish(task)).await?;
    let FinishedPicture { composite, subject, face, matte, compose, transferred } = finished?;
    (timings.matte, timings.compose, timings.transferred) = (matte, took + compose, transferred);

    // Composite → EncodedImage.
    let of_size = Warning::lowering_effort(&mut encode, composite.frame().size(), &limits);
    let warnings = [of_file, of_mask, of_face, of_words, of_size].into_iter().flatten().collect();
    let image = workers.encode(&mut timings.encode, composite, encode).await?;

    timings.finalize(began);
    let (subject, uncertainty, model) = (Some(subject), Some(uncertainty), cut.network.of(&engine.model()));
    let edge = outline.filter(|_| cut.edge_by_kind).map(|_| matting.finalized_edge());
    Ok(Output { image, subject, uncertainty, edge, face, model, understood, warnings, timings })
}

/// Refuses a result that would be too large before any work, if the subject cannot change its size.
fn check_canvas(scene: &Scene, size: Size) -> Result<(), OutputTooLarge> {
    if scene.framing == Framing::Whole {
        scene.layout(size, Rect::whole(size))?;
    }
    Ok(())
}
