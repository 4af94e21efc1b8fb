//! Packs RGBA pixels as the samples of a PNG: grey, RGB or RGBA.

use crate::codec::pixel_format;
use png::ColorType;

#[derive(Clone, Copy, Debug)]
pub(in crate::codec) enum Packing {
    Grey,
    Rgb,
    /// RGBA; the colour of fully transparent pixels is zeroed.
    Rgba,
}

impl Packing {
    pub(super) const fn color_type(self) -> ColorType {
        match self {
            Self::Grey => ColorType::Grayscale,
            Self::Rgb => ColorType::Rgb,
            Self::Rgba => ColorType::Rgba,
        }
    }

    /// Bytes of a pixel in the file.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Grey => 1,
            Self::Rgb => 3,
            Self::Rgba => 4,
        }
    }

    pub(super) fn pack(self, pixels: &[u8], samples: &mut Vec<u8>) {
        let (pixels, start) = (pixels.as_chunks::<4>().0, samples.len());
        samples.resize(start + pixels.len() * self.bytes(), 0);
        let samples = &mut samples[start..];
        match self {
            Self::Grey => samples.iter_mut().zip(pixels).for_each(|(sample, pixel)| *sample = pixel[3]),
            Self::Rgb => {
                let samples = samples.as_chunks_mut::<3>().0.iter_mut();
                samples.zip(pixels).for_each(|(sample, &[red, green, blue, _])| *sample = [red, green, blue]);
            }
            Self::Rgba => {
                let samples = samples.as_chunks_mut::<4>().0.iter_mut();
                // On one register, so that the compiler vectorises to four or more pixels.
                let visible = |pixel: u32| if pixel >> 24 == 0 { 0 } else { pixel };
                samples.zip(pixels).for_each(|(sample, pixel)| {
                    *sample = visible(u32::from_le_bytes(*pixel)).to_le_bytes();
                });
            }
        }
    }

    pub(in crate::codec) fn pack_in_place(self, pixels: &mut [u8]) -> &[u8] {
        let len = match self {
            Self::Grey => pixel_format::rgba_to_alpha(pixels),
            Self::Rgb => pixel_format::rgba_to_rgb(pixels),
            Self::Rgba => {
                pixel_format::zero_transparent(pixels);
                pixels.len()
            }
        };
        &pixels[..len]
    }
}
