//! Makes the mask of a picture: inference and refinement by the recipe.

use super::call::Call;
use super::infer::{infer_high_recall, infer_once};
use super::refine_pass;
use crate::engine::{Engine, EngineError, Slot};
use crate::image::{Frame, RawMask, Size};
use crate::matting;
use crate::matting::refine::{self, Scope};
use crate::recipe::{Cut, CutEngine, Detect, InferenceMode, Network};
use std::time::Duration;

/// A picture and its mask.
#[derive(Debug)]
pub struct Segmentation {
    /// The given picture.
    pub frame: Frame,
    /// Its mask.
    pub mask: RawMask,
    /// With `detect=high_recall` the standard mask, which the clean-up keeps whole. `None` if `mask` was refined,
    /// because refinement moves its edge.
    pub standard: Option<RawMask>,
    /// Uncertainty of the mask, 0 to 1.
    pub uncertainty: f32,
    /// Time of the network, including the preparation of its input.
    pub took: Duration,
}

/// Upper bound on the pixels that [`segment()`] holds in addition to a picture of `size`.
pub(super) fn most_pixels(size: Size, cut: &Cut) -> usize {
    refinement(cut).map_or(0, |scope| refine::most_pixels(size, scope))
}

/// The parts that are segmented again. A refining engine already includes the parts of an inference mode. Added models
/// see the whole picture at their own resolution.
const fn refinement(cut: &Cut) -> Option<Scope> {
    match (cut.engine, &cut.network) {
        (Some(CutEngine::ProductV1), Network::BuiltIn(_)) => Some(Scope::Tiles),
        (None, Network::BuiltIn(InferenceMode::Standard)) => Some(Scope::SmallSubject),
        (None, Network::BuiltIn(InferenceMode::Quality)) => Some(Scope::Subject),
        (None, Network::BuiltIn(InferenceMode::Fast)) | (_, Network::Added(_)) => None,
    }
}

/// Segments `frame` by `cut`.
///
/// # Errors
/// See [`Engine::segment`] and [`Engine::cpu`].
pub async fn segment(
    engine: &Engine,
    slot: &Slot,
    frame: Frame,
    cut: &Cut,
    call: &Call,
) -> Result<Segmentation, EngineError> {
    let (frame, mask, standard, took) = match cut.detect {
        Detect::Standard => {
            let (frame, mask, took) = infer_once(engine, slot, frame, &cut.network, call).await?;
            (frame, mask, None, took)
        }
        Detect::HighRecall => {
            let (frame, mask, standard, took) = infer_high_recall(engine, slot, frame, &cut.network, call).await?;
            (frame, mask, Some(standard), took)
        }
    };
    let uncertainty = matting::uncertainty(&mask);
    let Some(scope) = refinement(cut) else {
        return Ok(Segmentation { frame, mask, standard, uncertainty, took });
    };
    let (frame, mask, refining) = refine_pass::refine(engine, slot, frame, mask, scope, call).await?;
    Ok(Segmentation { frame, mask, standard: None, uncertainty, took: took + refining })
}
