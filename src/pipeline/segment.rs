//! From a picture to its mask: inference and refinement, as the recipe says.

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
    /// The picture that was given.
    pub frame: Frame,
    /// Its mask.
    pub mask: RawMask,
    /// With `detect=high_recall` the standard mask, of which the clean-up loses nothing; not where `mask` was refined, which moves
    /// its edge.
    pub standard: Option<RawMask>,
    /// How uncertain the mask is, 0 to 1.
    pub uncertainty: f32,
    /// How long the network took, with the preparation of its input.
    pub took: Duration,
}

/// Pixels that [`segment()`] holds at most besides a picture of `size`.
pub(super) fn most_pixels(size: Size, cut: &Cut) -> usize {
    refinement(cut).map_or(0, |scope| refine::most_pixels(size, scope))
}

/// What is segmented again. An engine's own refinement includes all that an inference mode's does; added models see the whole picture
/// at their own resolution.
const fn refinement(cut: &Cut) -> Option<Scope> {
    match (cut.engine, &cut.network) {
        (Some(CutEngine::ProductV1), Network::BuiltIn(_)) => Some(Scope::Tiles),
        (None, Network::BuiltIn(InferenceMode::Standard)) => Some(Scope::SmallSubject),
        (None, Network::BuiltIn(InferenceMode::Quality)) => Some(Scope::Subject),
        (None, Network::BuiltIn(InferenceMode::Fast)) | (_, Network::Added(_)) => None,
    }
}

/// Segments `frame` as `cut` says.
///
/// # Errors
/// Those of [`Engine::segment`] and [`Engine::cpu`].
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
