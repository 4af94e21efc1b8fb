//! Matting and composing on the CPU, with all options.

use super::task::{Composition, Executor, FinishedPicture, Task};
use crate::compose::{self, Flattened};
use crate::image::{Rect, Subject};
use crate::matting::{self, NoSubject};
use crate::pipeline::coverage::CutOut;
use crate::pipeline::error::PipelineError;
use crate::pipeline::region;
use std::time::{Duration, Instant};

/// The reference executor: all options, on the host.
pub(super) struct CpuExecutor;

impl Executor for CpuExecutor {
    fn finish(&self, task: Task) -> Result<FinishedPicture, PipelineError> {
        matted_by(task, &|frame, guide, options| matting::cut_out(frame, guide, options))
    }
}

/// The finished picture of `task`, matted by `cut_out` and composed on the CPU.
pub(super) fn matted_by(task: Task, cut_out: CutOut<'_>) -> Result<FinishedPicture, PipelineError> {
    let began = Instant::now();
    let Task { frame, coverage, picture, options, region, composition } = task;
    let (subject, bounds) = coverage.subject(frame, picture, &options, region, cut_out)?;
    let (subject, bounds) = region::cleared(subject, bounds, region)?;
    composed(subject, bounds, composition, began.elapsed())
}

/// The finished picture of a `subject` with these `bounds`; `matte` is the time of its matting.
pub(super) fn composed(
    subject: Subject,
    bounds: Rect,
    composition: Composition,
    matte: Duration,
) -> Result<FinishedPicture, PipelineError> {
    let began = Instant::now();
    let Composition { scene, materials, face } = composition;
    let size = subject.size();
    let scene = face.scene(&scene, subject.frame());
    let layout = scene.layout(size, bounds)?;
    let face = face.located(&layout, size);
    let Flattened { composite, subject } = compose::flatten(subject, bounds, &layout, &scene, materials);
    // Resizing may have left no pixel of the subject; an empty picture is an error.
    let subject = subject.ok_or(NoSubject)?;
    Ok(FinishedPicture { composite, subject, face, matte, compose: began.elapsed(), transferred: None })
}
