//! Decodes JPEG: common layouts with zune-jpeg, which is faster; layouts that it mishandles, with jpeg-decoder.
//!
//! `tests/it/codec/jpeg_layouts.rs` compares both with libjpeg-turbo over all layouts that libjpeg-turbo writes. By
//! default zune-jpeg fills missing data with grey and succeeds; strict mode refuses. Strict mode gets the reduced
//! stream ([`Layout::reduced`]), so that it concerns the picture only.
//!
//! CMYK samples are inverted (255 is no ink), with or without Adobe's marker, as Photoshop writes and Pillow, Skia and
//! Firefox read them. zune-jpeg's conversion of CMYK to RGBA skips pixels, so this module converts its raw samples.

use super::layout::{Colors, Layout, MAX_SCANS, PADDINGS};
use crate::codec::byte_reader::truncated;
use crate::codec::error::{DecodeError, catch_panic, corrupt};
use crate::codec::header::Header;
use crate::codec::icc::{self, Samples};
use crate::codec::limits::limits_of;
use crate::codec::pixel_format;
use crate::image::{BufferPool, Frame};
use jpeg_decoder::ColorTransform;
use rayon::prelude::*;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

pub(in crate::codec) fn decode(bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
    let layout = Layout::read(bytes, &limits_of(header.size))?;
    let mut pixels = pool.take(layout.size.area() * 4);
    {
        let decode = if layout.is_common { samples } else { samples_of_any_layout };
        let decode = |padding, pixels: &mut [u8]| {
            let reduced = layout.reduced(bytes, padding);
            catch_panic("JPEG", || decode(&reduced, &layout, pixels))
        };
        decode(PADDINGS[0], &mut pixels)?;
        if layout.may_be_cut() {
            let mut again = pool.take(pixels.len());
            decode(PADDINGS[1], &mut again)?;
            if *again != *pixels {
                return Err(truncated());
            }
        }
    }
    let profile = header.applies_profile.then(|| layout.profile(bytes)).flatten();
    let to_srgb = |pixels: &mut [u8], samples: Samples| {
        icc::to_srgb(pixels, samples, profile.as_ref().map(|profile| icc::Colors::Profile(profile.into())).as_ref());
    };
    match layout.colors {
        Colors::YCbCr | Colors::Rgb => to_srgb(&mut pixels, Samples::Rgb),
        Colors::Grey => to_srgb(&mut pixels, Samples::Grey),
        Colors::Cmyk => icc::cmyk_to_srgb(&mut pixels, profile.as_deref()),
        Colors::Ycck => {
            ycck_to_cmyk(&mut pixels);
            icc::cmyk_to_srgb(&mut pixels, profile.as_deref());
        }
    }
    Ok(layout.orientation(bytes).apply(Frame::new(layout.size, pixels), pool))
}

/// Decodes to RGBA, or to raw samples for CMYK and YCCK.
fn samples(reduced: &[u8], layout: &Layout, pixels: &mut [u8]) -> Result<(), DecodeError> {
    let out = match layout.colors {
        Colors::Grey | Colors::YCbCr => ColorSpace::RGBA,
        Colors::Rgb => ColorSpace::RGB,
        Colors::Cmyk => ColorSpace::CMYK,
        Colors::Ycck => ColorSpace::YCCK,
    };
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(layout.size.width as usize)
        .set_max_height(layout.size.height as usize)
        .jpeg_set_max_scans(MAX_SCANS)
        .jpeg_set_out_colorspace(out);
    JpegDecoder::new_with_options(ZCursor::new(reduced), options).decode_into(pixels).map_err(corrupt)?;
    if out == ColorSpace::RGB {
        pixel_format::rgb_to_rgba(pixels);
    }
    Ok(())
}

/// As [`samples`], for all layouts, but slower.
fn samples_of_any_layout(reduced: &[u8], layout: &Layout, pixels: &mut [u8]) -> Result<(), DecodeError> {
    let mut decoder = jpeg_decoder::Decoder::new(reduced);
    decoder.set_max_decoding_buffer_size(pixels.len());
    decoder.set_color_transform(match layout.colors {
        Colors::Grey => ColorTransform::Grayscale,
        Colors::YCbCr => ColorTransform::YCbCr,
        Colors::Rgb => ColorTransform::RGB,
        // jpeg-decoder inverts each sample.
        Colors::Cmyk | Colors::Ycck => ColorTransform::CMYK,
    });
    let decoded = decoder.decode().map_err(corrupt)?;
    let channels = match layout.colors {
        Colors::Grey => 1,
        Colors::YCbCr | Colors::Rgb => 3,
        Colors::Cmyk | Colors::Ycck => 4,
    };
    if decoded.len() != layout.size.area() * channels {
        return Err(corrupt("another number of samples"));
    }
    match channels {
        1 => {
            let pixels = pixels.as_chunks_mut::<4>().0.iter_mut();
            pixels.zip(&decoded).for_each(|(pixel, &grey)| *pixel = [grey, grey, grey, 255]);
        }
        3 => {
            pixels[..decoded.len()].copy_from_slice(&decoded);
            pixel_format::rgb_to_rgba(pixels);
        }
        _ => pixels.iter_mut().zip(&decoded).for_each(|(sample, &inverted)| *sample = 255 - inverted),
    }
    Ok(())
}

/// Converts YCCK to inverted CMYK. The formula (ITU-T T.871) gives ink colours, hence inverted again.
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
