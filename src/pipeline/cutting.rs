//! From a picture to its mask: the network, as often and on whatever the recipe asks for.

use super::Call;
use crate::engine::{Engine, EngineError, Segmented, Slot};
use crate::image::{Frame, Mask};
use crate::matting;
use crate::recipe::Cut;
use std::time::Duration;

/// A picture and what the network saw in it.
#[derive(Debug)]
pub struct Looked {
    /// The picture that was given.
    pub frame: Frame,
    /// Its mask.
    pub mask: Mask,
    /// How unsure the mask is, 0 to 1.
    pub uncertainty: f32,
    /// How long the network took.
    pub took: Duration,
}

/// Has the network look at `frame` as `cut` asks.
///
/// # Errors
/// Those of [`Engine::segment`].
pub async fn look(engine: &Engine, slot: &Slot, frame: Frame, _cut: &Cut, call: &Call) -> Result<Looked, EngineError> {
    let Segmented { frames, masks, took, .. } = engine.segment(slot, vec![frame], call.lane, call.deadline).await?;
    // Cannot happen: the engine checks that there is a mask for each picture.
    let unanswered = || EngineError::Device("fewer masks than pictures".to_owned());
    let (frame, mask) = frames.into_iter().zip(masks).next().ok_or_else(unanswered)?;
    let uncertainty = matting::uncertainty(&mask);
    Ok(Looked { frame, mask, uncertainty, took })
}
