//! Matting on a GPU: the same stages as on the CPU, in the same order, on planes that stay on the device.
//!
//! The picture is there since the network saw it. Up go two planes of the mask's grid (the clean mask, and the expected alpha), down
//! comes the finished cutout. Two steps are of connected components, and the host's: the clean-up of the mask before, and the
//! removal of specks after. Work is queued without waiting; a worker waits for its own picture's download alone, so the pictures
//! of several workers are in flight together.
//!
//! A device that fails costs nothing but the time: the picture is matted on the CPU.

mod finish;
pub(crate) mod stages;

use super::clean::CleanMask;
use super::cut_out::{CpuMatting, Matting};
use super::error::NoSubject;
use super::guide::Guide;
use super::matte::speck_pixels;
use super::options::{Edge, Method, Options};
use crate::image::{Cutout, DeviceCopy, Frame, Size, Transferred};
use crate::telemetry::{metrics, panic_message};
use stages::Grids;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Matting on the GPU that has a copy of the picture.
pub(crate) struct GpuMatting {
    picture: DeviceCopy,
}

impl GpuMatting {
    pub(super) const fn new(picture: DeviceCopy) -> Self {
        Self { picture }
    }

    /// Whether it supports `guide` and `options`. Trimaps of the caller's, bands widened for hair, hard edges and despill are the
    /// CPU's.
    pub(crate) fn does(guide: Guide<'_>, options: &Options) -> bool {
        let Options { method, edge, despill, decontaminate: _, opaque, hair } = *options;
        let plain = method == Method::ClosedForm && edge == Edge::Soft && despill == 0.0 && !opaque && hair.is_none();
        plain && !matches!(guide, Guide::Trimap(_))
    }

    /// The packed cutout of a picture of `size`, before specks are removed.
    fn solved(&self, mask: &CleanMask, size: Size) -> Result<Vec<u32>, String> {
        let words = self.picture.words();
        let solve = || {
            let grids = Grids::of(mask, &words.device());
            let cutout = stages::cutout(words, &grids).try_into_data().map_err(|error| error.to_string())?;
            Ok((grids.bytes(), cutout.try_into_vec::<u32>().map_err(|error| error.to_string())?))
        };
        // A driver's error may be a panic in burn.
        let outcome = catch_unwind(AssertUnwindSafe(solve));
        let (up, cutout) = outcome.unwrap_or_else(|panic| Err(panic_message(&*panic).to_owned()))?;
        let down = (cutout.len() * size_of::<u32>()) as u64;
        self.picture.count(Transferred { up, down });
        metrics::device_bytes(up, down);
        // A kernel that panicked on the device's thread leaves zeros, which read back as success; a clean mask has a subject.
        let is_written = cutout.len() == size.area() && cutout.iter().any(|&word| word != 0);
        if is_written { Ok(cutout) } else { Err("the cutout was never written".to_owned()) }
    }
}

impl Matting for GpuMatting {
    fn cut_out(&self, frame: Frame, guide: Guide<'_>, options: &Options) -> Result<Cutout, NoSubject> {
        let mask = guide.cleaned(&frame, options)?.ok_or(NoSubject)?;
        match self.solved(&mask, frame.size()) {
            Ok(words) => {
                let least = speck_pixels(&mask, frame.size());
                finish::finished(frame, &words, least)
            }
            Err(reason) => {
                metrics::matting_failed();
                tracing::warn!(reason, "matting failed on the device; the picture is matted on the CPU");
                CpuMatting.cut_out(frame, guide, options)
            }
        }
    }
}
