//! A backdrop that the built-in generator draws, while the network looks at the picture.

use super::{Files, Materials, OutputTooLarge, Scene, Workers};
use crate::engine::EngineError;
use crate::generate::{self, Backdrop, Rendered};
use crate::image::{Rect, Size};
use crate::recipe::{PromptRequest, RequiredInputs, Source};
use std::sync::Arc;
use std::time::Duration;

/// What [`generate::render`] takes beside the picture, in pixels of four bytes: 36 MB.
const ASIDE: usize = 9 << 20;

/// A backdrop to be drawn; `Canvas` is its size as soon as that is known.
pub(super) struct Drawing<Canvas = Size> {
    prompt: String,
    canvas: Canvas,
}

impl Drawing<()> {
    /// What has to be drawn: a backdrop that is wanted, and that nobody has made.
    pub(super) fn of(inputs: &RequiredInputs, files: &Files) -> Option<Self> {
        match &inputs.background {
            Some(Source::Generated(PromptRequest { prompt, .. })) if files.background.is_none() => {
                Some(Self { prompt: prompt.clone(), canvas: () })
            }
            Some(Source::Attached | Source::Url(_) | Source::Generated(_)) | None => None,
        }
    }

    /// The same for a source of that size. It is drawn as large as the canvas, pixel for pixel.
    pub(super) fn on(self, scene: &Scene, source: Size) -> Result<Drawing, OutputTooLarge> {
        let canvas = scene.layout(source, Rect::whole(source))?.canvas;
        Ok(Drawing { prompt: self.prompt, canvas })
    }
}

impl Drawing {
    /// Pixels that it holds at most.
    pub(super) fn most_pixels(&self) -> usize {
        self.canvas.area() + ASIDE
    }
}

/// What was drawn, and how long that took.
pub(super) type Drawn = Option<(Rendered, Duration)>;

/// Draws it on a CPU worker.
pub(super) async fn drawn(workers: &Workers<'_>, drawing: Option<Drawing>) -> Result<Drawn, EngineError> {
    let Some(Drawing { prompt, canvas }) = drawing else { return Ok(None) };
    workers.run("draw", move || generate::render(&prompt, canvas)).await.map(Some)
}

/// Puts it behind the subject, which stands in its light; the words that were understood, and the time that it took.
pub(super) fn placed(
    drawn: Drawn,
    scene: &Arc<Scene>,
    materials: Materials,
) -> (Arc<Scene>, Materials, Option<Vec<String>>, Duration) {
    match drawn {
        None => (Arc::clone(scene), materials, None, Duration::ZERO),
        Some((Rendered { backdrop: Backdrop { frame, grounding }, understood }, took)) => {
            let scene = Scene { grounding: Some(grounding), ..Scene::clone(scene) };
            (Arc::new(scene), Materials { background: Some(frame), ..materials }, Some(understood), took)
        }
    }
}
