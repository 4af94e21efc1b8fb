//! Trait of pictures with a coverage for each pixel: frames, cutouts, mattes.

use super::{AlphaMatte, Frame, Rect, Size};

/// A picture's coverage.
pub trait Alpha {
    /// Width and height in pixels.
    fn size(&self) -> Size;

    /// Coverage of a pixel, 0..=255.
    fn alpha(&self, x: u32, y: u32) -> u8;

    /// Bounds of the pixels with a coverage of at least `alpha`; `None` without such a pixel.
    fn covered(&self, alpha: u8) -> Option<Rect>;
}

impl Alpha for Frame {
    fn size(&self) -> Size {
        self.size()
    }

    fn alpha(&self, x: u32, y: u32) -> u8 {
        self.pixel(x, y)[3]
    }

    fn covered(&self, alpha: u8) -> Option<Rect> {
        self.covered(alpha)
    }
}

impl Alpha for AlphaMatte {
    fn size(&self) -> Size {
        self.size()
    }

    fn alpha(&self, x: u32, y: u32) -> u8 {
        self.coverage()[y as usize * self.size().width as usize + x as usize]
    }

    fn covered(&self, alpha: u8) -> Option<Rect> {
        self.covered(alpha)
    }
}
