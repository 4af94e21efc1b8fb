//! JPEG pixels, through zune-jpeg.
//!
//! Strict mode, because by default zune paints what is missing grey and calls it a success; on the reduced stream
//! ([`Layout::reduced`]), so that strictness is about the picture only.
//!
//! Four-component files hold 255 for no ink, with or without Adobe's marker, as Photoshop began it and Pillow, Skia
//! and Firefox read them. zune's own conversion of them to RGBA skips pixels, so the raw samples are taken.

use super::layout::{Layout, MAX_SCANS};
use crate::codec::icc::{self, Samples};
use crate::codec::{DecodeError, corrupt, guarded, limits_of, pack};
use crate::image::{BufferPool, Frame, Size};
use rayon::prelude::*;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Decodes a file that was probed as `probed` (upright).
pub(in crate::codec) fn decode(bytes: &[u8], probed: Size, pool: &BufferPool) -> Result<Frame, DecodeError> {
    let layout = Layout::read(bytes, &limits_of(probed))?;
    let mut pixels = pool.take(layout.size.area() * 4);
    let stored = {
        let reduced = layout.reduced(bytes);
        guarded("JPEG", || samples(&reduced, &layout, &mut pixels))?
    };
    let profile = layout.profile(bytes);
    match stored {
        Stored::Rgba => icc::to_srgb(&mut pixels, Samples::Rgb, profile.as_deref()),
        Stored::Grey => icc::to_srgb(&mut pixels, Samples::Grey, profile.as_deref()),
        Stored::Inks => icc::inks_to_srgb(&mut pixels, profile.as_deref()),
        Stored::YccInks => {
            ycc_to_inks(&mut pixels);
            icc::inks_to_srgb(&mut pixels, profile.as_deref());
        }
    }
    Ok(layout.orientation(bytes).apply(Frame::new(layout.size, pixels), pool))
}

/// What the decoder left in the buffer.
enum Stored {
    Rgba,
    Grey,
    /// Cyan, magenta, yellow, black; 255 for no ink.
    Inks,
    /// The same with the colours as luma and chroma.
    YccInks,
}

fn samples(reduced: &[u8], layout: &Layout, pixels: &mut [u8]) -> Result<Stored, DecodeError> {
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(layout.size.width as usize)
        .set_max_height(layout.size.height as usize)
        .jpeg_set_max_scans(MAX_SCANS)
        .jpeg_set_out_colorspace(ColorSpace::RGBA);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(reduced), options);
    decoder.decode_headers().map_err(corrupt)?;
    let coded = decoder.input_colorspace();
    let (out, stored) = match (layout.components, coded) {
        (1, _) => (ColorSpace::RGBA, Stored::Grey),
        // Adobe's "no transform" reads as CMYK until the components are counted.
        (3, Some(ColorSpace::RGB | ColorSpace::CMYK)) => (ColorSpace::RGB, Stored::Rgba),
        (4, Some(ColorSpace::YCCK)) => (ColorSpace::YCCK, Stored::YccInks),
        (4, _) => (ColorSpace::CMYK, Stored::Inks),
        _ => (ColorSpace::RGBA, Stored::Rgba),
    };
    decoder.set_options(options.jpeg_set_out_colorspace(out));
    decoder.decode_into(pixels).map_err(corrupt)?;
    if out == ColorSpace::RGB {
        pack::rgb_to_rgba(pixels);
    }
    Ok(stored)
}

/// Luma and chroma back to cyan, magenta and yellow, all with 255 for no ink (T.871's formula; the stored colours are
/// those of the inverted inks, so the result is inverted once more).
fn ycc_to_inks(pixels: &mut [u8]) {
    pixels.as_chunks_mut::<4>().0.par_iter_mut().with_min_len(16 << 10).for_each(|pixel| {
        let [luma, blue, red] = [pixel[0], pixel[1], pixel[2]].map(f32::from);
        let (blue, red) = (blue - 128.0, red - 128.0);
        let ink = |light: f32| 255 - light.round().clamp(0.0, 255.0) as u8;
        pixel[0] = ink(luma + 1.402 * red);
        pixel[1] = ink(luma - 0.344_136 * blue - 0.714_136 * red);
        pixel[2] = ink(luma + 1.772 * blue);
    });
}
