//! The interface of an executor: pixels and recipe in, finished pixels out.

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

/// Mattes and composes pictures.
pub(in crate::pipeline) trait Executor {
    /// The finished picture of `task`.
    ///
    /// # Errors
    /// [`PipelineError::NoSubject`] when nothing of the subject is left, [`PipelineError::OutputTooLarge`].
    fn finished(&self, task: Task) -> Result<Finished, PipelineError>;
}

/// A picture whose subject was found, and what is made of it.
pub(in crate::pipeline) struct Task {
    /// The picture, with its copy on a device where it was segmented there.
    pub(in crate::pipeline) frame: Frame,
    /// Where its subject's coverage comes from.
    pub(in crate::pipeline) coverage: Coverage,
    /// What of it is composed.
    pub(in crate::pipeline) picture: Picture,
    /// How it is matted.
    pub(in crate::pipeline) options: Options,
    /// The part outside of which there is no subject.
    pub(in crate::pipeline) region: Option<Rect>,
    /// How it is composed.
    pub(in crate::pipeline) composition: Composition,
}

/// What a cutout is composed with.
pub(in crate::pipeline) struct Composition {
    /// Placement and layers.
    pub(in crate::pipeline) scene: Arc<Scene>,
    /// The pictures that the scene refers to.
    pub(in crate::pipeline) materials: Materials,
    /// The subject's face, which may frame the picture.
    pub(in crate::pipeline) face: PortraitFace,
}

/// A finished picture, and what was measured on the way.
pub(in crate::pipeline) struct Finished {
    /// The picture.
    pub(in crate::pipeline) composite: Composite,
    /// The subject's bounds in it.
    pub(in crate::pipeline) subject: Rect,
    /// The face in it; nothing where no faces were detected.
    pub(in crate::pipeline) face: Option<FaceFound>,
    /// Time from mask to cutout.
    pub(in crate::pipeline) matte: Duration,
    /// Time from cutout to finished picture.
    pub(in crate::pipeline) compose: Duration,
    /// What crossed the border between host and device for the picture; nothing on the CPU.
    pub(in crate::pipeline) transferred: Option<Transferred>,
}
