//! Removes specks and pinholes, which are connected components, on the host, after the GPU's matting.

use crate::image::{AlphaMatte, Buffer, Cutout, Frame};
use crate::matting::despill::{Surroundings, despill};
use crate::matting::edge::without_specks;
use crate::matting::error::NoSubject;
use crate::matting::matte::is_covered;
use backdrop_kernels::coverage::Fill;
use rayon::prelude::*;

/// Pixels that a task works on.
const PART: usize = 1 << 15;

/// The coverage in `pixels`, the packed cutout of `frame`, without specks and pinholes of fewer than `least` pixels.
///
/// # Errors
/// [`NoSubject`] when no coverage is left.
pub(super) fn matte(frame: &Frame, pixels: &[u8], least: usize) -> Result<AlphaMatte, NoSubject> {
    let (pixels, _) = pixels.as_chunks::<4>();
    let mut coverage = frame.buffer(pixels.len());
    coverage.par_chunks_mut(PART).zip(pixels.par_chunks(PART)).for_each(|(coverage, pixels)| {
        coverage.iter_mut().zip(pixels).for_each(|(coverage, &[.., alpha])| *coverage = alpha);
    });
    cleared(AlphaMatte::new(frame.size(), coverage), least)
}

/// The cutout of `frame` by the packed `pixels`, with the coverage of `matte`. Works in the frame's own buffer.
pub(super) fn cutout(mut frame: Frame, pixels: &[u8], matte: &AlphaMatte) -> Cutout {
    // A pinhole becomes the source's pixel.
    let ((to, _), (pixels, _)) = (frame.pixels_mut().as_chunks_mut::<4>(), pixels.as_chunks::<4>());
    let parts = to.par_chunks_mut(PART).zip(pixels.par_chunks(PART)).zip(matte.coverage().par_chunks(PART));
    parts.for_each(|((to, pixels), coverage)| {
        for ((to, pixel), coverage) in to.iter_mut().zip(pixels).zip(coverage) {
            if *coverage != 255 || pixel[3] == 255 {
                *to = *pixel;
            }
        }
    });
    Cutout::new(frame, matte)
}

/// [`cutout`] after despill of this strength, 0 to 1, by the `surroundings`, if given.
pub(super) fn despilled(
    frame: Frame,
    pixels: &[u8],
    matte: &AlphaMatte,
    surroundings: Option<&Surroundings>,
    strength: f32,
) -> Cutout {
    let mut cutout = cutout(frame, pixels, matte);
    if let Some(surroundings) = surroundings {
        despill(cutout.frame_mut(), surroundings, strength);
    }
    cutout
}

/// Removes specks and pinholes of fewer than `least` pixels from the `coverage` of a cutout that stays on the device.
/// Returns the coverage and the changed pixels.
///
/// # Errors
/// [`NoSubject`] when no coverage is left.
pub(super) fn filled(coverage: AlphaMatte, least: usize) -> Result<(AlphaMatte, Vec<Fill>), NoSubject> {
    let before = coverage.clone();
    let matte = cleared(coverage, least)?;
    let parts = before.coverage().par_chunks(PART).zip(matte.coverage().par_chunks(PART)).enumerate();
    let changed = parts.flat_map_iter(|(part, (before, after))| {
        let pixels = before.iter().zip(after).zip((part * PART) as u32..);
        pixels.filter(|((before, after), _)| before != after).map(|((_, &after), at)| Fill { at, opaque: after == 255 })
    });
    let fills = changed.collect();
    Ok((matte, fills))
}

/// `coverage` without specks and pinholes of fewer than `least` pixels.
fn cleared(coverage: AlphaMatte, least: usize) -> Result<AlphaMatte, NoSubject> {
    let matte = without_specks(coverage, least);
    if is_covered(&matte) { Ok(matte) } else { Err(NoSubject) }
}

/// Unpacks the coverage of a picture of this `width` from `words` of four pixels; every row starts a new word.
pub(super) fn unpacked(words: &[u8], width: usize, mut coverage: Buffer) -> Buffer {
    let rows = coverage.par_chunks_mut(width).zip(words.par_chunks(width.next_multiple_of(4)));
    rows.for_each(|(row, words)| row.copy_from_slice(&words[..width]));
    coverage
}
