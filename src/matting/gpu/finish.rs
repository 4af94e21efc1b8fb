//! The end of matting on a GPU, on the host: specks and pinholes are connected components.

use crate::image::{AlphaMatte, Cutout, Frame};
use crate::matting::edge::without_specks;
use crate::matting::error::NoSubject;
use crate::matting::matte::is_covered;
use rayon::prelude::*;

/// Pixels that a task works on.
const PART: usize = 1 << 15;

/// The cutout of `frame` that the device has made (`words`, packed), without specks and pinholes of fewer than `least` pixels. Works
/// in the frame's own buffer.
///
/// # Errors
/// [`NoSubject`] when nothing is left.
pub(super) fn finished(mut frame: Frame, words: &[u32], least: usize) -> Result<Cutout, NoSubject> {
    let mut coverage = frame.buffer(words.len());
    coverage.par_chunks_mut(PART).zip(words.par_chunks(PART)).for_each(|(coverage, words)| {
        coverage.iter_mut().zip(words).for_each(|(coverage, word)| *coverage = (word >> 24) as u8);
    });
    let matte = without_specks(AlphaMatte::new(frame.size(), coverage), least);
    if !is_covered(&matte) {
        return Err(NoSubject);
    }
    // Full coverage shows the source's pixel, which a pinhole's is.
    let (pixels, _) = frame.pixels_mut().as_chunks_mut::<4>();
    let parts = pixels.par_chunks_mut(PART).zip(words.par_chunks(PART)).zip(matte.coverage().par_chunks(PART));
    parts.for_each(|((pixels, words), coverage)| {
        for ((pixel, word), coverage) in pixels.iter_mut().zip(words).zip(coverage) {
            if *coverage != 255 {
                *pixel = word.to_le_bytes();
            }
        }
    });
    Ok(Cutout::new(frame, &matte))
}
