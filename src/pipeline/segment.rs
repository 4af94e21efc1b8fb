//! Makes the mask of a picture: inference and refinement by the recipe.

use super::call::Call;
use super::infer::{infer_high_recall, infer_once};
use super::refine_pass::{self, Pass};
use crate::engine::{Engine, EngineError, Slot};
use crate::image::{Frame, RawMask, Size};
use crate::matting::refine::{self, Scope};
use crate::matting::{self, Seeds};
use crate::recipe::{Cut, CutEngine, Detect, InferenceMode, Network};
use std::sync::Arc;
use std::time::Duration;

/// A picture and its mask.
#[derive(Debug)]
pub struct Segmentation {
    /// The given picture.
    pub frame: Frame,
    /// Its mask.
    pub mask: RawMask,
    /// With `detect=high_recall` the standard mask, which the clean-up keeps whole. `None` if `mask` was refined or corrected,
    /// which moves its edge.
    pub standard: Option<RawMask>,
    /// Uncertainty of the mask, 0 to 1.
    pub uncertainty: f32,
    /// Time of the network, including the preparation of its input.
    pub took: Duration,
}

/// Upper bound on the pixels that [`segment()`] holds in addition to a picture of `size`.
pub(super) fn most_pixels(size: Size, cut: &Cut) -> usize {
    let correction = cut.guidance.overrides_alpha().then_some(Scope::Subject);
    refinement(cut).or(correction).map_or(0, |scope| refine::most_pixels(size, scope))
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

/// Segments `frame` by `cut`, and corrects the mask by `seeds`.
///
/// # Errors
/// See [`Engine::segment`] and [`Engine::cpu`].
pub async fn segment(
    engine: &Engine,
    slot: &Slot,
    frame: Frame,
    cut: &Cut,
    seeds: &Arc<Seeds>,
    call: &Call,
) -> Result<Segmentation, EngineError> {
    let (mut frame, mut mask, mut standard, mut took) = match cut.detect {
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
    let (refinement, correction) = (refinement(cut).map(Pass::Refine), (!seeds.is_empty()).then_some(Pass::Correct));
    for pass in [refinement, correction].into_iter().flatten() {
        let refined = refine_pass::refine(engine, slot, frame, mask, seeds, pass, call).await?;
        (frame, mask, standard, took) = (refined.0, refined.1, None, took + refined.2);
    }
    Ok(Segmentation { frame, mask, standard, uncertainty, took })
}
