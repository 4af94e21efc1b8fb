//! Refines and corrects a mask: networks see parts of the picture again, and their masks are merged with the first.

use super::call::Call;
use super::infer::infer_once;
use super::workers::Workers;
use crate::engine::{Engine, EngineError, Slot};
use crate::image::{Frame, RawMask};
use crate::matting::Seeds;
use crate::matting::refine::{self, Scope};
use crate::recipe::Network;
use futures_util::future::try_join_all;
use std::sync::Arc;
use std::time::Duration;

/// A further pass of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// The subject's box, and tiles along its edge, at a higher resolution.
    Refine(Scope),
    /// The subject's box with the mask so far and the caller's marks, by the guided network.
    Correct,
}

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
    seeds: &Arc<Seeds>,
    pass: Pass,
    call: &Call,
) -> Result<(Frame, RawMask, Duration), EngineError> {
    let workers = Workers { engine, slot };
    let (buffers, marks) = (engine.buffers().clone(), Arc::clone(seeds));
    let crop = move || {
        let size = frame.size();
        let crop = |part| (part, refine::cropped(&frame, part, &buffers));
        let crops: Vec<_> = match pass {
            Pass::Refine(scope) => refine::plan(&mask, size, scope).into_iter().map(crop).collect(),
            Pass::Correct => {
                let (part, crop) = crop(refine::crop(&mask, size, &marks));
                vec![(part, crop.with_hints(refine::hints(&mask, size, &marks, part)))]
            }
        };
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
    let marks = Arc::clone(seeds);
    let merge = move || match pass {
        Pass::Refine(_) => refine::merged(mask, size, &parts),
        Pass::Correct => refine::corrected(&mask, size, &marks, &parts),
    };
    let (mask, merging) = workers.run("join", merge).await?;
    // Parts of one batch took their time together.
    let network = times.into_iter().max().unwrap_or_default();
    Ok((frame, mask, cropping + network + merging))
}
