//! Decodes JPEG with zune-jpeg, in strict mode.
//!
//! By default zune-jpeg fills missing data with grey and succeeds. Strict mode is applied to the reduced stream
//! ([`Layout::reduced`]), so that it concerns the picture only.
//!
//! CMYK samples are inverted (255 is no ink), with or without Adobe's marker, as Photoshop writes and Pillow, Skia and
//! Firefox read them. zune-jpeg's own conversion of them to RGBA skips pixels, so the raw samples are used.

use super::layout::{Layout, MAX_SCANS};
use crate::codec::error::{DecodeError, catch_panic, corrupt};
use crate::codec::header::Header;
use crate::codec::icc::{self, Samples};
use crate::codec::limits::limits_of;
use crate::codec::pixel_format;
use crate::image::{BufferPool, Frame};
use rayon::prelude::*;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Decodes a probed file.
pub(in crate::codec) fn decode(bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
    let layout = Layout::read(bytes, &limits_of(header.size))?;
    let mut pixels = pool.take(layout.size.area() * 4);
    let format = {
        let reduced = layout.reduced(bytes);
        catch_panic("JPEG", || samples(&reduced, &layout, &mut pixels))?
    };
    let profile = header.applies_profile.then(|| layout.profile(bytes)).flatten();
    match format {
        SampleFormat::Rgba => icc::to_srgb(&mut pixels, Samples::Rgb, profile.as_deref()),
        SampleFormat::Grey => icc::to_srgb(&mut pixels, Samples::Grey, profile.as_deref()),
        SampleFormat::Cmyk => icc::cmyk_to_srgb(&mut pixels, profile.as_deref()),
        SampleFormat::Ycck => {
            ycck_to_cmyk(&mut pixels);
            icc::cmyk_to_srgb(&mut pixels, profile.as_deref());
        }
    }
    Ok(layout.orientation(bytes).apply(Frame::new(layout.size, pixels), pool))
}

/// The format of the decoded samples.
enum SampleFormat {
    Rgba,
    Grey,
    /// Inverted CMYK: 255 is no ink.
    Cmyk,
    /// Inverted CMYK with its colours as luma and chroma.
    Ycck,
}

fn samples(reduced: &[u8], layout: &Layout, pixels: &mut [u8]) -> Result<SampleFormat, DecodeError> {
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(layout.size.width as usize)
        .set_max_height(layout.size.height as usize)
        .jpeg_set_max_scans(MAX_SCANS)
        .jpeg_set_out_colorspace(ColorSpace::RGBA);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(reduced), options);
    decoder.decode_headers().map_err(corrupt)?;
    let coded = decoder.input_colorspace();
    let (out, format) = match (layout.components, coded) {
        (1, _) => (ColorSpace::RGBA, SampleFormat::Grey),
        // zune-jpeg reports Adobe's "no transform" as CMYK before it counts the components.
        (3, Some(ColorSpace::RGB | ColorSpace::CMYK)) => (ColorSpace::RGB, SampleFormat::Rgba),
        (4, Some(ColorSpace::YCCK)) => (ColorSpace::YCCK, SampleFormat::Ycck),
        (4, _) => (ColorSpace::CMYK, SampleFormat::Cmyk),
        _ => (ColorSpace::RGBA, SampleFormat::Rgba),
    };
    decoder.set_options(options.jpeg_set_out_colorspace(out));
    decoder.decode_into(pixels).map_err(corrupt)?;
    if out == ColorSpace::RGB {
        pixel_format::rgb_to_rgba(pixels);
    }
    Ok(format)
}

/// Converts YCCK to inverted CMYK (ITU-T T.871's formula, which gives the colours of the inks; hence inverted again).
fn ycck_to_cmyk(pixels: &mut [u8]) {
    pixels.as_chunks_mut::<4>().0.par_iter_mut().with_min_len(16 << 10).for_each(|pixel| {
        let [luma, blue, red] = [pixel[0], pixel[1], pixel[2]].map(f32::from);
        let (blue, red) = (blue - 128.0, red - 128.0);
        let ink = |value: f32| 255 - value.round().clamp(0.0, 255.0) as u8;
        pixel[0] = ink(luma + 1.402 * red);
        pixel[1] = ink(luma - 0.344_136 * blue - 0.714_136 * red);
        pixel[2] = ink(luma + 1.772 * blue);
    });
}
