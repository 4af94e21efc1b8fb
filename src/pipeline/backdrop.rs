//! Renders a backdrop from a prompt with the built-in generator while the network runs; makes it the background.

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

/// Memory of [`generate::render`] in addition to the picture, in pixels of four bytes: 36 MB.
const WORKING_PIXELS: usize = 9 << 20;

/// Limits of the background's file. Generated backgrounds have separate limits.
pub(super) const fn file_limits(inputs: &RequiredInputs, limits: Limits) -> Limits {
    match inputs.background {
        Some(Source::Generated(_)) => PICTURE_LIMITS,
        Some(Source::Attached | Source::Url(_)) | None => limits,
    }
}

/// Prompt and canvas of a backdrop to render, if any. The canvas's size is not known at first.
pub(super) struct GeneratedBackdrop<Canvas = Size>(Option<(String, Canvas)>);

impl GeneratedBackdrop<()> {
    /// The backdrop that the recipe needs and `files` lacks.
    pub(super) fn of(inputs: &RequiredInputs, files: &Files) -> Self {
        Self(match &inputs.background {
            Some(Source::Generated(PromptRequest { prompt, .. })) if files.background.is_none() => {
                Some((prompt.clone(), ()))
            }
            Some(Source::Attached | Source::Url(_) | Source::Generated(_)) | None => None,
        })
    }

    /// The backdrop at the size of the canvas, pixel for pixel, for a source of this size.
    pub(super) fn sized(self, scene: &Scene, source: Size) -> Result<GeneratedBackdrop, OutputTooLarge> {
        let sized = |(prompt, ())| Ok((prompt, scene.layout(source, Rect::whole(source))?.canvas));
        Ok(GeneratedBackdrop(self.0.map(sized).transpose()?))
    }
}

impl GeneratedBackdrop {
    /// Upper bound on the pixels held while rendering.
    pub(super) fn most_pixels(&self) -> usize {
        self.0.as_ref().map_or(0, |(_, canvas)| canvas.area() + WORKING_PIXELS)
    }

    pub(super) async fn rendered(self, workers: &Workers<'_>) -> Result<RenderedBackdrop, EngineError> {
        let Some((prompt, canvas)) = self.0 else { return Ok(RenderedBackdrop(None)) };
        let rendered = workers.run("draw", move || generate::render(&prompt, canvas)).await?;
        Ok(RenderedBackdrop(Some(rendered)))
    }
}

/// The rendered backdrop, if any, and the time of rendering.
pub(super) struct RenderedBackdrop(Option<(Rendered, Duration)>);

pub(super) struct Placed {
    pub(super) scene: Arc<Scene>,
    pub(super) materials: Materials,
    /// Words of the prompt for which the generator has a scene.
    pub(super) understood: Option<Vec<String>>,
    pub(super) took: Duration,
}

impl RenderedBackdrop {
    /// Sets the backdrop as the scene's background; the backdrop lights the subject.
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
