//! Enlarges a whole picture or restores the faces in it: the stage order without segmentation.
//!
//! `bytes → Header → Frame → Frame → Composite → EncodedImage`.

use super::call::Call;
use super::error::PipelineError;
use super::files::Job;
use super::output::{FaceFound, Output};
use super::per_file::PerFile;
use super::portrait::box_of;
use super::probe::Probed;
use super::timings::Timings;
use super::warning::Warning;
use super::workers::Workers;
use crate::compose::{self, CanvasLimit, Flattened, Materials, OutputTooLarge};
use crate::engine::Engine;
use crate::face::{enlarged, restored, usable};
use crate::image::{Face, Frame, OutputFormat, Rect, Size, Subject};
use crate::model::{Enlargement, FaceSearch, Factor, Retoucher};
use crate::recipe::Retouch;
use std::time::{Duration, Instant};

/// The stages of a picture without segmentation.
pub(super) async fn retouch(engine: &Engine, job: Job, retouch: Retouch, call: &Call) -> Result<Output, PipelineError> {
    let Job { files, scene, mut encode, inputs: _ } = job;
    let began = Instant::now();
    let mut timings = Timings { fetch: files.fetch, ..Timings::default() };

    let probed = Probed::of(files, call.limits, engine, call, &mut timings.decode).await?;
    let of_file = probed.flaw();
    // Refuses a result that would be too large before any work.
    let size = larger(probed.size(), retouch.factor(), scene.limit)?;
    let layout = scene.layout(size, Rect::whole(size))?;
    let grown = if retouch.factor().is_some() { size.area() } else { 0 };
    let pixels = probed.pixels() + grown + scene.most_pixels(size);
    let slot = engine.admit(call.tenant, pixels, call.deadline).await?;
    let workers = Workers { engine, slot: &slot };

    let probed = probed.received(&workers, &mut timings.decode).await?;
    let buffers = engine.buffers().clone();
    let decode = move || probed.decoded(&buffers);
    let PerFile { source: frame, mark, .. } = workers.timed("decode", &mut timings.decode, decode).await??;

    if encode.format == OutputFormat::Jpeg && frame.has_transparency() {
        return Err(PipelineError::NoAlpha);
    }
    let (frame, face, took) = match retouch {
        Retouch::Enlarge(factor) => {
            let (frame, took) = enlarge(&workers, frame, factor).await?;
            (frame, None, took)
        }
        Retouch::Faces { enlarge, strength } => {
            let (frame, first, took) = faces(&workers, frame, enlarge, strength).await?;
            let at = box_of(&first, size).and_then(|part| layout.placed(part));
            (frame, Some(at.map_or(FaceFound::None, FaceFound::At)), took)
        }
    };
    timings.retouch = took;

    let whole = Rect::whole(size);
    let materials = Materials { mark, ..Materials::default() };
    let compose = move || compose::flatten(Subject::Source(frame), whole, &layout, &scene, materials);
    let Flattened { composite, .. } = workers.timed("compose", &mut timings.compose, compose).await?;
    let of_size = Warning::lowering_effort(&mut encode, composite.frame().size(), &call.limits);
    let warnings = of_file.into_iter().chain(of_size).collect();
    let image = workers.encode(&mut timings.encode, composite, encode).await?;

    timings.finalize(began);
    let model = model_of(&**engine.retoucher(), retouch);
    let understood = None;
    Ok(Output { image, subject: None, uncertainty: None, edge: None, face, model, understood, warnings, timings })
}

/// Name and version of the restoring weights or, without restoration, of the enlarging weights.
pub(super) fn model_of(retoucher: &dyn Retoucher, retouch: Retouch) -> String {
    match retouch {
        Retouch::Enlarge(factor) => retoucher.enlarges_with(factor),
        Retouch::Faces { .. } => retoucher.restores_with(),
    }
}

fn larger(size: Size, factor: Option<Factor>, limit: CanvasLimit) -> Result<Size, OutputTooLarge> {
    let by = factor.map_or(1, Factor::get);
    let size = Size::new(size.width.saturating_mul(by), size.height.saturating_mul(by));
    limit.check(size).map(|()| size)
}

/// Enlarges `frame`; returns the time.
async fn enlarge(workers: &Workers<'_>, frame: Frame, factor: Factor) -> Result<(Frame, Duration), PipelineError> {
    let mut picture = Enlargement::new(frame, factor)?;
    let mut worked = Duration::ZERO;
    while !picture.is_complete() {
        let retoucher = workers.engine.retoucher().clone();
        let enlarge = move || retoucher.enlarge_band(&mut picture).map(|()| picture);
        picture = workers.timed("enlarge", &mut worked, enlarge).await??;
    }
    Ok((picture.into_frame(), worked))
}

/// Restores all faces of `frame`, enlarged first if requested; returns the largest face.
async fn faces(
    workers: &Workers<'_>,
    frame: Frame,
    factor: Option<Factor>,
    strength: f32,
) -> Result<(Frame, Face, Duration), PipelineError> {
    let retoucher = workers.engine.retoucher().clone();
    let find = move || {
        let found = retoucher.faces(&frame, FaceSearch::All);
        (frame, found)
    };
    let ((frame, found), mut worked) = workers.run("faces", find).await?;
    let size = frame.size();
    let faces: Vec<Face> = found?.into_iter().filter(|face| usable(face, size)).collect();
    if faces.is_empty() {
        return Err(PipelineError::NoFace);
    }
    let (mut frame, faces) = match factor {
        Some(factor) => {
            let (frame, took) = enlarge(workers, frame, factor).await?;
            worked += took;
            (frame, faces.iter().map(|face| enlarged(face, factor.get())).collect())
        }
        None => (frame, faces),
    };
    for &face in &faces {
        // One task per face, so that cancellation takes effect and other requests are not delayed.
        let retoucher = workers.engine.retoucher().clone();
        let restore = move || {
            let done = restored(&mut frame, &face, strength, |crop| retoucher.restoration(crop));
            (frame, done)
        };
        let ((back, done), took) = workers.run("restore", restore).await?;
        done?;
        frame = back;
        worked += took;
    }
    Ok((frame, faces[0], worked))
}
