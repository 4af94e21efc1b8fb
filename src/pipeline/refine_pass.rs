//! Refines a mask: segments the subject's box and tiles along its edge, and merges their masks with the first.

use super::call::Call;
use super::infer::infer_once;
use super::workers::Workers;
use crate::engine::{Engine, EngineError, Slot};
use crate::image::{Frame, RawMask};
use crate::matting::refine::{self, Scope};
use crate::recipe::Network;
use futures_util::future::try_join_all;
use std::time::Duration;

/// Merges `mask` with the masks of parts of `frame`. Returns the mask and the time.
///
/// Every part is a separate ticket, so that parts fill batches together with other callers' pictures. Masks are merged
/// in the order of the parts after all of them are computed, so the result does not depend on the batches.
///
/// # Errors
/// See [`Engine::segment`] and [`Engine::cpu`].
pub(super) async fn refine(
    engine: &Engine,
    slot: &Slot,
    frame: Frame,
    mask: RawMask,
    scope: Scope,
    call: &Call,
) -> Result<(Frame, RawMask, Duration), EngineError> {
    let workers = Workers { engine, slot };
    let buffers = engine.buffers().clone();
    let crop = move || {
        let parts = refine::plan(&mask, frame.size(), scope);
        let crop = |part| (part, refine::cropped(&frame, part, &buffers));
        let crops: Vec<_> = parts.into_iter().map(crop).collect();
        (frame, mask, crops)
    };
    let ((frame, mask, crops), cropping) = workers.run("crop", crop).await?;
    if crops.is_empty() {
        return Ok((frame, mask, cropping));
    }
    let inferences = crops.into_iter().map(|(part, crop)| async move {
        let (_, mask, took) = infer_once(engine, slot, crop, &Network::default(), call).await?;
        Ok::<_, EngineError>(((part, mask), took))
    });
    let (parts, times): (Vec<_>, Vec<_>) = try_join_all(inferences).await?.into_iter().unzip();
    let size = frame.size();
    let (mask, merging) = workers.run("join", move || refine::merged(mask, size, &parts)).await?;
    // Parts of one batch took their time together.
    let network = times.into_iter().max().unwrap_or_default();
    Ok((frame, mask, cropping + network + merging))
}
