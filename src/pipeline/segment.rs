//! From a picture to its mask: the network, as often and on whatever the recipe asks for.

use super::{Call, Workers, refine_pass};
use crate::engine::{Engine, EngineError, Segmented, Slot};
use crate::image::{Frame, Mask, Size};
use crate::matting::refine::{self, Again};
use crate::matting::{self, contrast, recall};
use crate::recipe::{Cut, CutEngine, Detect, InferenceMode};
use std::time::Duration;

/// A picture and what the network saw in it.
#[derive(Debug)]
pub struct Segmentation {
    /// The picture that was given.
    pub frame: Frame,
    /// Its mask.
    pub mask: Mask,
    /// How unsure the mask is, 0 to 1.
    pub uncertainty: f32,
    /// How long the network took, with what prepared its pictures.
    pub took: Duration,
}

/// Pixels that [`segment()`] holds at most beside a picture of `size`.
pub(super) fn most_pixels(size: Size, cut: &Cut) -> usize {
    again(cut).map_or(0, |again| refine::most_pixels(size, again))
}

/// What the network is shown again. An engine's own second look has all that a model's has.
const fn again(cut: &Cut) -> Option<Again> {
    match (cut.engine, cut.model) {
        (Some(CutEngine::ProductV1), InferenceMode::Standard | InferenceMode::Quality) => Some(Again::Tiles),
        (None, InferenceMode::Quality) => Some(Again::Subject),
        (None, InferenceMode::Standard) => None,
    }
}

/// Has the network look at `frame` as `cut` asks.
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
    let (frame, mask, took) = match cut.detect {
        Detect::Standard => infer_once(engine, slot, frame, call).await?,
        Detect::HighRecall => infer_high_recall(engine, slot, frame, call).await?,
    };
    let uncertainty = matting::uncertainty(&mask);
    let Some(again) = again(cut) else { return Ok(Segmentation { frame, mask, uncertainty, took }) };
    let (frame, mask, longer) = refine_pass::refine(engine, slot, frame, mask, again, call).await?;
    Ok(Segmentation { frame, mask, uncertainty, took: took + longer })
}

/// The picture again, its mask, and how long the network took.
pub(super) async fn infer_once(
    engine: &Engine,
    slot: &Slot,
    frame: Frame,
    call: &Call,
) -> Result<(Frame, Mask, Duration), EngineError> {
    let Segmented { frames, masks, took, .. } = engine.segment(slot, vec![frame], call.lane, call.deadline).await?;
    let (frame, mask) = frames.into_iter().zip(masks).next().ok_or_else(unanswered)?;
    Ok((frame, mask, took))
}

/// At the picture and, in the same batch, at a copy with more contrast.
async fn infer_high_recall(
    engine: &Engine,
    slot: &Slot,
    frame: Frame,
    call: &Call,
) -> Result<(Frame, Mask, Duration), EngineError> {
    let side = engine.side().unwrap_or(contrast::USUAL_SIDE);
    let boost = move || {
        let copy = contrast::boosted(&frame, side);
        vec![frame, copy]
    };
    let (both, boosting) = Workers { engine, slot }.run("contrast", boost).await?;
    let Segmented { frames, masks, took, .. } = engine.segment(slot, both, call.lane, call.deadline).await?;
    let mut looks = frames.into_iter().zip(masks);
    let (Some((frame, mut mask)), Some((_, second))) = (looks.next(), looks.next()) else { return Err(unanswered()) };
    recall::add(&mut mask, &second);
    Ok((frame, mask, boosting + took))
}

/// Cannot happen: the engine checks that there is a mask for each picture.
fn unanswered() -> EngineError {
    EngineError::Device("fewer masks than pictures".to_owned())
}
