//! Interface of an executor: pixels and recipe in, finished pixels out.

use crate::compose::{Materials, Scene};
use crate::image::{Composite, Frame, Rect, Transferred};
use crate::matting::Options;
use crate::pipeline::coverage::Coverage;
use crate::pipeline::error::PipelineError;
use crate::pipeline::output::FaceFound;
use crate::pipeline::portrait::PortraitFace;
use crate::recipe::Picture;
use std::sync::Arc;
use std::time::Duration;

pub(in crate::pipeline) trait Executor {
    /// Makes the picture of `task`.
    ///
    /// # Errors
    /// [`PipelineError::NoSubject`] when no pixel of the subject is left, [`PipelineError::OutputTooLarge`].
    fn finish(&self, task: Task) -> Result<FinishedPicture, PipelineError>;
}

/// Input of an executor: a picture with its subject's coverage, and what to make of it.
pub(in crate::pipeline) struct Task {
    /// The picture, with its copy on a device if it was segmented there.
    pub(in crate::pipeline) frame: Frame,
    /// Source of the subject's coverage.
    pub(in crate::pipeline) coverage: Coverage,
    /// The part of the picture that is composed.
    pub(in crate::pipeline) picture: Picture,
    pub(in crate::pipeline) options: Options,
    /// The part outside of which there is no subject.
    pub(in crate::pipeline) region: Option<Rect>,
    /// Input of composing.
    pub(in crate::pipeline) composition: Composition,
}

/// Scene, materials and face with which a cutout is composed.
pub(in crate::pipeline) struct Composition {
    pub(in crate::pipeline) scene: Arc<Scene>,
    pub(in crate::pipeline) materials: Materials,
    /// The subject's face, which may frame the picture.
    pub(in crate::pipeline) face: PortraitFace,
}

pub(in crate::pipeline) struct FinishedPicture {
    pub(in crate::pipeline) composite: Composite,
    /// The subject's bounds in it.
    pub(in crate::pipeline) subject: Rect,
    /// The face in it; `None` if no face detection ran.
    pub(in crate::pipeline) face: Option<FaceFound>,
    pub(in crate::pipeline) matte: Duration,
    pub(in crate::pipeline) compose: Duration,
    /// Bytes transferred between host and device for the picture; `None` on the CPU.
    pub(in crate::pipeline) transferred: Option<Transferred>,
}
