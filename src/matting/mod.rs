//! From the network's mask to a cutout at source size.

mod carried;
mod cells;
pub mod closed_form;
mod colours;
pub mod contrast;
mod decontaminate;
pub mod despill;
mod doubt;
pub mod edge;
pub mod foreground;
mod ghosts;
mod hair;
mod holes;
mod light;
mod opaque;
mod patches;
mod pyramid;
pub mod recall;
pub mod refine;
pub mod trimap;
mod uncertainty;

use crate::image::{AlphaMatte, Cutout, Frame, Mask, Size, Trimap};
use backdrop_kernels::mask_upsample::{self, cpu::Upsampled};
use cells::Evidence;
use despill::Surroundings;
use rayon::prelude::*;

pub use carried::Carried;
pub use hair::Hair;
pub use uncertainty::{BAD_MAE, uncertainty};

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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// How the edge is found.
    pub method: Method,
    /// What becomes of partly covered pixels.
    pub edge: Edge,
    /// How much green or blue light of the background is taken off the edge, 0 to 1.
    pub despill: f32,
    /// Whether background that was kept near the edge is removed by the picture's own colours.
    pub decontaminate: bool,
    /// Whether the subject is known to be opaque all over, as products are: holes are closed unless they show background,
    /// and the edge is hard, whatever `edge` says.
    pub opaque: bool,
    /// Where hair is looked for outside of what the mask is sure of.
    pub hair: Option<Hair>,
}

/// Nothing in the picture stands out as a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no subject could be told from the background")]
pub struct NoSubject;

/// A subject covers at least this share of the picture; less is a stray cell of the network's grid.
const MIN_AREA: f64 = 1e-4;

/// Cuts the subject out of `frame`. Works in the frame's own buffer.
///
/// # Errors
/// [`NoSubject`] when the matte would be empty.
pub fn cut_out(frame: Frame, mask: &Mask, options: &Options) -> Result<Cutout, NoSubject> {
    let found = Found::of(&frame, mask, options)?;
    if !options.opaque {
        let matte = found.decided(&frame, options)?;
        return Ok(cutout(frame, &matte, None, options));
    }
    // A knife's edge still cuts through pixels that show some background: their colours are unmixed by what was found
    // before it was decided.
    let mut soft = found.matte.clone();
    let matte = found.decided(&frame, options)?;
    soft.coverage.par_iter_mut().zip(&matte.coverage).for_each(|(soft, &coverage)| {
        if *soft == 0 && coverage > 0 {
            // A pinhole that was filled shows subject; what the edge gained beyond all that was found, next to none.
            *soft = if coverage == 255 { 255 } else { 1 };
        }
    });
    Ok(cutout(frame, &matte, Some(&soft), options))
}

/// Cuts out of `frame` what a matte says that was found otherwise: soft edge, colours unmixed, coverage in light. Works in
/// the frame's own buffer; an empty matte leaves nothing.
///
/// # Panics
/// When frame and matte differ in size.
#[must_use]
pub fn cut_by(frame: Frame, matte: &AlphaMatte) -> Cutout {
    cutout(frame, matte, None, &Options::default())
}

/// How much of each pixel of `frame` the subject covers.
///
/// # Errors
/// [`NoSubject`] when that would be nothing anywhere.
pub fn matte_of(frame: &Frame, mask: &Mask, options: &Options) -> Result<AlphaMatte, NoSubject> {
    Found::of(frame, mask, options)?.decided(frame, options)
}

/// A matte and what the next frame of a clip may expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continued {
    /// How much of each pixel the subject covers.
    pub matte: AlphaMatte,
    /// The same before traces and specks were swept up.
    pub found: AlphaMatte,
}

/// [`matte_of`] with the default options, for a frame of which something is known beforehand. `carry` is told the band in
/// which that counts; when it knows nothing there, the matte is the same, bit for bit, but for wide doubt: that stays, because
/// frame by frame it would be decided now this way and now that.
///
/// # Errors
/// [`NoSubject`] when nothing would be covered anywhere.
pub fn matte_continued(
    frame: &Frame,
    mask: &Mask,
    carry: impl FnOnce(&Trimap) -> Option<Carried>,
) -> Result<Continued, NoSubject> {
    let size = frame.size();
    let mask = with_subject(trimap::tidied(mask))?;
    let trimap = trimap::of_tidied(&mask, size, None);
    let carried = carry(&trimap);
    let prior = closed_form::Prior::of_mask(&mask);
    let options = closed_form::ClosedForm { prior: Some(&prior), start: carried.as_ref() };
    let mut found = closed_form::estimate_alpha(frame, &trimap, &options);
    if let Some(carried) = carried {
        carried.blend(&trimap, &mut found);
    }
    let kept = found.clone();
    let matte = Found { matte: found, speck: speck_pixels(&mask, size) }.decided(frame, &Options::default())?;
    Ok(Continued { matte, found: kept })
}

/// The mask, if it has a subject of any size.
fn with_subject(mask: Mask) -> Result<Mask, NoSubject> {
    let likely = mask.values.iter().filter(|&&value| value >= 0.5).count();
    if (likely as f64) < MIN_AREA * mask.values.len() as f64 { Err(NoSubject) } else { Ok(mask) }
}

