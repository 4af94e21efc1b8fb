//! From the network's mask to a cutout at source size.

pub mod closed_form;
pub mod foreground;
mod pyramid;
pub mod trimap;

use crate::image::{Cutout, Frame, Mask};

/// How the edge is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Closed-form matting of the unknown band.
    #[default]
    ClosedForm,
    /// The upsampled mask as it is.
    None,
}

/// What becomes of partly covered pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edge {
    /// They stay (hair, fur).
    #[default]
    Soft,
    /// They are decided (products).
    Hard,
}

/// How to cut out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How the edge is found.
    pub method: Method,
    /// What becomes of partly covered pixels.
    pub edge: Edge,
}

/// Nothing in the picture stands out as a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no subject could be told from the background")]
pub struct NoSubject;

/// Cuts the subject out of `frame`. Works in the frame's own buffer.
///
/// # Errors
/// [`NoSubject`] when the matte would be empty.
pub fn cut_out(mut frame: Frame, mask: &Mask, options: &Options) -> Result<Cutout, NoSubject> {
    let size = frame.size();
    let trimap = trimap::from_mask(mask, size);
    let matte = match options.method {
        Method::ClosedForm => closed_form::estimate_alpha(&frame, &trimap, &closed_form::ClosedForm { prior: Some(mask) }),
        Method::None => todo!(),
    };
    foreground::estimate(&mut frame, &matte);
    let (pixels, _) = frame.pixels_mut().as_chunks_mut::<4>();
    pixels.iter_mut().zip(&matte.coverage).for_each(|(pixel, &coverage)| pixel[3] = coverage);
    Ok(Cutout(frame))
}

/// How unsure the mask is, 0 (certain) to 1.
#[must_use]
pub fn uncertainty(_mask: &Mask) -> f32 {
    unimplemented!("matting")
}
