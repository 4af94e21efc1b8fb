//! Cuts the subject out of a picture by its mask or matte, on the CPU: matte, foreground colours, despill.

use super::despill::{self, Surroundings};
use super::error::NoSubject;
use super::foreground;
use super::guide::Guide;
use super::matte::SolvedMatte;
use super::options::{Edge, Method, Options};
use super::pyramid::Pyramid;
use crate::image::{AlphaMatte, Cutout, Frame};
use backdrop_kernels::edge::cpu::unmixed_by;
use rayon::prelude::*;

/// Cuts the subject of `guide` out of `frame`. Works in the frame's own buffer.
///
/// # Errors
/// [`NoSubject`] when the matte would be empty.
pub fn cut_out<'a>(frame: Frame, guide: impl Into<Guide<'a>>, options: &Options) -> Result<Cutout, NoSubject> {
    let solved = SolvedMatte::of(&frame, guide.into(), options)?;
    cut_out_by(frame, solved, options)
}

pub(super) fn cut_out_by(frame: Frame, mut solved: SolvedMatte<'_>, options: &Options) -> Result<Cutout, NoSubject> {
    let pyramid = solved.pyramid.take();
    if !options.opaque {
        let matte = solved.finalized(&frame, options)?;
        return Ok(composed(frame, pyramid, matte, None, options));
    }
    // Pixels on a hard edge still show background: their colours are unmixed by the coverage before hardening.
    let mut soft = solved.matte.clone();
    let matte = solved.finalized(&frame, options)?;
    let pixels = soft.coverage_mut().par_iter_mut().zip(matte.coverage());
    pixels.for_each(|(soft, &coverage)| *soft = unmixed_by(*soft, coverage));
    Ok(composed(frame, pyramid, matte, Some(&soft), options))
}

/// Cuts the subject of `matte` out of `frame`: soft edge, unmixed colours, coverage in linear light. Works in the
/// frame's own buffer; an empty matte gives an empty cutout.
///
/// # Panics
/// When frame and matte differ in size.
#[must_use]
pub fn cut_out_with(frame: Frame, matte: &AlphaMatte) -> Cutout {
    composed(frame, None, matte.clone(), None, &Options::default())
}

/// The cutout by the picture's own alpha, for a picture that is already cut out.
///
/// # Errors
/// [`NoSubject`] when all of it is transparent.
pub fn from_own_alpha(frame: Frame) -> Result<Cutout, NoSubject> {
    Cutout::from_alpha(frame).ok_or(NoSubject)
}

/// Composes matte and foreground colours, unmixed by `unmix_by` or else the matte. `pyramid`: the frame's, if computed.
fn composed(
    frame: Frame,
    pyramid: Option<Pyramid>,
    mut matte: AlphaMatte,
    unmix_by: Option<&AlphaMatte>,
    options: &Options,
) -> Cutout {
    let surroundings = Surroundings::for_strength(&frame, &matte, options.despill);
    // An upsampled mask does not measure how colours mix, so it cannot unmix them.
    let unmixed = match options.method {
        Method::ClosedForm => {
            let pyramid = pyramid.unwrap_or_else(|| Pyramid::of(&frame));
            Some(foreground::unmix(&frame, pyramid, unmix_by.unwrap_or(&matte)))
        }
        Method::None => None,
    };
    // The coverage of a hard edge is geometry, not light.
    let is_soft = options.finalized_edge() == Edge::Soft;
    let width = matte.size().width as usize;
    if let Some(unmixed) = unmixed.as_ref().filter(|_| is_soft) {
        let strips = matte.coverage_mut().par_chunks_mut(foreground::TILE * width).enumerate();
        strips.for_each(|(strip, coverage)| unmixed.each(strip, |at, [.., in_light]| coverage[at] = in_light));
    }
    let mut cutout = Cutout::new(frame, &matte);
    if let Some(unmixed) = unmixed {
        let strips = cutout.frame_mut().pixels_mut().par_chunks_mut(foreground::TILE * width * 4).enumerate();
        strips.for_each(|(strip, pixels)| {
            let pixels = pixels.as_chunks_mut::<4>().0;
            unmixed.each(strip, |at, [red, green, blue, _]| {
                if pixels[at][3] > 0 {
                    pixels[at] = [red, green, blue, pixels[at][3]];
                }
            });
        });
    }
    if let Some(surroundings) = surroundings {
        despill::despill(cutout.frame_mut(), &surroundings, options.despill);
    }
    cutout
}
