//! The other stage order: a picture of which all stays, larger or with its faces restored.
//!
//! `bytes → Header → Frame → Frame → Composite → EncodedImage`. No subject is looked for.

use super::portrait::box_of;
use super::{Call, FaceFound, Job, Output, PipelineError, Probed, Timings, Workers};
use crate::codec;
use crate::compose::{self, CanvasLimit, Flattened, Materials, OutputTooLarge};
use crate::engine::{Engine, Slot};
use crate::face::{enlarged, restored, usable};
use crate::image::{Face, Frame, OutputFormat, Rect, Size};
use crate::model::{Factor, Retoucher};
use crate::recipe::Retouch;
use std::time::{Duration, Instant};

pub(super) async fn stages(
    engine: &Engine,
    slot: Slot,
    job: Job,
    retouch: Retouch,
    call: &Call,
) -> Result<Output, PipelineError> {
    let Job { files, scene, encode, inputs: _ } = job;
    let workers = Workers { engine, slot: &slot };
    let began = Instant::now();
    let mut timings = Timings { fetch: files.fetch, ..Timings::default() };

    let limits = call.limits;
    let (probed, probing) = workers.run("probe", move || Probed::of(files, &limits, &limits)).await?;
    let probed = probed?;
    // A result that would be too large is refused before it costs anything.
    let size = larger(probed.source.header.size, retouch.factor(), scene.limit)?;
    let layout = scene.layout(size, Rect::whole(size))?;
    let grown = if retouch.factor().is_some() { size.area() } else { 0 };
    engine.reserve_pixels(&slot, probed.pixels() + grown + scene.most_pixels(size), call.deadline).await?;

    let buffers = engine.buffers().clone();
    let (decoded, decoding) = workers.run("decode", move || probed.decoded(&buffers)).await?;
    let (frame, Materials { mark, .. }) = decoded?;
    timings.decode = probing + decoding;

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
    let compose = move || compose::flatten(frame, whole, &layout, &scene, materials);
    let (Flattened { composite, .. }, took) = workers.run("compose", compose).await?;
    timings.compose = took;

    let (image, took) = workers.run("encode", move || codec::encode(composite, &encode)).await?;
    let image = image?;
    timings.encode = took;

    timings.settle(began);
    let model = model_of(&**engine.retoucher(), retouch);
    Ok(Output { image, subject: None, uncertainty: None, face, model, understood: None, timings })
}

/// Name and version of the weights that do it: of those that restore, or of those that enlarge where nothing is restored.
pub(super) fn model_of(retoucher: &dyn Retoucher, retouch: Retouch) -> String {
    match retouch {
        Retouch::Enlarge(factor) => retoucher.enlarges_with(factor),
        Retouch::Faces { .. } => retoucher.restores_with(),
    }
}

/// The size that a picture of `size` is enlarged to.
fn larger(size: Size, factor: Option<Factor>, limit: CanvasLimit) -> Result<Size, OutputTooLarge> {
    let by = factor.map_or(1, Factor::get);
    let size = Size::new(size.width.saturating_mul(by), size.height.saturating_mul(by));
    limit.check(size).map(|()| size)
}

async fn enlarge(workers: &Workers<'_>, frame: Frame, factor: Factor) -> Result<(Frame, Duration), PipelineError> {
    let retoucher = workers.engine.retoucher().clone();
    let (enlarged, took) = workers.run("enlarge", move || retoucher.enlarged(&frame, factor)).await?;
    Ok((enlarged?, took))
}

/// `frame` with all its faces restored, larger before that if it is to be; and the largest of them.
async fn faces(
    workers: &Workers<'_>,
    frame: Frame,
    factor: Option<Factor>,
    strength: f32,
) -> Result<(Frame, Face, Duration), PipelineError> {
    let retoucher = workers.engine.retoucher().clone();
    let find = move || {
        let found = retoucher.faces(&frame);
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
        // Each by itself: nobody who left, and nothing else that waits, is kept by a crowd.
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
