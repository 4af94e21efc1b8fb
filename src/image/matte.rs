//! An alpha matte: coverage of each pixel by the subject, at source size.

use super::geometry::bounds_of;
use super::{Buffer, Rect, Size};

/// Coverage of each pixel, row-major: 0..=255 stands for 0..=1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlphaMatte {
    size: Size,
    coverage: Buffer,
}

impl AlphaMatte {
    /// A matte of `coverage`, row-major, for a picture of `size`.
    ///
    /// # Panics
    /// When the number of values is not the number of pixels.
    #[must_use]
    pub fn new(size: Size, coverage: impl Into<Buffer>) -> Self {
        let coverage = coverage.into();
        assert_eq!(coverage.len(), size.area(), "a matte of {size} needs a value for each pixel");
        Self { size, coverage }
    }

    /// A matte of zero coverage.
    #[must_use]
    pub fn empty(size: Size) -> Self {
        Self::new(size, vec![0; size.area()])
    }

    /// Width and height of the picture.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// Coverage, row after row.
    #[must_use]
    pub fn coverage(&self) -> &[u8] {
        &self.coverage
    }

    /// Coverage, to change in place; every byte value is valid.
    pub fn coverage_mut(&mut self) -> &mut [u8] {
        &mut self.coverage
    }

    /// Bounds of the pixels with a coverage of at least `alpha`; `None` without such a pixel.
    #[must_use]
    pub fn covered(&self, alpha: u8) -> Option<Rect> {
        bounds_of(self.size, |row| {
            let row = &self.coverage[row as usize * self.size.width as usize..][..self.size.width as usize];
            let first = row.iter().position(|&value| value >= alpha)?;
            Some((first, row.iter().rposition(|&value| value >= alpha)?))
        })
    }
}
