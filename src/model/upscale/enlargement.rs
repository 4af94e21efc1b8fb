//! Enlarges a picture in bands of rows.

use std::ops::Range;

use crate::image::{Buffer, Frame, Size};
use crate::model::{Factor, SegmentError};

/// A picture, and the rows of its enlargement computed so far, from the top.
///
/// One task per band, so that cancellation takes effect and others are not delayed. Bands may run on different devices.
#[derive(Debug)]
pub struct Enlargement {
    frame: Frame,
    factor: Factor,
    size: Size,
    /// RGBA pixels of the enlarged picture, zero where not yet computed; empty before the first band.
    pixels: Vec<u8>,
    rows: u32,
    /// Whether a GPU failed on a band.
    has_failed: bool,
}

/// Rows of a picture, and the pixels of their enlargement.
#[derive(Debug)]
pub struct Band<'a> {
    /// The whole picture.
    pub frame: &'a Frame,
    /// Columns and rows of the result for each of the picture's.
    pub factor: Factor,
    /// The rows of `frame`.
    pub rows: Range<u32>,
    /// RGBA pixels of the result, zero at first: `factor` rows for each of `rows`.
    pub pixels: &'a mut [u8],
}

impl Enlargement {
    /// The enlargement of `frame` to `factor` times its width and height.
    ///
    /// # Errors
    /// [`SegmentError::Device`] for a frame without pixels, and when a side would exceed a `u32`.
    pub fn new(frame: Frame, factor: Factor) -> Result<Self, SegmentError> {
        let Size { width, height } = frame.size();
        if frame.size().area() == 0 {
            return Err(SegmentError::Device("a frame without pixels".to_owned()));
        }
        let (Some(wide), Some(high)) = (width.checked_mul(factor.get()), height.checked_mul(factor.get())) else {
            let factor = factor.get();
            return Err(SegmentError::Device(format!("{} cannot be enlarged {factor} times", frame.size())));
        };
        let size = Size::new(wide, high);
        Ok(Self { frame, factor, size, pixels: Vec::new(), rows: 0, has_failed: false })
    }

    /// The picture.
    #[must_use]
    pub const fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Columns and rows of the enlargement for each of the picture's.
    #[must_use]
    pub const fn factor(&self) -> Factor {
        self.factor
    }

    /// Whether a GPU failed on a band, so that the CPU computes the others.
    pub(in crate::model) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    pub(in crate::model) const fn set_failed(&mut self) {
        self.has_failed = true;
    }

    /// Whether all rows are computed.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.rows == self.frame.size().height
    }

    /// Computes the next rows of the picture, at most `rows`, by `work`; nothing when all are computed. If `work`
    /// fails, the band's pixels are zero again and remain to be computed.
    ///
    /// # Errors
    /// The error of `work`.
    pub fn compute(
        &mut self,
        rows: u32,
        work: impl FnOnce(Band<'_>) -> Result<(), SegmentError>,
    ) -> Result<(), SegmentError> {
        // Allocated here, because clearing a large picture takes time.
        if self.pixels.is_empty() {
            self.pixels = vec![0; self.size.area() * 4];
        }
        let end = self.rows.saturating_add(rows).min(self.frame.size().height);
        let bytes_per_row = self.size.width as usize * 4 * self.factor.get() as usize;
        let pixels = &mut self.pixels[self.rows as usize * bytes_per_row..end as usize * bytes_per_row];
        let band = Band { frame: &self.frame, factor: self.factor, rows: self.rows..end, pixels: &mut *pixels };
        let done = work(band);
        match done {
            Ok(()) => self.rows = end,
            Err(_) => pixels.fill(0),
        }
        done
    }

    /// The enlarged picture.
    ///
    /// # Panics
    /// When it is not [complete](Self::is_complete).
    #[must_use]
    pub fn into_frame(self) -> Frame {
        assert!(self.is_complete(), "rows from {} on are missing", self.rows);
        Frame::new(self.size, Buffer::from(self.pixels))
    }
}
