//! Turns a stored picture upright: the eight ways of EXIF's orientation tag.

use crate::image::{BufferPool, Frame, Size};
use rayon::prelude::*;

/// What has to be done to the stored picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Orientation {
    /// 1: nothing.
    #[default]
    Upright,
    /// 2: left and right change places.
    FlipX,
    /// 3: half a turn.
    Turn180,
    /// 4: top and bottom change places.
    FlipY,
    /// 5: rows become columns.
    Transpose,
    /// 6: a quarter turn clockwise.
    Turn90,
    /// 7: rows become columns, then half a turn.
    Transverse,
    /// 8: a quarter turn counter-clockwise.
    Turn270,
}

/// Rows and columns of one block of a transposition: 16 RGBA pixels are one cache line.
const BLOCK: usize = 16;

impl Orientation {
    /// The tag's value; `None` for one that does not exist.
    pub(super) const fn from_exif(value: u16) -> Option<Self> {
        Some(match value {
            1 => Self::Upright,
            2 => Self::FlipX,
            3 => Self::Turn180,
            4 => Self::FlipY,
            5 => Self::Transpose,
            6 => Self::Turn90,
            7 => Self::Transverse,
            8 => Self::Turn270,
            _ => return None,
        })
    }

    const fn exchanges_sides(self) -> bool {
        matches!(self, Self::Transpose | Self::Turn90 | Self::Transverse | Self::Turn270)
    }

    /// Size of the upright picture.
    pub(super) const fn upright(self, stored: Size) -> Size {
        if self.exchanges_sides() { stored.transposed() } else { stored }
    }

    /// Turns `frame` upright: in place, or for the four that exchange the sides through one more pooled buffer.
    pub(super) fn apply(self, mut frame: Frame, pool: &BufferPool) -> Frame {
        let size = frame.size();
        let stride = size.width as usize * 4;
        match self {
            Self::Upright => frame,
            Self::FlipX => {
                frame.pixels_mut().par_chunks_exact_mut(stride).for_each(|row| row.as_chunks_mut::<4>().0.reverse());
                frame
            }
            Self::Turn180 => {
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
            Self::Transpose | Self::Turn90 | Self::Transverse | Self::Turn270 => self.transposed(&frame, pool),
        }
    }

    fn transposed(self, frame: &Frame, pool: &BufferPool) -> Frame {
        let stored = frame.size();
        let (width, height) = (stored.width as usize, stored.height as usize);
        let source = frame.pixels().as_chunks::<4>().0;
        let mut upright = pool.take(source.len() * 4);
        // Upright (x, y) comes from stored column y and row x, each counted from the far end where the turn says so.
        let from_right = matches!(self, Self::Transverse | Self::Turn270);
        let from_bottom = matches!(self, Self::Transverse | Self::Turn90);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Buffer;

    /// Stored 3×2: a b c / d e f.
    fn turned(value: u16) -> (Size, String) {
        let pixels: Vec<u8> = b"abcdef".iter().flat_map(|&letter| [letter, 0, 0, 255]).collect();
        let frame = Frame::new(Size::new(3, 2), Buffer::from(pixels));
        let orientation = Orientation::from_exif(value).expect("1 to 8");
        let size = orientation.upright(frame.size());
        let upright = orientation.apply(frame, &BufferPool::new(0));
        assert_eq!(upright.size(), size);
        (size, upright.pixels().as_chunks::<4>().0.iter().map(|pixel| char::from(pixel[0])).collect())
    }

    #[test]
    fn each_of_the_eight_values_turns_as_the_exif_standard_says() {
        assert_eq!(turned(1), (Size::new(3, 2), "abcdef".into()));
        assert_eq!(turned(2), (Size::new(3, 2), "cbafed".into()));
        assert_eq!(turned(3), (Size::new(3, 2), "fedcba".into()));
        assert_eq!(turned(4), (Size::new(3, 2), "defabc".into()));
        assert_eq!(turned(5), (Size::new(2, 3), "adbecf".into()));
        assert_eq!(turned(6), (Size::new(2, 3), "daebfc".into()));
        assert_eq!(turned(7), (Size::new(2, 3), "fcebda".into()));
        assert_eq!(turned(8), (Size::new(2, 3), "cfbead".into()));
        assert!(Orientation::from_exif(0).is_none() && Orientation::from_exif(9).is_none());
    }

    #[test]
    fn turning_left_undoes_turning_right_beyond_one_block() {
        let (width, height) = (37_u32, 53_u32);
        let pixels: Vec<u8> = (0..width * height).flat_map(u32::to_le_bytes).collect();
        let frame = Frame::new(Size::new(width, height), Buffer::from(pixels.clone()));
        let pool = BufferPool::new(0);
        let back = Orientation::Turn270.apply(Orientation::Turn90.apply(frame.clone(), &pool), &pool);
        assert_eq!(back.pixels(), pixels);
        let twice = Orientation::Transverse.apply(Orientation::Transpose.apply(frame.clone(), &pool), &pool);
        assert_eq!(twice.pixels(), Orientation::Turn180.apply(frame, &pool).pixels());
    }
}