/// The mask after the picture's colours were asked about it.
fn judged(frame: &Frame, mask: Mask, decontaminate: bool) -> Mask {
    let evidence = Evidence::of(frame, &mask);
    let settled = doubt::settled(&evidence);
    let left = if decontaminate { decontaminate::decontaminated(&evidence) } else { None };
    let Some(left) = left else { return settled.unwrap_or(mask) };
    let Some(mut settled) = settled else { return left };
    // Of what is decided too it only takes away.
    for ((value, before), left) in settled.values.iter_mut().zip(&mask.values).zip(left.values) {
        if left < *before {
            *value = value.min(left);
        }
    }
    settled
}

/// A matte before its edge is decided.
struct Found {
    matte: AlphaMatte,
    /// Patches smaller than so many pixels are specks.
    speck: usize,
}

impl Found {
    fn of(frame: &Frame, mask: &Mask, options: &Options) -> Result<Self, NoSubject> {
        let size = frame.size();
        let mask = with_subject(trimap::tidied(mask))?;
        let mask = judged(frame, mask, options.decontaminate);
        let mut matte = match options.method {
            Method::ClosedForm => {
                let trimap = trimap::of_tidied(&mask, size, options.hair.as_ref());
                let prior = closed_form::Prior::of_mask(&mask);
                closed_form::estimate_alpha(
                    frame,
                    &trimap,
                    &closed_form::ClosedForm { prior: Some(&prior), start: None },
                )
            }
            Method::None => upsampled(&mask, size),
        };
        if options.opaque {
            opaque::close(frame, &mut matte);
        }
        Ok(Self { matte, speck: speck_pixels(&mask, size) })
    }

    fn decided(self, frame: &Frame, options: &Options) -> Result<AlphaMatte, NoSubject> {
        let Self { matte, speck } = self;
        let matte = match (options.opaque, options.edge) {
            (true, Edge::Soft | Edge::Hard) => edge::hardened_at(&matte, opaque::crossing(frame, &matte)),
            (false, Edge::Soft) => edge::swept(matte),
            (false, Edge::Hard) => edge::hardened(&matte),
        };
        let matte = edge::without_specks(matte, speck);
        let parts = matte.coverage.par_chunks(1 << 16);
        let covered: u64 = parts.map(|part| part.iter().map(|&value| u64::from(value)).sum::<u64>()).sum();
        let least = MIN_AREA * 255.0 * matte.size.area() as f64;
        if (covered as f64) < least { Err(NoSubject) } else { Ok(matte) }
    }
}

/// The cutout that the picture's own alpha describes, for pictures that come cut out already.
///
/// # Errors
/// [`NoSubject`] when nothing of it shows.
pub fn from_own_alpha(mut frame: Frame) -> Result<Cutout, NoSubject> {
    let (pixels, _) = frame.pixels_mut().as_chunks_mut::<4>();
    let visible = pixels.iter_mut().fold(false, |visible, pixel| {
        if pixel[3] == 0 {
            *pixel = [0; 4];
        }
        visible || pixel[3] != 0
    });
    if visible { Ok(Cutout(frame)) } else { Err(NoSubject) }
}

/// The mask itself as a matte.
fn upsampled(mask: &Mask, size: Size) -> AlphaMatte {
    let grid = (mask.size.width as usize, mask.size.height as usize);
    let picture = (size.width as usize, size.height as usize);
    let mut coverage = vec![0; size.area()];
    mask_upsample::cpu::fill(&Upsampled::new(&mask.values, grid, picture), &mut coverage, picture.0);
    AlphaMatte { size, coverage }
}

/// Patches smaller than so many pixels are specks: half a cell of the network's grid, but at least a few pixels on small
/// pictures, never a visible detail on large ones, and never what could be a subject of its own.
fn speck_pixels(mask: &Mask, size: Size) -> usize {
    let cell = size.area() / mask.values.len().max(1);
    (cell / 2).clamp(8, 64).min(size.area() / 1000)
}

/// Puts matte and frame together. Colours are unmixed by `mixed` where it is another matte.
fn cutout(mut frame: Frame, matte: &AlphaMatte, mixed: Option<&AlphaMatte>, options: &Options) -> Cutout {
    let surroundings = (options.despill > 0.0).then(|| Surroundings::of(&frame, matte));
    // An upsampled mask is no measure of how colours mix, so there is nothing to unmix them by.
    let in_light = match options.method {
        Method::ClosedForm => Some(foreground::estimate(&mut frame, mixed.unwrap_or(matte))),
        Method::None => None,
    };
    // A hard edge lies where it was put: its coverage is geometry, not light.
    let is_soft = options.edge == Edge::Soft && !options.opaque;
    let matte = in_light.as_ref().filter(|_| is_soft).unwrap_or(matte);
    let (pixels, _) = frame.pixels_mut().as_chunks_mut::<4>();
    pixels.par_iter_mut().zip(&matte.coverage).for_each(|(pixel, &coverage)| {
        *pixel = if coverage == 0 { [0; 4] } else { [pixel[0], pixel[1], pixel[2], coverage] };
    });
    if let Some(surroundings) = surroundings {
        despill::despill(&mut frame, &surroundings, options.despill);
    }
    Cutout(frame)
}
