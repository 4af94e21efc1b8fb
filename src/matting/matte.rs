//! From the network's mask to the alpha matte: cleaning, trimap, closed-form matting, finalization of the edge.

use super::clean::CleanMask;
use super::closed_form::{self, Labels};
use super::edge;
use super::error::{MIN_AREA, NoSubject};
use super::guide::Guide;
use super::options::{Edge, Method, Options};
use super::prior::{MaskPrior, Priors, opaque};
use super::pyramid::Pyramid;
use super::trimap;
use super::upsample::upsampled;
use crate::image::{AlphaMatte, Frame, Size, Trimap};
use rayon::prelude::*;

/// Coverage of each pixel of `frame` by the subject of `guide`.
///
/// # Errors
/// [`NoSubject`] when the matte would be empty.
pub fn estimate_matte<'a>(
    frame: &Frame,
    guide: impl Into<Guide<'a>>,
    options: &Options,
) -> Result<AlphaMatte, NoSubject> {
    SolvedMatte::of(frame, guide.into(), options)?.finalized(frame, options)
}

pub(super) struct SolvedMatte<'a> {
    pub(super) matte: AlphaMatte,
    /// The frame's, if it was computed.
    pub(super) pyramid: Option<Pyramid>,
    /// Components with fewer pixels are specks.
    speck_pixels: usize,
    /// The caller's trimap, whose known pixels stay unchanged.
    known: Option<&'a Trimap>,
    /// Whether it is the caller's mask or a network's matte, without traces of matting: only a hard edge changes it.
    as_sent: bool,
}

impl<'a> SolvedMatte<'a> {
    pub(super) fn of(frame: &Frame, guide: Guide<'a>, options: &Options) -> Result<Self, NoSubject> {
        match (guide, guide.cleaned(frame, options)?) {
            (Guide::Trimap(trimap), _) => Ok(Self::of_trimap(frame, trimap, options)),
            (_, mask) => Ok(Self::of_clean(frame, guide, mask.ok_or(NoSubject)?, options)),
        }
    }

    /// The matte by the clean `mask` of `guide`, which is no trimap.
    pub(super) fn of_clean(frame: &Frame, guide: Guide<'a>, mask: CleanMask, options: &Options) -> Self {
        if guide.matte().is_some() {
            return Self { as_sent: true, ..Self::of_caller(upsampled(mask.values(), mask.size(), frame)) };
        }
        let matte = match (options.method, guide) {
            (Method::ClosedForm, _) => return Self::closed_form(frame, &mask, options),
            (Method::None, Guide::Mask(mask)) => {
                return Self { as_sent: true, ..Self::of_caller(mask.clone()) };
            }
            (Method::None, Guide::Network { .. } | Guide::Trimap(_)) => upsampled(mask.values(), mask.size(), frame),
        };
        Self::of_matte(matte, &mask, frame.size())
    }

    /// Closed-form matting of the band of `mask`.
    pub(super) fn closed_form(frame: &Frame, mask: &CleanMask, options: &Options) -> Self {
        let (size, pyramid) = (frame.size(), Pyramid::of(frame));
        let extremes = trimap::Extremes::of(mask, size, options.hair.as_ref());
        let labels = Labels::Rows(extremes.labeller(size));
        let prior = MaskPrior::of(frame, mask);
        let priors = Priors { mask: Some(&prior), temporal: None };
        let matte = closed_form::estimate_with(frame, &pyramid, labels, &priors);
        Self { pyramid: Some(pyramid), ..Self::of_matte(matte, mask, size) }
    }

    /// A `matte` of a picture of `size`, made from the clean `mask`.
    pub(super) fn of_matte(matte: AlphaMatte, mask: &CleanMask, size: Size) -> Self {
        Self { matte, pyramid: None, speck_pixels: speck_pixels(mask, size), known: None, as_sent: false }
    }

