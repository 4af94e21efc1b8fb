//! Sizes and rectangles, in pixels.

use rayon::prelude::*;
use std::fmt;
use std::ops::Range;

/// Minimum number of rows in a task.
const ROWS: usize = 64;

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Size {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Size {
    /// `width` columns by `height` rows.
    #[must_use]
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }

    /// Number of pixels.
    #[must_use]
    pub const fn area(self) -> usize {
        self.width as usize * self.height as usize
    }

    /// The longer side.
    #[must_use]
    pub fn longest(self) -> u32 {
        self.width.max(self.height)
    }

    /// The largest size of this aspect inside `bounds`, which may be larger than `self`. No side is below 1. One side
    /// equals the side of `bounds`; the other is rounded to the nearest pixel.
    #[must_use]
    pub fn fitted(self, bounds: Self) -> Self {
        let by_width =
            u64::from(self.height) * u64::from(bounds.width) <= u64::from(bounds.height) * u64::from(self.width);
        if by_width {
            Self { width: bounds.width, height: self.height_at(bounds.width) }
        } else {
            Self { width: self.width_at(bounds.height), height: bounds.height }
        }
    }

    /// The height that keeps this aspect at `width`: rounded, at least 1.
    #[must_use]
    pub fn height_at(self, width: u32) -> u32 {
        in_proportion(self.height, width, self.width)
    }

    /// The width that keeps this aspect at `height`: rounded, at least 1.
    #[must_use]
    pub fn width_at(self, height: u32) -> u32 {
        in_proportion(self.width, height, self.height)
    }

    /// Width and height exchanged.
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self { width: self.height, height: self.width }
    }
}

/// `value * numerator / denominator`, rounded half up, within `1..=u32::MAX`.
fn in_proportion(value: u32, numerator: u32, denominator: u32) -> u32 {
    let denominator = u64::from(denominator.max(1));
    let exact = (u64::from(value) * u64::from(numerator) + denominator / 2) / denominator;
    u32::try_from(exact).unwrap_or(u32::MAX).max(1)
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{}", self.width, self.height)
    }
}

/// A rectangle inside a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Rect {
    /// First column.
    pub left: u32,
    /// First row.
    pub top: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Rect {
    /// All of a picture of `size`.
    #[must_use]
    pub const fn whole(size: Size) -> Self {
        Self { left: 0, top: 0, width: size.width, height: size.height }
    }

    /// Width and height.
    #[must_use]
    pub const fn size(self) -> Size {
        Size { width: self.width, height: self.height }
    }

    /// The ranges of rows and of columns.
    #[must_use]
    pub const fn ranges(self) -> [Range<usize>; 2] {
        let Self { left, top, width, height } = self;
        [top as usize..(top + height) as usize, left as usize..(left + width) as usize]
    }

    /// Whether the rectangle contains the pixel `[x, y]`.
    #[must_use]
    pub const fn contains(self, [x, y]: [u32; 2]) -> bool {
        x >= self.left && x - self.left < self.width && y >= self.top && y - self.top < self.height
    }
}

impl fmt::Display for Rect {
    /// `left,top,width,height`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.left, self.top, self.width, self.height)
    }
}

/// The bounds of a set of pixels, given its first and last column in each row.
pub(super) fn bounds_of(size: Size, in_row: impl Fn(u32) -> Option<(usize, usize)> + Sync) -> Option<Rect> {
    let column = |at: usize| u32::try_from(at).expect("a column of a picture");
    let found = (0..size.height).into_par_iter().with_min_len(ROWS).filter_map(|row| {
        let (first, last) = in_row(row)?;
        Some((row, row, column(first), column(last)))
    });
    let whole = found.reduce_with(|a, b| (a.0.min(b.0), a.1.max(b.1), a.2.min(b.2), a.3.max(b.3)));
    whole.map(|(top, bottom, left, right)| Rect { left, top, width: right + 1 - left, height: bottom + 1 - top })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitting_keeps_the_aspect_and_touches_one_side() {
        assert_eq!(Size::new(300, 200).fitted(Size::new(100, 100)), Size::new(100, 67));
        assert_eq!(Size::new(200, 300).fitted(Size::new(100, 100)), Size::new(67, 100));
        assert_eq!(Size::new(10, 10).fitted(Size::new(50, 40)), Size::new(40, 40));
        assert_eq!(Size::new(4096, 1).fitted(Size::new(64, 64)), Size::new(64, 1));
    }

    #[test]
    fn sides_that_overflow_saturate() {
        assert_eq!(Size::new(1, u32::MAX).height_at(u32::MAX), u32::MAX);
    }
}
