//! Estimates the mattes of a clip's frames from their masks, on the host or on the GPU that has a copy of the frame.

use super::clean::{self, CleanMask, CleanParams, Seeds};
use super::closed_form;
use super::cut_out::cut_out_with;
use super::error::NoSubject;
use super::frame_matte::{FrameMatte, PreviousFrame};
#[cfg(feature = "gpu")]
use super::gpu;
use super::guide::Guide;
use super::matte::SolvedMatte;
use super::options::Options;
use super::prior::{MaskPrior, Priors, TemporalPrior};
use super::trimap;
use crate::image::{Cutout, Frame, RawMask};
use backdrop_kernels::temporal_prior::cpu::Past;

/// The matte of a frame of a clip, with the input of the next frame's prior.
#[derive(Clone, Debug)]
pub struct TemporalMatte {
    /// Coverage of each pixel by the subject.
    pub matte: FrameMatte,
    /// The matte before traces of coverage and specks were removed.
    pub unfiltered: FrameMatte,
}

/// [`estimate_matte`](super::estimate_matte) with the default options for a frame of a clip, on the GPU that has a copy of it.
///
/// # Errors
/// [`NoSubject`] when the matte would be empty.
pub fn estimate_frame_matte(frame: &Frame, mask: &RawMask) -> Result<FrameMatte, NoSubject> {
    let (guide, options) = (Guide::from(mask), Options::default());
    let mask = guide.cleaned(frame, &options)?.ok_or(NoSubject)?;
    #[cfg(feature = "gpu")]
    if guide.matte().is_none()
        && let Some(matte) = gpu::clip::frame_matte(frame, &mask, None)
    {
        return Ok(FrameMatte::Device(matte));
    }
    SolvedMatte::of_clean(frame, guide, mask, &options).finalized(frame, &options).map(FrameMatte::Host)
}

/// `mask` after cleaning by the colours of its `frame`: what a temporal filter averages over frames, so that a
/// mislabelled frame has little influence. Zero without a subject.
#[must_use]
pub fn clean_frame_mask(frame: &Frame, mask: &RawMask) -> RawMask {
    let size = mask.size();
    let nothing = |NoSubject| RawMask::new(size, vec![0.0; size.area()]).expect("zeros are probabilities");
    clean::clean(frame, mask, &Seeds::default(), CleanParams::default()).map_or_else(nothing, RawMask::from)
}

/// The matte of a frame with the `previous` one as prior, which has no effect where its weight is zero. `mask`: an
/// average of [cleaned masks](clean_frame_mask), labelled here by its own values.
///
/// # Errors
/// [`NoSubject`] when the matte would be empty.
pub fn estimate_matte_with_prior(
    frame: &Frame,
    mask: &RawMask,
    previous: Option<&PreviousFrame<'_>>,
) -> Result<TemporalMatte, NoSubject> {
    let mask = clean::clean_without_colors(mask)?;
    #[cfg(feature = "gpu")]
    if let Some(matte) = gpu::clip::frame_matte(frame, &mask, previous) {
        let matte = FrameMatte::Device(matte);
        return Ok(TemporalMatte { unfiltered: matte.clone(), matte });
    }
    on_host(frame, &mask, previous)
}

fn on_host(frame: &Frame, mask: &CleanMask, previous: Option<&PreviousFrame<'_>>) -> Result<TemporalMatte, NoSubject> {
    let trimap = trimap::from_mask(mask, frame.size(), None);
    let temporal = previous.and_then(|previous| {
        // Without the previous matte, which is lost when its device has failed, the frame is matted alone.
        let matte = previous.unfiltered.downloaded().ok()?;
        let PreviousFrame { grid, flow, share, .. } = *previous;
        let [size, grid] = [frame.size(), grid].map(|size| (size.width as usize, size.height as usize));
        let past = Past { matte: matte.coverage(), size, grid, flow, share };
        Some(TemporalPrior::warped(&past, &trimap))
    });
    let of_mask = MaskPrior::of(frame, mask);
    let priors = Priors { mask: Some(&of_mask), temporal: temporal.as_ref() };
    let mut unfiltered = closed_form::estimate_alpha(frame, &trimap, &priors);
    if let Some(temporal) = temporal {
        temporal.blend(&mut unfiltered);
    }
    let solved = SolvedMatte::of_matte(unfiltered.clone(), mask, frame.size());
    let matte = FrameMatte::Host(solved.finalized(frame, &Options::default())?);
    Ok(TemporalMatte { matte, unfiltered: FrameMatte::Host(unfiltered) })
}

/// Cuts the subject of `matte` out of `frame`: soft edge, unmixed colours, coverage in linear light. Works in the
/// frame's own buffer; an empty matte gives an empty cutout.
///
/// # Panics
/// When frame and matte differ in size.
#[must_use]
pub fn cut_out_frame(frame: Frame, matte: &FrameMatte) -> Cutout {
    match matte {
        FrameMatte::Host(matte) => cut_out_with(frame, matte),
        #[cfg(feature = "gpu")]
        FrameMatte::Device(matte) => gpu::clip::cut_out(frame, matte),
    }
}
