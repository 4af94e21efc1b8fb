//! A decoded picture.

use super::geometry::bounds_of;
use super::{Buffer, Rect, Size};

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

    /// The bounds of all pixels that cover at least `alpha`.
    #[must_use]
    pub fn covered(&self, alpha: u8) -> Option<Rect> {
        let width = self.size.width as usize * 4;
        bounds_of(self.size, |row| {
            let row = self.pixels[row as usize * width..][..width].as_chunks::<4>().0;
            let first = row.iter().position(|pixel| pixel[3] >= alpha)?;
            Some((first, row.iter().rposition(|pixel| pixel[3] >= alpha)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(size: Size, alpha: impl Fn(u32, u32) -> u8) -> Frame {
        let alpha = &alpha;
        let bytes = (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| [9, 9, 9, alpha(x, y)]));
        Frame::new(size, Buffer::from(bytes.collect::<Vec<u8>>()))
    }

    #[test]
    fn the_bounds_are_those_of_visible_pixels() {
        let size = Size::new(20, 10);
        let spots = [(7, 3, 255), (11, 6, 8), (2, 5, 90), (19, 9, 7)];
        let spotted = frame(size, |x, y| spots.iter().find(|s| (s.0, s.1) == (x, y)).map_or(0, |s| s.2));
        assert_eq!(spotted.covered(8), Some(Rect { left: 2, top: 3, width: 10, height: 4 }));
        assert_eq!(frame(size, |_, _| 255).covered(8), Some(Rect::whole(size)));
        assert_eq!(frame(size, |_, _| 7).covered(8), None);
        let corner = frame(size, |x, y| if (x, y) == (19, 0) { 200 } else { 0 });
        assert_eq!(corner.covered(8), Some(Rect { left: 19, top: 0, width: 1, height: 1 }));
    }
}
