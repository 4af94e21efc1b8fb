//! Matting and composing on the GPU that has a copy of the picture.
//!
//! The cutout stays there between the two. Pictures that the device mattes but does not compose come down as cutouts, and those that
//! it does not matte are the CPU's. When the device fails, the CPU starts again from the mask.

use super::cpu::{CpuExecutor, matted_by};
use super::task::{Composition, Executor, Finished, Task};
use crate::compose::{self, OutputTooLarge, SUBJECT_ALPHA};
use crate::image::{DeviceCopy, Frame, Rect};
use crate::matting::despill::Surroundings;
use crate::matting::gpu::DeviceCutout;
use crate::matting::{self, Guide, NoSubject, Options};
use crate::pipeline::coverage::Coverage;
use crate::pipeline::error::PipelineError;
use crate::pipeline::window;
use crate::recipe::Picture;
use std::time::Instant;

/// The GPU, for what it supports; the rest is the CPU's.
pub(in crate::pipeline) struct GpuExecutor;

impl Executor for GpuExecutor {
    fn finished(&self, task: Task) -> Result<Finished, PipelineError> {
        match on_device(&task) {
            Outcome::Finished(finished) => Ok(*finished),
            Outcome::Refused(error) => Err(error),
            Outcome::Uncomposed(uncomposed) => {
                let Uncomposed { cutout, surroundings } = &*uncomposed;
                let surroundings = surroundings.as_ref();
                matted_by(task, &|frame, guide, options| cutout.on_host(frame, guide, options, surroundings))
            }
            Outcome::Unsupported => {
                matted_by(task, &|frame, guide, options| matting::gpu::cut_out(frame, guide, options))
            }
            Outcome::Failed(reason) => {
                matting::gpu::report_failure(&reason);
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
    /// It was not begun.
    Unsupported,
    /// With a cutout of what was matted, which the device does not compose.
    Uncomposed(Box<Uncomposed>),
    /// The device failed.
    Failed(String),
}

/// A cutout of what was matted, and the background around it where spill is to be removed.
struct Uncomposed {
    cutout: DeviceCutout,
    surroundings: Option<Surroundings>,
}

impl From<Uncomposed> for Outcome {
    fn from(uncomposed: Uncomposed) -> Self {
        Self::Uncomposed(Box::new(uncomposed))
    }
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
    let Some(matted) = supported(task) else { return Outcome::Unsupported };
    match finished(task, &matted) {
        Ok(finished) => Outcome::Finished(Box::new(finished)),
        Err(outcome) => outcome,
    }
}

/// What is matted on the device.
struct Matted<'a> {
    /// The picture, or its part in the caller's box.
    frame: &'a Frame,
    /// Its copy there.
    picture: &'a DeviceCopy,
    guide: Guide<'a>,
    options: Options,
    /// Where it lies in the whole picture.
    window: Rect,
}

/// What is matted of `task`, where the device supports all that the task has.
fn supported(task: &Task) -> Option<Matted<'_>> {
    let Task { frame: whole, coverage, picture, options, region: _, composition } = task;
    let Coverage::Network { mask, standard, seeds, window, crop } = coverage else { return None };
    let is_cutout = match picture {
        Picture::Cutout | Picture::Classified | Picture::Portrait(_) => true,
        Picture::CleanMask | Picture::Source => false,
    };
    if !is_cutout || !compose::gpu::does(&composition.scene, whole.size()) {
        return None;
    }
    let (frame, options) = match crop {
        Some(crop) => (crop, window::options_within(options, *window)),
        None => (whole, *options),
    };
    let guide = Guide::Network { mask, standard: standard.as_ref(), seeds };
    let picture = matting::gpu::usable(frame, guide, &options)?;
    Some(Matted { frame, picture, guide, options, window: *window })
}

fn finished(task: &Task, matted: &Matted<'_>) -> Result<Finished, Outcome> {
    let began = Instant::now();
    let Task { frame, region, composition: Composition { scene, materials, face }, .. } = task;
    let Matted { frame: part, picture, guide, options, window } = matted;
    let (size, session) = (frame.size(), picture.session());
    let cutout = matting::gpu::cut_out_on_device(part, picture, *guide, options).map_err(Outcome::Failed)?;
    let cutout = cutout?;
    let surroundings = Surroundings::for_strength(part, &cutout.coverage, options.despill);
    let uncomposed = Uncomposed { cutout, surroundings };
    // Spill is removed by the host.
    if uncomposed.surroundings.as_ref().is_some_and(Surroundings::spill) {
        return Err(uncomposed.into());
    }
    let placed = placed(&uncomposed.cutout, part, *window, *region, frame).map_err(Outcome::Failed)?;
    let DeviceCutout { pixels, coverage, .. } = placed.as_ref().unwrap_or(&uncomposed.cutout);
    let bounds = coverage.covered(SUBJECT_ALPHA).ok_or(NoSubject)?;
    let matte = began.elapsed();

    let began = Instant::now();
    let scene = face.scene(scene, coverage);
    let layout = scene.layout(size, bounds)?;
    let face = face.located(&layout, size);
    if !compose::gpu::has_room(session, size, &layout, &scene, materials) {
        return Err(uncomposed.into());
    }
    let take = |len| frame.buffer(len);
    let composed = compose::gpu::flatten(session, (pixels.clone(), coverage), &layout, &scene, materials, take);
    // What an outline cannot be drawn around, and what a resize leaves nothing of, is the CPU's to refuse.
    let Some(composed) = composed.map_err(Outcome::Failed)? else { return Err(uncomposed.into()) };
    picture.count(composed.transferred);
    let (composite, subject) = (composed.composite, composed.subject);
    Ok(Finished { composite, subject, face, matte, compose: began.elapsed(), transferred: None })
}

/// `cutout` of `part`, which lies at `window` of the whole picture, as one of that, where it is another; nothing of it is left outside of
/// `region`, where there is one.
fn placed(
    cutout: &DeviceCutout,
    part: &Frame,
    window: Rect,
    region: Option<Rect>,
    whole: &Frame,
) -> Result<Option<DeviceCutout>, String> {
    let all = Rect::whole(part.size());
    let inside = match region {
        Some(region) => window::within(region, window).unwrap_or_default(),
        None => all,
    };
    let is_whole = inside == all && part.size() == whole.size();
    (!is_whole).then(|| cutout.placed(inside, window::outside(inside, window), whole)).transpose()
}
