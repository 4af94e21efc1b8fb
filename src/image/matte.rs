//! An alpha matte: how much of each pixel the subject covers, at source size.

use super::geometry::bounds_of;
use super::{Buffer, Rect, Size};

/// Coverage of each pixel: 0..=255, standing for 0..=1; eight bits, as every output stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlphaMatte {
    size: Size,
    coverage: Buffer,
}

impl AlphaMatte {
    /// `coverage` of the pixels of a picture of `size`, row after row.
    ///
    /// # Panics
    /// When there are more or fewer values than pixels.
    #[must_use]
    pub fn new(size: Size, coverage: impl Into<Buffer>) -> Self {
        let coverage = coverage.into();
        assert_eq!(coverage.len(), size.area(), "a matte of {size} needs a value for each pixel");
        Self { size, coverage }
    }

    /// A matte that covers nothing.
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

    /// Coverage, to change in place: every byte is one.
    pub fn coverage_mut(&mut self) -> &mut [u8] {
        &mut self.coverage
    }

    /// The bounds of all pixels that are covered by at least `alpha`.
    #[must_use]
    pub fn covered(&self, alpha: u8) -> Option<Rect> {
        bounds_of(self.size, |row| {
            let row = &self.coverage[row as usize * self.size.width as usize..][..self.size.width as usize];
            let first = row.iter().position(|&value| value >= alpha)?;
            Some((first, row.iter().rposition(|&value| value >= alpha)?))
        })
    }
}
