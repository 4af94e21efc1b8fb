//! A second look at parts of a picture.
//!
//! The network sees every picture stretched to its own grid; of a large photo, or of a small product in a photo, that
//! leaves little of the edge. So it is shown the subject's box once more, and overlapping tiles along the edge where
//! the box is larger than the grid too ([`plan`]), and what it says is joined with the first mask on a finer grid
//! ([`merged`]). The first mask decides what the subject is, the parts only where exactly it ends: a tile sees texture,
//! not the product. Nothing here is random, and sums run in one order: the same looks give the same mask, bit for bit.

mod merge;
mod plan;

pub use merge::merged;
pub use plan::{most_pixels, plan};

use crate::image::{BufferPool, Frame, Rect, Size};
use rayon::prelude::*;

/// How much is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The subject's box.
    Subject,
    /// That, and tiles along its edge.
    Tiles,
}

impl Again {
    /// Tiles across and down at most; of one alone nothing is seen that the box does not show.
    const fn tiles(self) -> u32 {
        match self {
            Self::Subject => 1,
            Self::Tiles => 4,
        }
    }
}

/// A part of a picture to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it lies, in pixels.
    pub rect: Rect,
    /// Whether it holds all of the subject. What is seen in it then counts everywhere, else only along the edge.
    pub subject: bool,
}

impl Part {
    const fn subject(rect: Rect) -> Self {
        Self { rect, subject: true }
    }

    const fn tile(rect: Rect) -> Self {
        Self { rect, subject: false }
    }
}

/// Crops are shrunk by whole factors, but not to less than this on their shorter side: the network looks at 384 pixels.
const ENOUGH: u32 = 512;

/// How many pixels along either side become one.
fn factor(part: Rect) -> u32 {
    (part.width.min(part.height) / ENOUGH).max(1)
}

/// The pixels of `frame` inside `part`, in a buffer from `buffers`. Large ones are shrunk, each pixel the mean of a square
/// (straight alpha, so means are exact for opaque pictures): no shorter side is longer than 1023 pixels.
///
/// # Panics
/// When `part` reaches beyond the frame or is empty; no part that [`plan`] returns for its size is.
#[must_use]
pub fn cropped(frame: &Frame, part: Part, buffers: &BufferPool) -> Frame {
    let (size, Rect { left, top, width, height }) = (frame.size(), part.rect);
    let inside = left.checked_add(width).is_some_and(|right| right <= size.width)
        && top.checked_add(height).is_some_and(|bottom| bottom <= size.height);
    assert!(inside && width > 0 && height > 0, "{} is no part of {size}", part.rect);
    let factor = factor(part.rect);
    let shrunk = Size::new(width / factor, height / factor);
    let (from, _) = frame.pixels().as_chunks::<4>();
    let mut pixels = buffers.take(shrunk.area() * 4);
    let rows = pixels.par_chunks_exact_mut(shrunk.width as usize * 4).enumerate();
    rows.for_each(|(y, row)| {
        for (x, pixel) in row.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let mut sums = [factor * factor / 2; 4];
            for row in 0..factor as usize {
                let y = top as usize + y * factor as usize + row;
                let first = y * size.width as usize + left as usize + x * factor as usize;
                for source in &from[first..first + factor as usize] {
                    sums.iter_mut().zip(source).for_each(|(sum, &value)| *sum += u32::from(value));
                }
            }
            *pixel = sums.map(|sum| (sum / (factor * factor)) as u8);
        }
    });
    Frame::new(shrunk, pixels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient(size: Size) -> Frame {
        let pixels = (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| [x as u8, y as u8, 9, 255]));
        Frame::new(size, pixels.collect::<Vec<u8>>().into())
    }

    #[test]
    fn a_crop_holds_the_pixels_of_its_part() {
        let part = Part::tile(Rect { left: 2, top: 1, width: 4, height: 3 });
        let crop = cropped(&gradient(Size::new(7, 5)), part, &BufferPool::new(0));
        assert_eq!(crop.size(), part.rect.size());
        for (x, y) in (0..3).flat_map(|y| (0..4).map(move |x| (x, y))) {
            assert_eq!(crop.pixel(x, y), [x as u8 + 2, y as u8 + 1, 9, 255]);
        }
    }

    #[test]
    fn a_large_crop_is_shrunk_to_means_of_whole_squares() {
        let size = Size::new(1100, 1030);
        let part = Part::tile(Rect { left: 11, top: 6, width: 1089, height: 1024 });
        let crop = cropped(&gradient(size), part, &BufferPool::new(0));
        assert_eq!(crop.size(), Size::new(544, 512));
        assert_eq!(crop.pixel(0, 0), [12, 7, 9, 255]);
        assert_eq!(crop.pixel(100, 50), [212, 107, 9, 255]);
    }
}
