//! Selects the implementation of matting for a picture: that of the GPU with a copy of its pixels, or the CPU's.

use super::cut_out::{CpuMatting, Matting};
use super::error::NoSubject;
#[cfg(feature = "gpu")]
use super::gpu::GpuMatting;
use super::guide::Guide;
use super::options::Options;
use crate::image::{Cutout, Frame};

/// Cuts the subject out of `frame`, where `guide` says it is. Works in the frame's own buffer.
///
/// # Errors
/// [`NoSubject`] when the matte would be empty.
pub fn cut_out<'a>(frame: Frame, guide: impl Into<Guide<'a>>, options: &Options) -> Result<Cutout, NoSubject> {
    let guide = guide.into();
    implementation(&frame, guide, options).cut_out(frame, guide, options)
}

/// The GPU's implementation where `frame` has a copy on a device that can hold its planes, and the GPU supports `guide` and
/// `options`; else the CPU's.
#[cfg(feature = "gpu")]
fn implementation(frame: &Frame, guide: Guide<'_>, options: &Options) -> Box<dyn Matting> {
    match frame.on_device() {
        Some(picture) if GpuMatting::does(guide, options) && GpuMatting::has_room(picture, frame.size()) => {
            Box::new(GpuMatting::new(picture.clone()))
        }
        Some(_) | None => Box::new(CpuMatting),
    }
}

#[cfg(not(feature = "gpu"))]
fn implementation(_: &Frame, _: Guide<'_>, _: &Options) -> Box<dyn Matting> {
    Box::new(CpuMatting)
}
