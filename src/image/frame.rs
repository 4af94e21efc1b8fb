//! A decoded picture: RGBA pixels on the host, and a copy of them on the GPU that segmented it.

use super::geometry::bounds_of;
use super::{Buffer, Hints, Rect, Size, TransferCounter};
#[cfg(feature = "gpu")]
use super::{DeviceCopy, DeviceSession, device_copy};
#[cfg(feature = "gpu")]
use backdrop_kernels::device::Plane;
#[cfg(feature = "gpu")]
use burn::tensor::Device;
use rayon::prelude::*;
use std::sync::Arc;
#[cfg(feature = "gpu")]
use std::sync::OnceLock;

/// Pixels per task of a scan: 64 KiB.
const SCANNED: usize = 16 << 10;

/// A picture on the host: packed RGBA8, sRGB, upright, straight alpha, row after row without padding. Clones share the
/// pixels until one changes them.
#[derive(Clone, Debug)]
pub struct Frame {
    size: Size,
    pixels: Arc<Buffer>,
    hints: Option<Arc<Hints>>,
    #[cfg(feature = "gpu")]
    on_device: OnceLock<DeviceCopy>,
}

impl Frame {
    /// Wraps `pixels`, which must hold exactly four bytes for each pixel of `size`.
    ///
    /// # Panics
    /// When the length is not `4 * width * height`: a decoder that contradicts its own header.
    #[must_use]
    pub fn new(size: Size, pixels: Buffer) -> Self {
        assert_eq!(pixels.len(), size.area() * 4, "a frame of {size} needs four bytes a pixel");
        Self {
            size,
            pixels: Arc::new(pixels),
            hints: None,
            #[cfg(feature = "gpu")]
            on_device: OnceLock::new(),
        }
    }

    /// This picture with hints, for the guided network.
    #[must_use]
    pub fn with_hints(self, hints: Hints) -> Self {
        Self { hints: Some(Arc::new(hints)), ..self }
    }

    /// The hints for the guided network.
    #[must_use]
    pub fn hints(&self) -> Option<&Hints> {
        self.hints.as_deref()
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

    /// The packed RGBA bytes, to change in place. They are copied first if a clone or an unfinished upload shares them.
    /// A copy on a device is dropped, because it would show the old pixels.
    pub fn pixels_mut(&mut self) -> &mut [u8] {
        #[cfg(feature = "gpu")]
        self.on_device.take();
        Arc::<Buffer>::make_mut(&mut self.pixels)
    }

    /// Uploads the pixels to `device` without a copy on the host: u32 `[H, W]`.
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn uploaded(&self, device: &Device) -> Plane {
        device_copy::upload(self.size, Arc::clone(&self.pixels), device)
    }

    /// As [`Self::uploaded`], with a counter of transfers. Run it in a [`DeviceSession::call`], because a GPU that
    /// hangs never completes the upload.
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn copied_to(&self, session: &DeviceSession) -> DeviceCopy {
        DeviceCopy::of(self.size, Arc::clone(&self.pixels), session)
    }

    /// Keeps a copy of the pixels on a device for later stages, until the pixels change. An existing copy stays.
    #[cfg(feature = "gpu")]
    pub fn keep_on_device(&self, copy: DeviceCopy) {
        // An error means that a copy already exists.
        let _: Result<(), DeviceCopy> = self.on_device.set(copy);
    }

    /// The copy of the pixels on a device.
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn on_device(&self) -> Option<&DeviceCopy> {
        self.on_device.get()
    }

    /// The counter of transfers to the device that has a copy of the pixels.
    #[must_use]
    pub fn transfer_counter(&self) -> Option<Arc<TransferCounter>> {
        #[cfg(feature = "gpu")]
        return self.on_device().map(DeviceCopy::counter);
        #[cfg(not(feature = "gpu"))]
        return None;
    }

    /// The packed buffer, by value; a copy if a clone or an unfinished upload shares it.
    #[must_use]
    pub fn into_pixels(self) -> Buffer {
        // On a host device the device copy shares the buffer.
        #[cfg(feature = "gpu")]
        drop(self.on_device);
        Arc::unwrap_or_clone(self.pixels)
    }

    /// A buffer of `len` bytes from the pixels' pool. May hold an earlier picture: only for work that writes each byte.
    #[must_use]
    pub fn buffer(&self, len: usize) -> Buffer {
        self.pixels.another_for_overwrite(len)
    }

    /// One pixel, `[r, g, b, a]`.
    #[must_use]
    pub fn pixel(&self, x: u32, y: u32) -> [u8; 4] {
        let at = (y as usize * self.size.width as usize + x as usize) * 4;
        [self.pixels[at], self.pixels[at + 1], self.pixels[at + 2], self.pixels[at + 3]]
    }

    /// Whether any pixel is not fully opaque.
    #[must_use]
    pub fn has_transparency(&self) -> bool {
        let least = |pixels: &[[u8; 4]]| pixels.iter().fold(255, |least, pixel| pixel[3].min(least));
        self.pixels.as_chunks::<4>().0.par_chunks(SCANNED).any(|pixels| least(pixels) < 255)
    }

    /// Whether the picture is already a cutout: a 200th of its pixels, and at least one, have an alpha below one half.
    /// Stray pixels or a faint border of an opaque picture do not count.
    #[must_use]
    pub fn is_cut_out(&self) -> bool {
        let clear = |pixels: &[[u8; 4]]| pixels.iter().filter(|pixel| pixel[3] < 128).count();
        let clear: usize = self.pixels.as_chunks::<4>().0.par_chunks(SCANNED).map(clear).sum();
        clear > 0 && clear * 200 >= self.size.area()
    }

    /// The pixels inside `part`, each the mean of a square of `factor` by `factor` pixels (straight alpha, so means are
    /// exact for opaque pictures). Incomplete squares are dropped. `take(len)` returns the new buffer.
    ///
    /// # Panics
    /// When `part` reaches beyond the frame or is smaller than a square.
    #[must_use]
    pub fn cropped(&self, part: Rect, factor: u32, take: impl FnOnce(usize) -> Buffer) -> Self {
        let (size, Rect { left, top, width, height }) = (self.size, part);
        let inside = left.checked_add(width).is_some_and(|right| right <= size.width)
            && top.checked_add(height).is_some_and(|bottom| bottom <= size.height);
        assert!(inside && factor > 0 && width >= factor && height >= factor, "{part} is no part of {size}");
        let reduced = Size::new(width / factor, height / factor);
        let (from, _) = self.pixels.as_chunks::<4>();
        let mut pixels = take(reduced.area() * 4);
        let rows = pixels.par_chunks_exact_mut(reduced.width as usize * 4).enumerate();
        rows.for_each(|(y, row)| {
            if factor == 1 {
                let first = (top as usize + y) * size.width as usize + left as usize;
                row.copy_from_slice(from[first..first + width as usize].as_flattened());
                return;
            }
            for (x, pixel) in row.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let mut sums = [factor * factor / 2; 4];
                for row in 0..factor as usize {
                    let y = top as usize + y * factor as usize + row;
                    let first = y * size.width as usize + left as usize + x * factor as usize;
                    for source in &from[first..first + factor as usize] {
                        sums.iter_mut().zip(source).for_each(|(sum, &value)| *sum += u32::from(value));
                    }
                }
                *pixel = sums.map(|sum| (sum / (factor * factor)) as u8);
            }
        });
        Self::new(reduced, pixels)
    }

