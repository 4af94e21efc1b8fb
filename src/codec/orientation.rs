//! Rotates and mirrors a frame upright, for the eight values of EXIF's orientation tag.

use crate::image::{BufferPool, Frame, Size};
use rayon::prelude::*;

/// The transformation that makes the stored picture upright.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Orientation {
    /// 1: none.
    #[default]
    Upright,
    /// 2: mirrored horizontally.
    FlipX,
    /// 3: rotated by 180°.
    Rotate180,
    /// 4: mirrored vertically.
    FlipY,
    /// 5: transposed.
    Transpose,
    /// 6: rotated by 90° clockwise.
    Rotate90,
    /// 7: transposed, then rotated by 180°.
    Transverse,
    /// 8: rotated by 90° counter-clockwise.
    Rotate270,
}

/// Side of a block of the transposition in pixels: 16 RGBA pixels are one cache line.
const BLOCK: usize = 16;

impl Orientation {
    /// The orientation of a tag value; `None` when it is undefined.
    pub(super) const fn from_exif(value: u16) -> Option<Self> {
        Some(match value {
            1 => Self::Upright,
            2 => Self::FlipX,
            3 => Self::Rotate180,
            4 => Self::FlipY,
            5 => Self::Transpose,
            6 => Self::Rotate90,
            7 => Self::Transverse,
            8 => Self::Rotate270,
            _ => return None,
        })
    }

    const fn swaps_sides(self) -> bool {
        matches!(self, Self::Transpose | Self::Rotate90 | Self::Transverse | Self::Rotate270)
    }

    pub(super) const fn upright(self, stored: Size) -> Size {
        if self.swaps_sides() { stored.transposed() } else { stored }
    }

    /// Transforms `frame`: in place, or into another pooled buffer when the sides are swapped.
    pub(super) fn apply(self, mut frame: Frame, pool: &BufferPool) -> Frame {
        let size = frame.size();
        let stride = size.width as usize * 4;
        match self {
            Self::Upright => frame,
            Self::FlipX => {
                frame.pixels_mut().par_chunks_exact_mut(stride).for_each(|row| row.as_chunks_mut::<4>().0.reverse());
                frame
            }
            Self::Rotate180 => {
                frame.pixels_mut().as_chunks_mut::<4>().0.reverse();
                frame
            }
            Self::FlipY => {
                let mut rows = frame.pixels_mut().chunks_exact_mut(stride);
                while let (Some(top), Some(bottom)) = (rows.next(), rows.next_back()) {
                    top.swap_with_slice(bottom);
                }
                frame
            }
            Self::Transpose | Self::Rotate90 | Self::Transverse | Self::Rotate270 => self.transposed(&frame, pool),
        }
    }

    fn transposed(self, frame: &Frame, pool: &BufferPool) -> Frame {
        let stored = frame.size();
        let (width, height) = (stored.width as usize, stored.height as usize);
        let source = frame.pixels().as_chunks::<4>().0;
        let mut upright = pool.take_for_overwrite(source.len() * 4);
        // Upright (x, y) is stored column y and row x, each counted from the far end depending on the rotation.
        let from_right = matches!(self, Self::Transverse | Self::Rotate270);
        let from_bottom = matches!(self, Self::Transverse | Self::Rotate90);
        upright.par_chunks_mut(height * 4 * BLOCK).enumerate().for_each(|(band, rows)| {
            let rows = rows.as_chunks_mut::<4>().0;
            for left in (0..height).step_by(BLOCK) {
                for x in left..(left + BLOCK).min(height) {
                    let line = if from_bottom { height - 1 - x } else { x } * width;
                    for (y, row) in rows.chunks_exact_mut(height).enumerate() {
                        let y = band * BLOCK + y;
                        row[x] = source[line + if from_right { width - 1 - y } else { y }];
                    }
                }
            }
        });
        Frame::new(stored.transposed(), upright)
    }
}
