//! Encodes a composite as PNG, WebP or JPEG; samples are packed inside the composite's buffer.

use super::encode_options::{Channels, EncodeOptions};
use super::error::EncodeError;
use super::png::Packing;
use super::{jpeg, pixel_format, png, webp};
use crate::image::{Buffer, Composite, EncodedImage, OutputFormat, Quality, Size};
use image_webp::ColorType;

/// From this quality WebP is lossless.
const LOSSLESS: u8 = 100;

/// The longest side in pixels that a format can store.
#[must_use]
pub const fn longest_side(format: OutputFormat) -> u32 {
    match format {
        OutputFormat::WebP => webp::MAX_SIDE,
        OutputFormat::Jpeg => u16::MAX as u32,
        // A signed 32-bit integer in the file.
        OutputFormat::Png => i32::MAX as u32,
    }
}

/// Returns whether the caller cancelled the request.
pub type IsCancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// Encodes a picture: sRGB, no metadata, colour under zero alpha zeroed.
///
/// # Errors
/// [`EncodeError`] when the encoder fails.
pub fn encode(composite: Composite, options: &EncodeOptions) -> Result<EncodedImage, EncodeError> {
    encode_unless(&|| false, composite, options)
}

/// As [`encode`], but the encoding of a PNG, which may take seconds, ends early when `is_cancelled`.
///
/// # Errors
/// [`EncodeError`] when the encoder fails or the request was cancelled.
pub fn encode_unless(
    is_cancelled: IsCancelled<'_>,
    composite: Composite,
    options: &EncodeOptions,
) -> Result<EncodedImage, EncodeError> {
    let frame = composite.into_frame();
    let size = frame.size();
    let packing = match options.channels {
        Channels::Alpha => Packing::Grey,
        Channels::Rgba if frame.has_transparency() => Packing::Rgba,
        Channels::Rgba => Packing::Rgb,
    };
    let mut pixels = frame.into_pixels();
    let &EncodeOptions { format, quality, png: effort, .. } = options;
    let bytes = match format {
        OutputFormat::Png => png::encode(&mut pixels, size, packing, effort, is_cancelled),
        OutputFormat::WebP => to_webp(pixels, size, packing, quality),
        OutputFormat::Jpeg => to_jpeg(&mut pixels, size, packing, quality),
    };
    let bytes = bytes.map_err(|reason| EncodeError::Encoder { format, reason })?;
    Ok(EncodedImage { format, size, bytes: bytes.into() })
}

fn to_webp(mut pixels: Buffer, size: Size, packing: Packing, quality: Quality) -> Result<Vec<u8>, String> {
    if size.longest() > webp::MAX_SIDE {
        return Err(format!("{size} is more than WebP's {} pixels a side", webp::MAX_SIDE));
    }
    if quality.get() < LOSSLESS {
        match packing {
            Packing::Grey => pixel_format::alpha_as_rgba(&mut pixels),
            Packing::Rgba => pixel_format::zero_transparent(&mut pixels),
            Packing::Rgb => {}
        }
        return webp::encode_lossy(pixels, size, quality);
    }
    let color = match packing {
        Packing::Grey => ColorType::L8,
        Packing::Rgb => ColorType::Rgb8,
        Packing::Rgba => ColorType::Rgba8,
    };
    webp::encode_lossless(packing.pack_in_place(&mut pixels), size, color)
}

fn to_jpeg(pixels: &mut [u8], size: Size, packing: Packing, quality: Quality) -> Result<Vec<u8>, String> {
    match packing {
        Packing::Grey => jpeg::encode(packing.pack_in_place(pixels), size, true, quality),
        Packing::Rgb => jpeg::encode(pixels, size, false, quality),
        // The caller selects the background.
        Packing::Rgba => Err("JPEG has no alpha; put the picture on a background first".to_owned()),
    }
}
