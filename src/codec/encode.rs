//! A composite to the bytes of a file, packed inside the composite's own buffer.

use super::png::Packing;
use super::{Channels, EncodeError, EncodeOptions, jpeg, pack, png, webp};
use crate::image::{Buffer, Composite, EncodedImage, OutputFormat, Quality, Size};
use image_webp::ColorType;

/// From this quality on WebP is lossless.
const LOSSLESS: u8 = 100;

pub(super) fn encode(composite: Composite, options: &EncodeOptions) -> Result<EncodedImage, EncodeError> {
    let frame = composite.into_frame();
    let size = frame.size();
    let opaque = options.channels == Channels::Alpha || !frame.has_transparency();
    let mut pixels = frame.into_pixels();
    let format = options.format;
    let bytes = match format {
        OutputFormat::Png => to_png(&mut pixels, size, opaque, options),
        OutputFormat::WebP => to_webp(&mut pixels, size, opaque, options),
        OutputFormat::Jpeg => to_jpeg(&mut pixels, size, opaque, options),
    };
    let bytes = bytes.map_err(|reason| EncodeError::Encoder { format, reason })?;
    Ok(EncodedImage { format, size, bytes: bytes.into() })
}

fn to_png(pixels: &mut Buffer, size: Size, opaque: bool, options: &EncodeOptions) -> Result<Vec<u8>, String> {
    let (len, packing) = match (options.channels, opaque) {
        (Channels::Alpha, _) => (pack::rgba_to_alpha(pixels), Packing::Grey),
        (Channels::Rgba, true) => (pack::rgba_to_rgb(pixels), Packing::Rgb),
        (Channels::Rgba, false) => {
            pack::zero_hidden(pixels);
            (pixels.len(), Packing::Rgba)
        }
    };
    png::encode(&pixels[..len], size, packing, options.png).map_err(|error| error.to_string())
}

fn to_webp(pixels: &mut Buffer, size: Size, opaque: bool, options: &EncodeOptions) -> Result<Vec<u8>, String> {
    if size.longest() > webp::MAX_SIDE {
        return Err(format!("{size} is more than WebP's {} pixels a side", webp::MAX_SIDE));
    }
    if options.quality.get() < LOSSLESS {
        match options.channels {
            Channels::Alpha => pack::alpha_as_rgba(pixels),
            Channels::Rgba => pack::zero_hidden(pixels),
        }
        return webp::encode_lossy(std::mem::take(pixels), size, options.quality);
    }
    let (len, color) = match (options.channels, opaque) {
        (Channels::Alpha, _) => (pack::rgba_to_alpha(pixels), ColorType::L8),
        (Channels::Rgba, true) => (pack::rgba_to_rgb(pixels), ColorType::Rgb8),
        (Channels::Rgba, false) => {
            pack::zero_hidden(pixels);
            (pixels.len(), ColorType::Rgba8)
        }
    };
    webp::encode_lossless(&pixels[..len], size, color)
}

fn to_jpeg(pixels: &mut Buffer, size: Size, opaque: bool, options: &EncodeOptions) -> Result<Vec<u8>, String> {
    let quality: Quality = options.quality;
    match options.channels {
        Channels::Alpha => {
            let len = pack::rgba_to_alpha(pixels);
            jpeg::encode(&pixels[..len], size, true, quality)
        }
        // What shines through would have to be invented here; the caller knows the background.
        Channels::Rgba if !opaque => Err("JPEG has no alpha; put the picture on a background first".to_owned()),
        Channels::Rgba => jpeg::encode(pixels, size, false, quality),
    }
}