    /// A `matte` from the caller's mask or trimap: everything in it is intended, so nothing is a speck.
    fn of_caller(matte: AlphaMatte) -> Self {
        Self { matte, pyramid: None, speck_pixels: 0, known: None, as_sent: false }
    }

    fn of_trimap(frame: &Frame, trimap: &'a Trimap, options: &Options) -> Self {
        let matte = match options.method {
            Method::ClosedForm => closed_form::estimate_alpha(frame, trimap, &Priors { mask: None, temporal: None }),
            Method::None => AlphaMatte::new(trimap.size(), trimap.labels().to_vec()),
        };
        Self { known: Some(trimap), ..Self::of_caller(matte) }
    }

    pub(super) fn finalized(self, frame: &Frame, options: &Options) -> Result<AlphaMatte, NoSubject> {
        let Self { matte, speck_pixels, known, as_sent, .. } = self;
        let matte = match (options.opaque, options.edge) {
            (true, Edge::Soft | Edge::Hard) => edge::hardened_at(&matte, opaque::crossing(frame, &matte)),
            (false, Edge::Soft) if as_sent => matte,
            (false, Edge::Soft) => edge::without_traces(matte),
            (false, Edge::Hard) => edge::hardened(&matte),
        };
        let mut matte = edge::without_specks(matte, speck_pixels);
        if let Some(trimap) = known {
            let pixels = matte.coverage_mut().par_iter_mut().zip(trimap.labels());
            pixels.filter(|(_, label)| **label != Trimap::UNKNOWN).for_each(|(value, &label)| *value = label);
        }
        if is_covered(&matte) { Ok(matte) } else { Err(NoSubject) }
    }
}

/// Whether at least [`MIN_AREA`] of the matte is covered. With a subject, few rows are enough to tell.
pub(super) fn is_covered(matte: &AlphaMatte) -> bool {
    let least = MIN_AREA * 255.0 * matte.size().area() as f64;
    let mut covered = 0u64;
    matte.coverage().chunks(1 << 14).any(|part| {
        covered += part.iter().map(|&value| u64::from(value)).sum::<u64>();
        covered as f64 >= least
    })
}

/// Components with fewer pixels are specks: half a cell of the network's grid; at least a few pixels on small pictures,
/// never a visible detail on large ones, and never as large as the smallest subject.
pub(super) fn speck_pixels(mask: &CleanMask, size: Size) -> usize {
    let cell = size.area() / mask.values().len().max(1);
    (cell / 2).clamp(8, 64).min(size.area() / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::RawMask;
    use crate::matting::Seeds;

    #[test]
    fn a_networks_matte_is_the_coverage_unless_the_caller_marks_seeds() {
        let size = Size::new(16, 16);
        let values: Vec<f32> = (0..256u16).map(|at| f32::from(at) / 255.0).collect();
        let pixels = (0..=255u8).flat_map(|at| [at, 90, 200, 255]).collect::<Vec<_>>();
        let frame = Frame::new(size, pixels.into());
        let mask = RawMask::new(size, values).expect("probabilities");
        let coverage = |mask: &RawMask, seeds: &Seeds, options: &Options| {
            let guide = Guide::Network { mask, standard: None, seeds };
            estimate_matte(&frame, guide, options).expect("a subject").coverage().to_vec()
        };
        let (nothing, options) = (Seeds::default(), Options::default());
        let all: Vec<u8> = (0..=255).collect();
        let matte = mask.clone().as_matte();
        assert_eq!(coverage(&matte, &nothing, &options), all);
        let hard = Options { edge: Edge::Hard, ..options };
        assert_ne!(coverage(&matte, &nothing, &hard), all, "a hard edge is made of it");
        assert_ne!(coverage(&mask, &nothing, &options), all, "a mask is matted");
        let marked = Seeds { subject: vec![[8, 8]], ..Seeds::default() };
        assert_ne!(coverage(&matte, &marked, &options), all);
    }
}
