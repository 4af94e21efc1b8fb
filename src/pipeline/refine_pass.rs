//! A second look: at the subject's box, and at tiles along its edge.

use super::segment::infer_once;
use super::{Call, Workers};
use crate::engine::{Engine, EngineError, Slot};
use crate::image::{Frame, Mask};
use crate::matting::refine::{self, Again};
use futures_util::future::try_join_all;
use std::time::Duration;

/// Joins `mask` with what the network sees in parts of `frame`; and how long that took.
///
/// Every part is a ticket of its own, so that they fill batches together with what other callers wait for. All are
/// answered before the masks are joined, in the order of the parts: the result does not depend on the company.
///
/// # Errors
/// Those of [`Engine::segment`] and [`Engine::cpu`].
pub(super) async fn refine(
    engine: &Engine,
    slot: &Slot,
    frame: Frame,
    mask: Mask,
    again: Again,
    call: &Call,
) -> Result<(Frame, Mask, Duration), EngineError> {
    let workers = Workers { engine, slot };
    let buffers = engine.buffers().clone();
    let crop = move || {
        let parts = refine::plan(&mask, frame.size(), again);
        let crop = |part| (part, refine::cropped(&frame, part, &buffers));
        let crops: Vec<_> = parts.into_iter().map(crop).collect();
        (frame, mask, crops)
    };
    let ((frame, mask, crops), cropping) = workers.run("crop", crop).await?;
    if crops.is_empty() {
        return Ok((frame, mask, cropping));
    }
    let looks = crops.into_iter().map(|(part, crop)| async move {
        let (_, mask, took) = infer_once(engine, slot, crop, call).await?;
        Ok::<_, EngineError>(((part, mask), took))
    });
    let (looks, times): (Vec<_>, Vec<_>) = try_join_all(looks).await?.into_iter().unzip();
    let size = frame.size();
    let (mask, joining) = workers.run("join", move || refine::merged(mask, size, &looks)).await?;
    // Those of one batch took the same time together.
    let network = times.into_iter().max().unwrap_or_default();
    Ok((frame, mask, cropping + network + joining))
}
