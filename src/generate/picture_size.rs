//! Picture sizes of an image API: parsing, and selection of the nearest aspect ratio for a canvas.

use crate::image::Size;
use std::fmt;

/// Accepted sides, in pixels.
const SIDES: std::ops::RangeInclusive<u32> = 64..=4096;

/// A size that an image API supports, written `1024x1536`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PictureSize(Size);

impl PictureSize {
    /// Parses `WIDTHxHEIGHT`; `None` when malformed or out of range.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let side = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten().filter(|side| SIDES.contains(side))
        };
        let (width, height) = text.split_once('x')?;
        Some(Self(Size::new(side(width)?, side(height)?)))
    }

    /// The size whose aspect ratio is nearest to the ratio of `canvas` (difference of logarithms); the largest of equals.
    pub(super) fn nearest(sizes: &[Self], canvas: Size) -> Option<Self> {
        let aspect = |size: Size| (f64::from(size.width) / f64::from(size.height)).ln();
        let target = aspect(canvas);
        sizes.iter().copied().min_by(|Self(one), Self(other)| {
            let off = |size: &Size| (aspect(*size) - target).abs();
            off(one).total_cmp(&off(other)).then(other.area().cmp(&one.area()))
        })
    }
}

impl fmt::Display for PictureSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Size { width, height }) = self;
        write!(f, "{width}x{height}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_two_sides_joined_by_x() {
        for good in ["1024x1024", "64x4096"] {
            assert_eq!(PictureSize::parse(good).map(|size| size.to_string()).as_deref(), Some(good));
        }
        for bad in ["", "x", "1024", "1024x", "x1024", "63x64", "64x4097", "+64x64", "64×64", "64x64x64", "auto"] {
            assert_eq!(PictureSize::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_nearest_aspect_is_chosen_and_of_equal_ones_the_largest() {
        let sizes = ["512x512", "1024x1024", "1536x1024", "1024x1536"].map(|text| PictureSize::parse(text).unwrap());
        let nearest = |width, height| PictureSize::nearest(&sizes, Size::new(width, height)).unwrap().to_string();
        assert_eq!(nearest(300, 300), "1024x1024");
        assert_eq!(nearest(4000, 3000), "1536x1024");
        assert_eq!(nearest(3000, 4000), "1024x1536");
        assert_eq!(nearest(1, 4096), "1024x1536");
        // The border between 1:1 and 3:2 is the square root of 3:2.
        assert_eq!(nearest(1200, 1000), "1024x1024");
        assert_eq!(nearest(1250, 1000), "1536x1024");
        assert_eq!(PictureSize::nearest(&[], Size::new(1, 1)), None);
    }
}
