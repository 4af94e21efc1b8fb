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
/// # Errors
/// [`EncodeError`] when the encoder fails or the request was cancelled.
pub fn encode_unless(
    is_cancelled: IsCancelled<'_>,
    composite: Composite,
    options: &EncodeOptions,
) -> Result<EncodedImage, EncodeError> {
    let frame = composite.into_frame();
    let size = frame.size();
    let opaque = options.channels == Channels::Alpha || !frame.has_transparency();
    let mut pixels = frame.into_pixels();
    let format = options.format;
    let bytes = match format {
        OutputFormat::Png => to_png(&mut pixels, size, opaque, options, is_cancelled),
        OutputFormat::WebP => to_webp(&mut pixels, size, opaque, options),
        OutputFormat::Jpeg => to_jpeg(&mut pixels, size, opaque, options),
    };
    let bytes = bytes.map_err(|reason| EncodeError::Encoder { format, reason })?;
    Ok(EncodedImage { format, size, bytes: bytes.into() })
}

fn to_png(
    pixels: &mut Buffer,
    size: Size,
    opaque: bool,
    options: &EncodeOptions,
    is_cancelled: IsCancelled<'_>,
) -> Result<Vec<u8>, String> {
    let packing = match (options.channels, opaque) {
        (Channels::Alpha, _) => Packing::Grey,
        (Channels::Rgba, true) => Packing::Rgb,
        (Channels::Rgba, false) => Packing::Rgba,
    };
    png::encode(pixels, size, packing, options.png, is_cancelled)
}

fn to_webp(pixels: &mut Buffer, size: Size, opaque: bool, options: &EncodeOptions) -> Result<Vec<u8>, String> {
    if size.longest() > webp::MAX_SIDE {
        return Err(format!("{size} is more than WebP's {} pixels a side", webp::MAX_SIDE));
    }
    if options.quality.get() < LOSSLESS {
        match options.channels {
            Channels::Alpha => pixel_format::alpha_as_rgba(pixels),
            Channels::Rgba => pixel_format::zero_transparent(pixels),
        }
        return webp::encode_lossy(std::mem::take(pixels), size, options.quality);
    }
    let (len, color) = match (options.channels, opaque) {
        (Channels::Alpha, _) => (pixel_format::rgba_to_alpha(pixels), ColorType::L8),
        (Channels::Rgba, true) => (pixel_format::rgba_to_rgb(pixels), ColorType::Rgb8),
        (Channels::Rgba, false) => {
            pixel_format::zero_transparent(pixels);
            (pixels.len(), ColorType::Rgba8)
        }
    };
    webp::encode_lossless(&pixels[..len], size, color)
}

fn to_jpeg(pixels: &mut Buffer, size: Size, opaque: bool, options: &EncodeOptions) -> Result<Vec<u8>, String> {
    let quality: Quality = options.quality;
    match options.channels {
        Channels::Alpha => {
            let len = pixel_format::rgba_to_alpha(pixels);
            jpeg::encode(&pixels[..len], size, true, quality)
        }
        // The caller selects the background.
        Channels::Rgba if !opaque => Err("JPEG has no alpha; put the picture on a background first".to_owned()),
        Channels::Rgba => jpeg::encode(pixels, size, false, quality),
    }
}
