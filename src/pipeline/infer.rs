//! Runs the network on a picture: once, or on the picture and a copy with more contrast (`detect=high_recall`).

use super::call::Call;
use super::workers::Workers;
use crate::engine::{Engine, EngineError, Segmented, Slot};
use crate::image::{Frame, RawMask};
use crate::matting::{clahe, mask_union};
use crate::recipe::Network;
use std::time::Duration;

/// Runs the network on `frame`. Returns the frame, its mask, and the network's time.
pub(super) async fn infer_once(
    engine: &Engine,
    slot: &Slot,
    frame: Frame,
    network: &Network,
    call: &Call,
) -> Result<(Frame, RawMask, Duration), EngineError> {
    let segmented = engine.segment(network, slot, vec![frame], call.lane, call.deadline).await?;
    let Segmented { frames, masks, took, .. } = segmented;
    let (frame, mask) = frames.into_iter().zip(masks).next().ok_or_else(missing_mask)?;
    Ok((frame, mask, took))
}

/// Runs the network, in one batch, on `frame` and a copy with more contrast. Returns the frame, the union of both
/// masks, the mask of the frame alone, and the time.
pub(super) async fn infer_high_recall(
    engine: &Engine,
    slot: &Slot,
    frame: Frame,
    network: &Network,
    call: &Call,
) -> Result<(Frame, RawMask, RawMask, Duration), EngineError> {
    let side = engine.side_of(network).unwrap_or(clahe::DEFAULT_SIDE);
    let equalize = move || {
        let copy = clahe::equalized(&frame, side);
        vec![frame, copy]
    };
    let (both, equalizing) = Workers { engine, slot }.run("contrast", equalize).await?;
    let segmented = engine.segment(network, slot, both, call.lane, call.deadline).await?;
    let Segmented { frames, masks, took, .. } = segmented;
    let mut segmented = frames.into_iter().zip(masks);
    let (Some((frame, mask)), Some((_, second))) = (segmented.next(), segmented.next()) else {
        return Err(missing_mask());
    };
    Ok((frame, mask_union::union(mask.clone(), &second), mask, equalizing + took))
}

/// Unreachable: the engine returns a mask for each picture.
fn missing_mask() -> EngineError {
    EngineError::Device("fewer masks than pictures".to_owned())
}
