//! From a picture and its mask or matte to the cutout: matte, foreground colours, despill.

use super::despill::{self, Surroundings};
use super::error::NoSubject;
use super::foreground;
use super::guide::Guide;
use super::matte::SolvedMatte;
use super::options::{Edge, Method, Options};
use crate::image::{AlphaMatte, Cutout, Frame};
use rayon::prelude::*;

/// Cuts the subject out of `frame`, where `guide` says it is. Works in the frame's own buffer.
///
/// # Errors
/// [`NoSubject`] when the matte would be empty.
pub fn cut_out<'a>(frame: Frame, guide: impl Into<Guide<'a>>, options: &Options) -> Result<Cutout, NoSubject> {
    let solved = SolvedMatte::of(&frame, guide.into(), options)?;
    if !options.opaque {
        let matte = solved.finalized(&frame, options)?;
        return Ok(composed(frame, &matte, None, options));
    }
    // A hard edge still cuts through pixels that show some background: their colours are unmixed by the coverage that was
    // solved before the edge was hardened.
    let mut soft = solved.matte.clone();
    let matte = solved.finalized(&frame, options)?;
    soft.coverage_mut().par_iter_mut().zip(matte.coverage()).for_each(|(soft, &coverage)| {
        if *soft == 0 && coverage > 0 {
            // A pinhole that was filled shows subject; what the edge gained beyond the solved matte, next to none.
            *soft = if coverage == 255 { 255 } else { 1 };
        }
    });
    Ok(composed(frame, &matte, Some(&soft), options))
}

/// Cuts out of `frame` what a given matte covers: soft edge, unmixed colours, coverage in linear light. Works in the frame's
/// own buffer; an empty matte leaves nothing.
///
/// # Panics
/// When frame and matte differ in size.
#[must_use]
pub fn cut_out_with(frame: Frame, matte: &AlphaMatte) -> Cutout {
    composed(frame, matte, None, &Options::default())
}

/// The cutout that the picture's own alpha describes, for pictures that are cut out already.
///
/// # Errors
/// [`NoSubject`] when all of it is transparent.
pub fn from_own_alpha(frame: Frame) -> Result<Cutout, NoSubject> {
    Cutout::from_alpha(frame).ok_or(NoSubject)
}

/// Puts matte and foreground colours together. Colours are unmixed by `unmix_by` where it is another matte.
fn composed(mut frame: Frame, matte: &AlphaMatte, unmix_by: Option<&AlphaMatte>, options: &Options) -> Cutout {
    let surroundings = (options.despill > 0.0).then(|| Surroundings::of(&frame, matte));
    // An upsampled mask does not measure how colours mix, so nothing can be unmixed by it.
    let in_light = match options.method {
        Method::ClosedForm => Some(foreground::estimate(&mut frame, unmix_by.unwrap_or(matte))),
        Method::None => None,
    };
    // The coverage of a hard edge is geometry, not light.
    let is_soft = options.edge == Edge::Soft && !options.opaque;
    let matte = in_light.as_ref().filter(|_| is_soft).unwrap_or(matte);
    let mut cutout = Cutout::new(frame, matte);
    if let Some(surroundings) = surroundings {
        despill::despill(cutout.frame_mut(), &surroundings, options.despill);
    }
    cutout
}