    /// Makes every pixel outside of `region` transparent black.
    ///
    /// # Panics
    /// When `region` reaches beyond the picture.
    pub fn clear_outside(&mut self, region: Rect) {
        let Rect { left, top, width, height } = region;
        let row = self.size.width as usize;
        for (y, pixels) in (0..).zip(self.pixels_mut().chunks_exact_mut(row.max(1) * 4)) {
            if (top..top + height).contains(&y) {
                pixels[..left as usize * 4].fill(0);
                pixels[(left + width) as usize * 4..].fill(0);
            } else {
                pixels.fill(0);
            }
        }
    }

    /// Bounds of the pixels with a coverage of at least `alpha`; `None` without such a pixel.
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
    use crate::image::tests::drawn;

    fn frame(size: Size, alpha: impl Fn(u32, u32) -> u8) -> Frame {
        drawn(size.width, size.height, |x, y| [9, 9, 9, alpha(x, y)])
    }

    fn gradient(width: u32, height: u32) -> Frame {
        drawn(width, height, |x, y| [x as u8, y as u8, 9, 255])
    }

    fn buffer(len: usize) -> Buffer {
        Buffer::from(vec![0; len])
    }

    #[test]
    fn stray_and_faint_transparency_is_no_cutout() {
        let size = Size::new(100, 40);
        for (alpha, clear) in [(254, 4000), (128, 4000), (127, 20), (0, 20), (0, 4000)] {
            let cut_out = frame(size, |x, y| if y * 100 + x < clear { alpha } else { 255 });
            assert_eq!(cut_out.is_cut_out(), alpha < 128, "{clear} pixels of {alpha}");
        }
        assert!(!frame(size, |x, y| if y * 100 + x < 19 { 0 } else { 255 }).is_cut_out());
        assert!(frame(Size::new(1, 1), |_, _| 0).is_cut_out());
        assert!(!frame(size, |_, _| 255).is_cut_out());
    }

    #[test]
    fn a_crop_holds_the_pixels_of_its_part() {
        let part = Rect { left: 2, top: 1, width: 4, height: 3 };
        let crop = gradient(7, 5).cropped(part, 1, buffer);
        assert_eq!(crop.size(), part.size());
        for (x, y) in (0..3).flat_map(|y| (0..4).map(move |x| (x, y))) {
            assert_eq!(crop.pixel(x, y), [x as u8 + 2, y as u8 + 1, 9, 255]);
        }
    }

    #[test]
    fn a_reduced_crop_holds_the_means_of_whole_squares() {
        let part = Rect { left: 11, top: 6, width: 1089, height: 1024 };
        let crop = gradient(1100, 1030).cropped(part, 2, buffer);
        assert_eq!(crop.size(), Size::new(544, 512));
        assert_eq!(crop.pixel(0, 0), [12, 7, 9, 255]);
        assert_eq!(crop.pixel(100, 50), [212, 107, 9, 255]);
    }

    #[test]
    fn the_bounds_contain_all_visible_pixels() {
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
