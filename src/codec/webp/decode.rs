//! Decodes WebP with image-webp (safe Rust). An animation yields its first frame on a transparent canvas.

use super::layout::Layout;
use crate::codec::error::{DecodeError, catch_panic, corrupt};
use crate::codec::header::Header;
use crate::codec::icc::{self, Colors, Samples};
use crate::codec::limits::limits_of;
use crate::codec::pixel_format;
use crate::image::{BufferPool, Frame, Size};
use image_webp::WebPDecoder;
use std::io::Cursor;

/// Allocation limit of image-webp for metadata, which is not read.
const MAX_METADATA_BYTES: usize = 1 << 20;

pub(in crate::codec) fn decode(bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
    let layout = Layout::read(bytes, &limits_of(header.size))?;
    let mut pixels = pool.take(layout.size.area() * 4);
    catch_panic("WebP", || samples(&layout.with_flags_met(bytes), layout.size, &mut pixels))?;
    let colors = header.applies_profile.then(|| layout.profile(bytes)).flatten().map(Colors::Profile);
    icc::to_srgb(&mut pixels, Samples::Rgb, colors.as_ref());
    Ok(layout.orientation(bytes).apply(Frame::new(layout.size, pixels), pool))
}

fn samples(bytes: &[u8], size: Size, pixels: &mut [u8]) -> Result<(), DecodeError> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(corrupt)?;
    decoder.set_memory_limit(MAX_METADATA_BYTES);
    if decoder.dimensions() != (size.width, size.height) {
        return Err(corrupt("two sizes"));
    }
    if decoder.has_alpha() {
        decoder.read_image(pixels).map_err(corrupt)
    } else {
        decoder.read_image(&mut pixels[..size.area() * 3]).map_err(corrupt)?;
        pixel_format::rgb_to_rgba(pixels);
        Ok(())
    }
}
