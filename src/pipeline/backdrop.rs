//! Renders a backdrop from a prompt with the built-in generator, while the network runs, and puts it behind the subject.

use super::files::Files;
use super::workers::Workers;
use crate::codec::Limits;
use crate::compose::{Materials, OutputTooLarge, Scene};
use crate::engine::EngineError;
use crate::generate::{self, Backdrop, PICTURE_LIMITS, Rendered};
use crate::image::{Rect, Size};
use crate::recipe::{PromptRequest, RequiredInputs, Source};
use std::sync::Arc;
use std::time::Duration;

/// What [`generate::render`] takes besides the picture, in pixels of four bytes: 36 MB.
const WORKING_PIXELS: usize = 9 << 20;

/// The limits of a background's file: generated ones have their own.
pub(super) const fn file_limits(inputs: &RequiredInputs, limits: Limits) -> Limits {
    match inputs.background {
        Some(Source::Generated(_)) => PICTURE_LIMITS,
        Some(Source::Attached | Source::Url(_)) | None => limits,
    }
}

/// The backdrop that has to be rendered, if any: its prompt and canvas, whose size is not known at first.
pub(super) struct GeneratedBackdrop<Canvas = Size>(Option<(String, Canvas)>);

impl GeneratedBackdrop<()> {
    /// A backdrop that the recipe needs and that has not come as a file.
    pub(super) fn of(inputs: &RequiredInputs, files: &Files) -> Self {
        Self(match &inputs.background {
            Some(Source::Generated(PromptRequest { prompt, .. })) if files.background.is_none() => {
                Some((prompt.clone(), ()))
            }
            Some(Source::Attached | Source::Url(_) | Source::Generated(_)) | None => None,
        })
    }

    /// The same for a source of that size. It is as large as the canvas, pixel for pixel.
    pub(super) fn sized(self, scene: &Scene, source: Size) -> Result<GeneratedBackdrop, OutputTooLarge> {
        let sized = |(prompt, ())| Ok((prompt, scene.layout(source, Rect::whole(source))?.canvas));
        Ok(GeneratedBackdrop(self.0.map(sized).transpose()?))
    }
}

impl GeneratedBackdrop {
    /// Pixels that rendering holds at most.
    pub(super) fn most_pixels(&self) -> usize {
        self.0.as_ref().map_or(0, |(_, canvas)| canvas.area() + WORKING_PIXELS)
    }

    /// Renders it on a CPU worker.
    pub(super) async fn rendered(self, workers: &Workers<'_>) -> Result<RenderedBackdrop, EngineError> {
        let Some((prompt, canvas)) = self.0 else { return Ok(RenderedBackdrop(None)) };
        let rendered = workers.run("draw", move || generate::render(&prompt, canvas)).await?;
        Ok(RenderedBackdrop(Some(rendered)))
    }
}

/// The backdrop that was rendered, if any, and how long that took.
pub(super) struct RenderedBackdrop(Option<(Rendered, Duration)>);

/// A scene with its materials.
pub(super) struct Placed {
    pub(super) scene: Arc<Scene>,
    pub(super) materials: Materials,
    /// The words of the prompt that the generator has a scene for.
    pub(super) understood: Option<Vec<String>>,
    /// How long rendering took.
    pub(super) took: Duration,
}

impl RenderedBackdrop {
    /// Puts the backdrop behind the subject, which is lit by it.
    pub(super) fn placed(self, scene: &Arc<Scene>, materials: Materials) -> Placed {
        match self.0 {
            None => Placed { scene: Arc::clone(scene), materials, understood: None, took: Duration::ZERO },
            Some((Rendered { backdrop: Backdrop { frame, grounding }, understood }, took)) => Placed {
                scene: Arc::new(Scene { grounding: Some(grounding), ..Scene::clone(scene) }),
                materials: Materials { background: Some(frame), ..materials },
                understood: Some(understood),
                took,
            },
        }
    }
}
