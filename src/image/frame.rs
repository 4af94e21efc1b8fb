//! A decoded picture.

use super::{Buffer, Size};

/// A picture on the host: packed RGBA8, sRGB, upright, straight alpha, row after row without padding.
#[derive(Clone, Debug)]
pub struct Frame {
    size: Size,
    pixels: Buffer,
}

impl Frame {
    /// Wraps `pixels`, which must hold exactly four bytes for each pixel of `size`.
    ///
    /// # Panics
    /// When the length is not `4 * width * height`: a decoder that says one thing and does another.
    #[must_use]
    pub fn new(size: Size, pixels: Buffer) -> Self {
        assert_eq!(pixels.len(), size.area() * 4, "a frame of {size} needs four bytes a pixel");
        Self { size, pixels }
    }

    /// Width and height in pixels.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// The packed RGBA bytes.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The packed RGBA bytes, to change in place.
    pub fn pixels_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }

    /// The packed buffer itself.
    #[must_use]
    pub fn into_pixels(self) -> Buffer {
        self.pixels
    }

    /// One pixel, `[r, g, b, a]`.
    #[must_use]
    pub fn pixel(&self, x: u32, y: u32) -> [u8; 4] {
        let at = (y as usize * self.size.width as usize + x as usize) * 4;
        [self.pixels[at], self.pixels[at + 1], self.pixels[at + 2], self.pixels[at + 3]]
    }

    /// Whether any pixel lets something shine through.
    #[must_use]
    pub fn has_transparency(&self) -> bool {
        self.pixels.as_chunks::<4>().0.iter().any(|pixel| pixel[3] != 255)
    }
}
