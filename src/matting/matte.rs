//! From the network's mask to the alpha matte: cleaning, trimap, closed-form matting, finalization of the edge.

use super::clean::{self, CleanMask};
use super::closed_form;
use super::edge;
use super::error::{MIN_AREA, NoSubject};
use super::guide::Guide;
use super::options::{Edge, Method, Options};
use super::prior::{MaskPrior, Priors, TemporalPrior, opaque};
use super::trimap;
use super::upsample::upsampled;
use crate::image::{AlphaMatte, Frame, RawMask, Size, Trimap};
use rayon::prelude::*;

/// How much of each pixel of `frame` the subject covers, which is where `guide` says.
///
/// # Errors
/// [`NoSubject`] when that would be nothing anywhere.
pub fn estimate_matte<'a>(
    frame: &Frame,
    guide: impl Into<Guide<'a>>,
    options: &Options,
) -> Result<AlphaMatte, NoSubject> {
    SolvedMatte::of(frame, guide.into(), options)?.finalized(frame, options)
}

/// The matte of a frame of a clip, and what the prior of the next frame is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemporalMatte {
    /// How much of each pixel the subject covers.
    pub matte: AlphaMatte,
    /// The same before traces of coverage and specks were removed.
    pub unfiltered: AlphaMatte,
}

/// [`estimate_matte`] with the default options, for a frame of a clip. `prior` makes the temporal prior for the band of the
/// given trimap; where its weight is zero the matte is that of the frame alone, bit for bit, except that large uncertain
/// regions are not classified by colour: frame by frame the result would change.
///
/// # Errors
/// [`NoSubject`] when nothing would be covered anywhere.
pub fn estimate_matte_with_prior(
    frame: &Frame,
    mask: &RawMask,
    prior: impl FnOnce(&Trimap) -> Option<TemporalPrior>,
) -> Result<TemporalMatte, NoSubject> {
    let size = frame.size();
    let mask = clean::clean_without_colors(mask)?;
    let trimap = trimap::from_mask(&mask, size, None);
    let temporal = prior(&trimap);
    let of_mask = MaskPrior::of(&mask);
    let priors = Priors { mask: Some(&of_mask), temporal: temporal.as_ref() };
    let mut unfiltered = closed_form::estimate_alpha(frame, &trimap, &priors);
    if let Some(temporal) = temporal {
        temporal.blend(&trimap, &mut unfiltered);
    }
    let solved = SolvedMatte { matte: unfiltered.clone(), speck_pixels: speck_pixels(&mask, size), known: None };
    Ok(TemporalMatte { matte: solved.finalized(frame, &Options::default())?, unfiltered })
}

/// A matte before its edge is finalized.
pub(super) struct SolvedMatte<'a> {
    pub(super) matte: AlphaMatte,
    /// Components smaller than so many pixels are specks.
    speck_pixels: usize,
    /// Pixels that the caller knows: nothing changes them.
    known: Option<&'a Trimap>,
}

impl<'a> SolvedMatte<'a> {
    pub(super) fn of(frame: &Frame, guide: Guide<'a>, options: &Options) -> Result<Self, NoSubject> {
        let size = frame.size();
        let mask = match (guide, guide.cleaned(frame, options)?) {
            (Guide::Trimap(trimap), _) => return Ok(Self::of_trimap(frame, trimap, options)),
            (_, mask) => mask.ok_or(NoSubject)?,
        };
        let matte = match options.method {
            Method::ClosedForm => {
                let trimap = trimap::from_mask(&mask, size, options.hair.as_ref());
                let prior = MaskPrior::of(&mask);
                closed_form::estimate_alpha(frame, &trimap, &Priors { mask: Some(&prior), temporal: None })
            }
            Method::None => match guide {
                Guide::Mask(mask) => mask.clone(),
                Guide::Network { .. } | Guide::Trimap(_) => upsampled(mask.values(), mask.size(), size),
            },
        };
        Ok(Self { matte, speck_pixels: speck_pixels(&mask, size), known: None })
    }

    fn of_trimap(frame: &Frame, trimap: &'a Trimap, options: &Options) -> Self {
        let matte = match options.method {
            Method::ClosedForm => closed_form::estimate_alpha(frame, trimap, &Priors { mask: None, temporal: None }),
            Method::None => AlphaMatte::new(trimap.size(), trimap.labels().to_vec()),
        };
        Self { matte, speck_pixels: 0, known: Some(trimap) }
    }

    pub(super) fn finalized(self, frame: &Frame, options: &Options) -> Result<AlphaMatte, NoSubject> {
        let Self { matte, speck_pixels, known } = self;
        let matte = match (options.opaque, options.edge) {
            (true, Edge::Soft | Edge::Hard) => edge::hardened_at(&matte, opaque::crossing(frame, &matte)),
            (false, Edge::Soft) => edge::without_traces(matte),
            (false, Edge::Hard) => edge::hardened(&matte),
        };
        let mut matte = edge::without_specks(matte, speck_pixels);
        if let Some(trimap) = known {
            let pixels = matte.coverage_mut().par_iter_mut().zip(trimap.labels());
            pixels.filter(|(_, label)| **label != Trimap::UNKNOWN).for_each(|(value, &label)| *value = label);
        }
        let parts = matte.coverage().par_chunks(1 << 16);
        let covered: u64 = parts.map(|part| part.iter().map(|&value| u64::from(value)).sum::<u64>()).sum();
        let least = MIN_AREA * 255.0 * matte.size().area() as f64;
        if (covered as f64) < least { Err(NoSubject) } else { Ok(matte) }
    }
}

/// Components smaller than so many pixels are specks: half a cell of the network's grid, but at least a few pixels on small
/// pictures, never a visible detail on large ones, and never what could be a subject of its own.
fn speck_pixels(mask: &CleanMask, size: Size) -> usize {
    let cell = size.area() / mask.values().len().max(1);
    (cell / 2).clamp(8, 64).min(size.area() / 1000)
}
