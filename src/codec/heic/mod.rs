//! HEIC and HEIF, through libheif and libde265 (feature `heic`).
//!
//! libheif applies the container's turns and mirrors (irot, imir); EXIF's orientation repeats them and is not
//! applied again (HEIF, ISO/IEC 23008-12, 6.5.10: the transformative properties rule). The primary picture of
//! several is taken, grids are put together, alpha comes from the auxiliary picture, ten bits become eight inside
//! libheif. Before libheif sees a file, `structure` has judged what decoding it would cost.

mod hevc;
mod structure;

use super::icc::{self, MAX_PROFILE_BYTES, Samples};
use super::{DecodeError, Limits, corrupt, guarded, judge, limits_of};
use crate::image::{BufferPool, Frame, Size};
use libheif_rs::{
    ColorPrimaries, ColorSpace, CompressionFormat, DecodingOptions, HeifContext, ImageHandle, LibHeif, RgbChroma,
    SecurityLimits, TransferCharacteristics,
};
use rayon::prelude::*;
use std::sync::LazyLock;

/// Kept for good: with the last one gone libheif would unload its decoders under another thread.
static LIBRARY: LazyLock<LibHeif> = LazyLock::new(LibHeif::new);

/// Whether the libheif in this binary has an HEVC decoder: it builds and runs without one. To be asked at start-up.
#[must_use]
pub fn decoder_available() -> bool {
    !LIBRARY.decoder_descriptors(1, Some(CompressionFormat::Hevc)).is_empty()
}

/// Size of the upright primary picture, judged.
pub(super) fn probe(bytes: &[u8], limits: &Limits) -> Result<Size, DecodeError> {
    structure::judge_cost(bytes, limits)?;
    guarded("HEIC", || {
        let handle = primary(&context(bytes, limits)?)?;
        let size = Size::new(handle.width(), handle.height());
        judge(size, limits)?;
        Ok(size)
    })
}

/// Decodes a file that was probed as `probed` (upright).
pub(super) fn decode(bytes: &[u8], probed: Size, pool: &BufferPool) -> Result<Frame, DecodeError> {
    // A cropped picture is stored larger than it is shown, so the ordinary limit holds where it is the larger one.
    let limits = Limits { max_side: Limits::default().max_side.max(probed.longest()), ..limits_of(probed) };
    structure::judge_cost(bytes, &limits)?;
    guarded("HEIC", || {
        let context = context(bytes, &limits)?;
        let handle = primary(&context)?;
        if (handle.width(), handle.height()) != (probed.width, probed.height) {
            return Err(super::not_as_probed());
        }
        let mut pixels = pool.take(probed.area() * 4);
        samples(&handle, probed, &mut pixels)?;
        let profile = handle.color_profile_raw().map(|profile| profile.data).or_else(|| coded_profile(&handle));
        icc::to_srgb(&mut pixels, Samples::Rgb, profile.as_deref());
        Ok(Frame::new(probed, pixels))
    })
}

/// Reads the boxes of `bytes` under limits of ours; libheif's own allow a gigapixel and 4 GB.
fn context<'a>(bytes: &'a [u8], limits: &Limits) -> Result<HeifContext<'a>, DecodeError> {
    // Tiles may reach over the right and lower border.
    let side = u64::from(limits.max_side) + 1024;
    let mut ours = SecurityLimits::new();
    ours.set_max_image_size_pixels(side * side);
    ours.set_max_number_of_tiles(structure::MAX_ITEMS as u64);
    ours.set_max_items(structure::MAX_ITEMS as u32);
    ours.set_max_color_profile_size(MAX_PROFILE_BYTES as u32);
    ours.set_max_components(8);
    ours.set_max_memory_block_size(side * side * 8);
    ours.set_max_total_memory(side * side * 16);
    let mut context: HeifContext<'a> = HeifContext::new().map_err(corrupt)?;
    context.set_security_limits(&ours).map_err(corrupt)?;
    context.read_bytes(bytes).map_err(corrupt)?;
    // The engine's pool decides how many threads work.
    context.set_max_decoding_threads(0);
    Ok(context)
}

fn primary(context: &HeifContext<'_>) -> Result<ImageHandle, DecodeError> {
    context.primary_image_handle().map_err(corrupt)
}

fn samples(handle: &ImageHandle, size: Size, pixels: &mut [u8]) -> Result<(), DecodeError> {
    let mut options = DecodingOptions::new().ok_or_else(|| corrupt("libheif is out of memory"))?;
    options.set_convert_hdr_to_8bit(true);
    options.set_strict_decoding(true);
    options.set_num_codec_threads(1);
    let image = LIBRARY.decode(handle, ColorSpace::Rgb(RgbChroma::Rgba), Some(options)).map_err(corrupt)?;
    let planes = image.planes();
    let plane = planes.interleaved.ok_or_else(|| corrupt("no pixels"))?;
    let row_bytes = size.width as usize * 4;
    let rows = plane.data.chunks(plane.stride);
    if (plane.width, plane.height) != (size.width, size.height) || plane.stride < row_bytes {
        return Err(super::not_as_probed());
    }
    for (row, decoded) in pixels.chunks_exact_mut(row_bytes).zip(rows) {
        row.copy_from_slice(decoded.get(..row_bytes).ok_or_else(|| corrupt("rows are missing"))?);
    }
    if image.is_premultiplied_alpha() || handle.is_premultiplied_alpha() {
        pixels.as_chunks_mut::<4>().0.par_iter_mut().with_min_len(16 << 10).for_each(straighten);
    }
    Ok(())
}

/// Divides premultiplied colour by its alpha.
fn straighten(pixel: &mut [u8; 4]) {
    let alpha = u32::from(pixel[3]);
    for channel in &mut pixel[..3] {
        if let Some(straight) = (u32::from(*channel) * 255 + alpha / 2).checked_div(alpha) {
            *channel = straight.min(255) as u8;
        }
    }
}

/// A profile for the colours that code points name (nclx) in place of a profile: Display P3, the one that differs
/// from sRGB and is in common use.
fn coded_profile(handle: &ImageHandle) -> Option<Vec<u8>> {
    let points = handle.color_profile_nclx()?;
    let display_p3 = points.color_primaries() == ColorPrimaries::SMPTE_EG_432_1
        && points.transfer_characteristics() == TransferCharacteristics::IEC_61966_2_1;
    display_p3.then(|| moxcms::ColorProfile::new_display_p3().encode().ok()).flatten()
}
