//! Matting on a GPU: the same stages as on the CPU, in the same order, on planes that stay on the device.
//!
//! The picture is there since the network saw it. Up go two planes of the mask's grid (the clean mask, and the expected alpha), down
//! comes the finished cutout. Two steps are of connected components, and the host's: the clean-up of the mask before, and the
//! removal of specks after. Work is queued without waiting; a worker waits for its own picture's download alone, so the pictures
//! of several workers are in flight together.
//!
//! A picture waits until the device has memory for its planes; one that can never fit is the CPU's. A device that fails, or does not
//! answer in time, costs nothing but the time: the picture is matted on the CPU.

mod finish;
pub(crate) mod stages;

use super::clean::CleanMask;
use super::cut_out::{Matting, cut_out_on_cpu};
use super::error::NoSubject;
use super::guide::Guide;
use super::matte::{SolvedMatte, speck_pixels};
use super::options::{Edge, Method, Options};
use crate::image::{Cutout, DeviceCopy, Frame, Size, Transferred};
use crate::telemetry::metrics;
use stages::Grids;

/// Bytes a pixel on the device. The solver has 56 on the finest level (its picture, three planes of labels, the start, five of
/// its own, and four of lines); the levels of picture and labels add up to a third more of theirs, the coarser solution and the
/// grids are small.
const BYTES: u64 = 72;
/// Bytes a pixel of the largest buffer: the lines.
const LARGEST_BYTES: u64 = 16;

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

    /// Whether the GPU has room for a picture of `size`, when no other is there.
    pub(super) fn has_room(picture: &DeviceCopy, size: Size) -> bool {
        picture.session().can_hold(memory(size), LARGEST_BYTES * size.area() as u64)
    }

    /// The packed cutout of a picture of `size`, before specks are removed.
    fn solved(&self, mask: &CleanMask, size: Size) -> Result<Vec<u32>, String> {
        let (session, words) = (self.picture.session(), self.picture.words());
        let room = session.reserve(memory(size)).ok_or("the device is lost, or its memory stays taken")?;
        let grids = Grids::of(mask, session.device());
        let up = grids.bytes();
        let solve = move || {
            let cutout = stages::cutout(words, &grids).try_into_data().map_err(|error| error.to_string())?;
            // Late calls keep their memory.
            drop(room);
            cutout.try_into_vec::<u32>().map_err(|error| error.to_string())
        };
        let cutout = session.call(solve).map_err(|error| error.to_string())??;
        self.picture.count(Transferred { up, down: (cutout.len() * size_of::<u32>()) as u64 });
        // A kernel that panicked on the device's thread leaves zeros, which read back as success; a clean mask has a subject.
        let is_written = cutout.len() == size.area() && cutout.iter().any(|&word| word != 0);
        if is_written { Ok(cutout) } else { Err("the cutout was never written".to_owned()) }
    }
}

/// Bytes that the planes of a picture of `size` take: those of the finest level of the solver, and the pyramids.
fn memory(size: Size) -> u64 {
    BYTES * size.area() as u64
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
                let solved = SolvedMatte::of_clean(&frame, guide, mask, options);
                cut_out_on_cpu(frame, solved, options)
            }
        }
    }
}
