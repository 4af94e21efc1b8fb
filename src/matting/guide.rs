//! The subject's source for matting: the network's mask with the caller's seeds, or the caller's mask or trimap.

use super::clean::{self, CleanMask, Seeds};
use super::error::{NoSubject, check_area};
use super::options::Options;
use super::upsample::upsampled;
use crate::image::{AlphaMatte, Frame, RawMask, Size, Trimap};
use backdrop_kernels::recycled::Recycled;
use rayon::prelude::*;

/// What is known about the subject before matting.
#[derive(Clone, Copy, Debug)]
pub enum Guide<'a> {
    /// The network's mask, which is cleaned.
    Network {
        /// The mask.
        mask: &'a RawMask,
        /// A standard mask in addition to a mask of high recall. Matting starts from the union of both clean masks.
        standard: Option<&'a RawMask>,
        /// The caller's marks.
        seeds: &'a Seeds,
    },
    /// The caller's mask, of the picture's size; its edge is refined.
    Mask(&'a AlphaMatte),
    /// The caller's trimap: unknown pixels are solved, known ones kept exactly.
    Trimap(&'a Trimap),
}

impl<'a> From<&'a RawMask> for Guide<'a> {
    fn from(mask: &'a RawMask) -> Self {
        static NOTHING: Seeds = Seeds { strokes: None, subject: Vec::new(), background: Vec::new() };
        Self::Network { mask, standard: None, seeds: &NOTHING }
    }
}

/// Longest side of the grid to which a caller's mask is reduced: twice the network's. The unknown band is then half as
/// wide as with the network's mask, and still wider than the error of a brush.
const LONGEST: u32 = 768;

/// The clean mask of a caller's `mask`: its means over the cells of a coarser grid.
///
/// # Errors
/// [`NoSubject`] when too little of the mask is subject.
pub(super) fn reduced(mask: &AlphaMatte) -> Result<CleanMask, NoSubject> {
    let size = mask.size();
    let grid = if size.longest() > LONGEST { size.fitted(Size::new(LONGEST, LONGEST)) } else { size };
    let mut values = Recycled::filled(grid.area(), 0.0);
    values.par_chunks_mut(grid.width.max(1) as usize).zip(0..grid.height).for_each(|(cells, row)| {
        for (cell, column) in cells.iter_mut().zip(0..) {
            let mut sum = 0.0;
            for (y, height) in parts(row, grid.height, size.height) {
                let pixels = &mask.coverage()[y * size.width as usize..];
                let columns = parts(column, grid.width, size.width);
                sum += height * columns.map(|(x, width)| width * f64::from(pixels[x])).sum::<f64>();
            }
            *cell = (sum * grid.area() as f64 / (255.0 * size.area() as f64)) as f32;
        }
    });
    let subject = values.iter().filter(|&&value| value >= 0.5).count();
    check_area(subject, values.len())?;
    Ok(CleanMask::new(grid, values))
}

/// The pixels of a side that one of `cells` equal cells covers, with the covered share of each.
fn parts(cell: u32, cells: u32, side: u32) -> impl Iterator<Item = (usize, f64)> {
    // Integers, in units of 1/`cells` of a pixel.
    let (cells, side) = (u64::from(cells), u64::from(side));
    let (start, end) = (u64::from(cell) * side, (u64::from(cell) + 1) * side);
    (start / cells..end.div_ceil(cells)).map(move |pixel| {
        let covered = end.min((pixel + 1) * cells) - start.max(pixel * cells);
        (pixel as usize, covered as f64 / cells as f64)
    })
}

impl<'a> Guide<'a> {
    /// The network's matte. `None` with seeds of the caller's: the matte is then used as a mask.
    pub(super) fn matte(self) -> Option<&'a RawMask> {
        match self {
            Self::Network { mask, seeds, .. } => Some(mask).filter(|mask| mask.is_matte() && seeds.is_empty()),
            Self::Mask(_) | Self::Trimap(_) => None,
        }
    }

    /// The mask from which matting of `frame` starts; `None` for a trimap.
    pub(super) fn cleaned(self, frame: &Frame, options: &Options) -> Result<Option<CleanMask>, NoSubject> {
        if let Some(matte) = self.matte() {
            return CleanMask::of_matte(matte).map(Some);
        }
        match self {
            Self::Network { mask, standard, seeds } => {
                let clean = |mask| clean::clean(frame, mask, seeds, options.cleaning());
                let (mask, standard) = rayon::join(|| clean(mask), || standard.map(clean));
                match (mask, standard) {
                    (Ok(mask), Some(Ok(standard))) => Ok(Some(mask.union(&standard))),
                    (mask, standard) => mask.or_else(|error| standard.unwrap_or(Err(error))).map(Some),
                }
            }
            Self::Mask(mask) => reduced(mask).map(Some),
            Self::Trimap(_) => Ok(None),
        }
    }
}

/// The clean mask of `frame` at the picture's size.
///
/// # Errors
/// [`NoSubject`] when too little of the mask is subject, and for a trimap.
pub fn clean_mask(frame: &Frame, guide: Guide<'_>, options: &Options) -> Result<AlphaMatte, NoSubject> {
    let mask = guide.cleaned(frame, options)?.ok_or(NoSubject)?;
    Ok(upsampled(mask.values(), mask.size(), frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reducing_a_mask_does_not_shift_it() {
        for side in [769_u32, 1000, 1500, 1536, 4000] {
            let size = Size::new(side, 3);
            let inside = |at: usize| (side as usize / 5..side as usize / 2).contains(&(at % side as usize));
            let coverage: Vec<u8> = (0..size.area()).map(|at| if inside(at) { 255 } else { 0 }).collect();
            let reduced = reduced(&AlphaMatte::new(size, coverage)).expect("a subject");
            let cells = reduced.size().width as usize;
            let row = || reduced.values()[..cells].iter().enumerate();
            let area: f64 = row().map(|(_, value)| f64::from(*value)).sum();
            let moment: f64 = row().map(|(at, value)| (at as f64 + 0.5) * f64::from(*value)).sum();
            let scale = f64::from(side) / cells as f64;
            let (first, end) = (f64::from(side / 5), f64::from(side / 2));
            assert!((area * scale - (end - first)).abs() < 1e-3, "{side}");
            assert!((moment / area * scale - (first + end) / 2.0).abs() < 0.02, "{side}");
        }
    }

    #[test]
    fn a_small_mask_keeps_its_pixels_and_an_empty_one_has_no_subject() {
        let size = Size::new(7, 3);
        let coverage: Vec<u8> = (0..21).map(|at| at * 12).collect();
        let same = reduced(&AlphaMatte::new(size, coverage.clone())).expect("a subject");
        assert_eq!(same.size(), size);
        assert!(same.values().iter().zip(coverage).all(|(value, byte)| (value * 255.0 - f32::from(byte)).abs() < 1e-3));
        assert_eq!(reduced(&AlphaMatte::empty(size)), Err(NoSubject));
    }
}
