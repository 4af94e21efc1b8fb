//! Matting and composing on the GPU that has a copy of the picture.
//!
//! The cutout stays there between the two. Pictures that the device mattes but does not compose come down as cutouts, and those that
//! it does not matte are the CPU's. When the device fails, the CPU starts again from the mask.

use super::cpu::{CpuExecutor, matted_by};
use super::task::{Composition, Executor, Finished, Task};
use crate::compose::{self, OutputTooLarge, SUBJECT_ALPHA};
use crate::image::DeviceCopy;
use crate::matting::gpu::DeviceCutout;
use crate::matting::{self, Guide, NoSubject};
use crate::pipeline::coverage::Coverage;
use crate::pipeline::error::PipelineError;
use crate::recipe::Picture;
use crate::telemetry::metrics;
use std::time::Instant;

/// The GPU, for what it supports; the rest is the CPU's.
pub(in crate::pipeline) struct GpuExecutor;

impl Executor for GpuExecutor {
    fn finished(&self, task: Task) -> Result<Finished, PipelineError> {
        match on_device(&task) {
            Outcome::Finished(finished) => Ok(*finished),
            Outcome::Refused(error) => Err(error),
            Outcome::Unsupported => {
                matted_by(task, &|frame, guide, options| matting::gpu::cut_out(frame, guide, options))
            }
            Outcome::Failed(reason) => {
                metrics::matting_failed();
                tracing::warn!(reason, "the device failed; the picture is matted and composed on the CPU");
                CpuExecutor.finished(task)
            }
        }
    }
}

/// How matting and composing on the device ended.
enum Outcome {
    /// With a picture.
    Finished(Box<Finished>),
    /// Without one: the CPU would refuse it too.
    Refused(PipelineError),
    /// It was not begun, or the device does not compose what came of matting.
    Unsupported,
    /// The device failed.
    Failed(String),
}

impl From<NoSubject> for Outcome {
    fn from(error: NoSubject) -> Self {
        Self::Refused(error.into())
    }
}

impl From<OutputTooLarge> for Outcome {
    fn from(error: OutputTooLarge) -> Self {
        Self::Refused(error.into())
    }
}

/// Mattes and composes `task` without bringing the cutout to the host.
fn on_device(task: &Task) -> Outcome {
    let Some((guide, picture)) = supported(task) else { return Outcome::Unsupported };
    match finished(task, guide, picture) {
        Ok(finished) => Outcome::Finished(Box::new(finished)),
        Err(outcome) => outcome,
    }
}

/// The guide of `task` and the copy of its picture, where the device supports all that the task has.
fn supported(task: &Task) -> Option<(Guide<'_>, &DeviceCopy)> {
    let Task { frame, coverage, picture, options, region, composition } = task;
    let Coverage::Network { mask, standard, seeds, crop: None, .. } = coverage else { return None };
    let is_cutout = match picture {
        Picture::Cutout | Picture::Classified | Picture::Portrait(_) => true,
        Picture::CleanMask | Picture::Source => false,
    };
    if !is_cutout || region.is_some() || !compose::gpu::does(&composition.scene, frame.size()) {
        return None;
    }
    let guide = Guide::Network { mask, standard: standard.as_ref(), seeds };
    Some((guide, matting::gpu::usable(frame, guide, options)?))
}

fn finished(task: &Task, guide: Guide<'_>, picture: &DeviceCopy) -> Result<Finished, Outcome> {
    let began = Instant::now();
    let Task { frame, options, composition: Composition { scene, materials, face }, .. } = task;
    let (size, session) = (frame.size(), picture.session());
    let cutout = matting::gpu::cut_out_on_device(frame, picture, guide, options).map_err(Outcome::Failed)?;
    let DeviceCutout { pixels, coverage } = cutout?;
    let bounds = coverage.covered(SUBJECT_ALPHA).ok_or(NoSubject)?;
    let matte = began.elapsed();

    let began = Instant::now();
    let scene = face.scene(scene, &coverage);
    let layout = scene.layout(size, bounds)?;
    let face = face.located(&layout, size);
    if !compose::gpu::has_room(session, size, &layout, materials) {
        return Err(Outcome::Unsupported);
    }
    let take = |len| frame.buffer(len);
    let composed = compose::gpu::flatten(session, (pixels, &coverage), &layout, &scene, materials, take);
    // What an outline cannot be drawn around, and what a resize leaves nothing of, is the CPU's to refuse.
    let composed = composed.map_err(Outcome::Failed)?.ok_or(Outcome::Unsupported)?;
    picture.count(composed.transferred);
    let (composite, subject) = (composed.composite, composed.subject);
    Ok(Finished { composite, subject, face, matte, compose: began.elapsed(), transferred: None })
}
