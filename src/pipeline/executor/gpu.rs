//! Mattes and composes on the GPU that has a copy of the picture.
//!
//! Between the two stages the cutout stays on the device. If the device mattes but cannot compose a picture, the cutout
//! is downloaded. If it cannot matte it, the CPU does both. When the device fails, the CPU starts again from the mask.

use super::cpu::{CpuExecutor, matted_by};
use super::task::{Composition, Executor, FinishedPicture, Task};
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

/// The GPU, for supported tasks, else the CPU.
pub(in crate::pipeline) struct GpuExecutor;

impl Executor for GpuExecutor {
    fn finish(&self, task: Task) -> Result<FinishedPicture, PipelineError> {
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
                CpuExecutor.finish(task)
            }
        }
    }
}

/// Result of matting and composing on the device.
enum Outcome {
    Finished(Box<FinishedPicture>),
    /// An error that the CPU would return too.
    Refused(PipelineError),
    /// The device did not begin.
    Unsupported,
    /// The cutout of a picture that the device cannot compose.
    Uncomposed(Box<Uncomposed>),
    Failed(String),
}

/// The cutout of the matted part, and the background around it if spill is to be removed.
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

/// Mattes and composes `task` without downloading the cutout.
fn on_device(task: &Task) -> Outcome {
    let Some(matted) = supported(task) else { return Outcome::Unsupported };
    match finish(task, &matted) {
        Ok(finished) => Outcome::Finished(Box::new(finished)),
        Err(outcome) => outcome,
    }
}

/// Input of matting on the device.
struct Matted<'a> {
    /// The picture, or its part in the caller's box.
    frame: &'a Frame,
    /// The copy of `frame` on the device.
    picture: &'a DeviceCopy,
    guide: Guide<'a>,
    options: Options,
    /// Rectangle of `frame` in the whole picture.
    window: Rect,
}

/// The input of matting for `task`; `None` if the device does not support the whole task.
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

fn finish(task: &Task, matted: &Matted<'_>) -> Result<FinishedPicture, Outcome> {
    let began = Instant::now();
    let Task { frame, region, composition: Composition { scene, materials, face }, .. } = task;
    let Matted { frame: part, picture, guide, options, window } = matted;
    let (size, session) = (frame.size(), picture.session());
    let cutout = matting::gpu::cut_out_on_device(part, picture, *guide, options).map_err(Outcome::Failed)?;
    let cutout = cutout?;
    let surroundings = Surroundings::for_strength(part, &cutout.coverage, options.despill);
    let uncomposed = Uncomposed { cutout, surroundings };
    // The host removes spill.
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
    // The CPU refuses a picture whose outline surrounds no pixel or whose resize leaves no subject.
    let Some(composed) = composed.map_err(Outcome::Failed)? else { return Err(uncomposed.into()) };
    picture.count(composed.transferred);
    let (composite, subject) = (composed.composite, composed.subject);
    Ok(FinishedPicture { composite, subject, face, matte, compose: began.elapsed(), transferred: None })
}

/// Places `cutout` of `part`, at `window` of the whole picture, on the whole picture, and clears it outside of
/// `region`, if given. `None` if that changes nothing.
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
