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
    let Segmented { frame, mask, took, .. } = engine.segment(slot, frame, call.lane, call.deadline).await?;
    let uncertainty = matting::uncertainty(&mask);
    Ok(Looked { frame, mask, uncertainty, took })
}
