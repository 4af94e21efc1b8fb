//! Decodes HEIC and HEIF with libheif and libde265, in bounded time and memory.
//!
//! libheif decodes the primary picture, assembles grids, adds alpha from the auxiliary picture, converts ten bits to
//! eight, and applies the container's rotations and mirrors (irot, imir). EXIF's orientation repeats these and is not
//! applied again (HEIF, ISO/IEC 23008-12, 6.5.10: the transformative properties rule). Before libheif reads a file,
//! `item_tables` refuses ambiguous tables and all codecs other than HEVC, and `cost` bounds the decode cost.
//!
//! After `limits::time_limit` libheif can read no further data. libde265 cannot be interrupted inside a picture; `cost`
//! alone bounds that time.

use super::deadline_reader::DeadlineReader;
use super::{cost, item_tables};
use crate::codec::error::{DecodeError, catch_panic, corrupt, not_as_probed};
use crate::codec::header::Header;
use crate::codec::icc::{self, CodePoints, Colors, MAX_PROFILE_BYTES, Samples, SixteenBitTransform, to_8_bits};
use crate::codec::limits::{Limits, MAX_TIME, check_size, time_limit};
use crate::image::{BufferPool, Frame, Size};
use libheif_rs::{
    ColorSpace, CompressionFormat, DecodingOptions, HeifContext, Image, ImageHandle, LibHeif, Plane, RgbChroma,
    SecurityLimits,
};
use rayon::prelude::*;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Never dropped: dropping the last instance would unload libheif's decoders while another thread uses them.
static LIBRARY: LazyLock<LibHeif> = LazyLock::new(|| {
    // Before anything reads libheif's list of decoders, which has no lock.
    #[cfg(any(test, fuzzing))]
    super::counting_decoder::register();
    LibHeif::new()
});

/// Whether the libheif of this binary has an HEVC decoder; it builds and runs without one. Checked at start-up.
#[must_use]
pub fn decoder_available() -> bool {
    !LIBRARY.decoder_descriptors(1, Some(CompressionFormat::Hevc)).is_empty()
}

pub(in crate::codec) fn probe(bytes: &[u8], limits: &Limits) -> Result<Size, DecodeError> {
    cost::check_cost(bytes, limits)?;
    let expired = deadline(MAX_TIME);
    catch_panic("HEIC", || {
        let handle = primary(&context(bytes, limits, &expired)?)?;
        let size = Size::new(handle.width(), handle.height());
        check_size(size, limits)?;
        Ok(size)
    })
}

pub(in crate::codec) fn decode(bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
    // A cropped picture is stored larger than shown, so the probed size would be too strict a limit.
    let &Header { size: probed, ref limits, applies_profile, .. } = header;
    cost::check_cost(bytes, limits)?;
    let time = time_limit(probed);
    let expired = deadline(time);
    catch_panic("HEIC", || {
        let context = context(bytes, limits, &expired)?;
        let handle = primary(&context)?;
        if (handle.width(), handle.height()) != (probed.width, probed.height) {
            return Err(not_as_probed());
        }
        let mut pixels = pool.take(probed.area() * 4);
        let colors = applies_profile.then(|| colors(&handle)).flatten();
        // More than eight bits are converted to sRGB before they are rounded.
        let deep = colors.as_ref().filter(|_| handle.luma_bits_per_pixel() > 8);
        let transform = deep.and_then(|colors| SixteenBitTransform::of(Samples::Rgb, colors));
        let samples = match &transform {
            Some(transform) => deep_samples(&handle, probed, transform, &mut pixels),
            None => samples(&handle, probed, &mut pixels),
        };
        samples.map_err(|error| if expired() { too_long(time) } else { error })?;
        if transform.is_none() {
            icc::to_srgb(&mut pixels, Samples::Rgb, colors.as_ref());
        }
        Ok(Frame::new(probed, pixels))
    })
}

/// Returns whether `time` has passed since this call.
fn deadline(time: Duration) -> impl Fn() -> bool {
    let started = Instant::now();
    move || started.elapsed() >= time
}

fn too_long(time: Duration) -> DecodeError {
    corrupt(format_args!("it takes more than {time:?} to decode"))
}

/// Reads the boxes of `bytes` under `limits` (libheif's own allow a gigapixel and 4 GB). Reads fail once `expired`.
pub(super) fn context<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    expired: &'a dyn Fn() -> bool,
) -> Result<HeifContext<'a>, DecodeError> {
    // Tiles may extend beyond the right and lower border.
    let tile = 1024;
    let side = u64::from(limits.max_side) + tile;
    // The pixels shown, and one more tile along the right and lower border.
    let shown = u64::from(limits.max_megapixels) * 1_000_000;
    let pixels = (side * side).min(shown + 2 * u64::from(limits.max_side) * tile + tile * tile);
    let mut ours = SecurityLimits::new();
    ours.set_max_image_size_pixels(pixels);
    ours.set_max_number_of_tiles(item_tables::MAX_ITEMS as u64);
    ours.set_max_items(item_tables::MAX_ITEMS as u32);
    ours.set_max_color_profile_size(MAX_PROFILE_BYTES as u32);
    ours.set_max_components(8);
    ours.set_max_memory_block_size(pixels * 8);
    ours.set_max_total_memory(pixels * 16);
    // A sequence in the file is parsed, though not decoded.
    ours.set_max_sequence_frames(item_tables::MAX_ITEMS as u32);
    let mut context: HeifContext<'a> = HeifContext::new().map_err(corrupt)?;
    context.set_security_limits(&ours).map_err(corrupt)?;
    context.read_reader(Box::new(DeadlineReader::new(bytes, expired))).map_err(corrupt)?;
    // The engine's CPU pool bounds concurrency.
    context.set_max_decoding_threads(0);
    Ok(context)
}

pub(super) fn primary(context: &HeifContext<'_>) -> Result<ImageHandle, DecodeError> {
    context.primary_image_handle().map_err(corrupt)
}

/// Decodes the picture to RGBA of eight bits with the HEVC decoder of this name, or the one that libheif selects.
pub(super) fn decode_with(handle: &ImageHandle, decoder: Option<&str>) -> Result<Image, DecodeError> {
    decode_to(RgbChroma::Rgba, handle, decoder)
}

fn decode_to(chroma: RgbChroma, handle: &ImageHandle, decoder: Option<&str>) -> Result<Image, DecodeError> {
    let mut options = DecodingOptions::new().ok_or_else(|| corrupt("libheif is out of memory"))?;
    options.set_convert_hdr_to_8bit(chroma == RgbChroma::Rgba);
    options.set_strict_decoding(true);
    options.set_num_codec_threads(1);
    options.set_decoder_id(decoder).map_err(corrupt)?;
    LIBRARY.decode(handle, ColorSpace::Rgb(chroma), Some(options)).map_err(corrupt)
}

fn samples(handle: &ImageHandle, size: Size, pixels: &mut [u8]) -> Result<(), DecodeError> {
    let image = decode_with(handle, None)?;
    let plane = image.planes().interleaved.ok_or_else(|| corrupt("no pixels"))?;
    let row_bytes = size.width as usize * 4;
    for (row, decoded) in pixels.chunks_exact_mut(row_bytes).zip(rows(&plane, size, row_bytes)?) {
        row.copy_from_slice(decoded.ok_or_else(|| corrupt("rows are missing"))?);
    }
    if image.is_premultiplied_alpha() || handle.is_premultiplied_alpha() {
        pixels.as_chunks_mut::<4>().0.par_iter_mut().with_min_len(16 << 10).for_each(unpremultiply);
    }
    Ok(())
}

/// Decodes the picture to samples of up to 16 bits and converts them by `transform`. Alpha must not be premultiplied.
fn deep_samples(
    handle: &ImageHandle,
    size: Size,
    transform: &SixteenBitTransform,
    pixels: &mut [u8],
) -> Result<(), DecodeError> {
    let image = decode_to(RgbChroma::HdrRgbaLe, handle, None)?;
    let plane = image.planes().interleaved.ok_or_else(|| corrupt("no pixels"))?;
    let most = (1_u32 << plane.bits_per_pixel.clamp(8, 16)) - 1;
    let (mut stored, mut converted) = (Vec::new(), vec![0; size.width as usize * 4]);
    for (row, decoded) in pixels.chunks_exact_mut(converted.len()).zip(rows(&plane, size, converted.len() * 2)?) {
        let samples = decoded.ok_or_else(|| corrupt("rows are missing"))?.as_chunks::<2>().0;
        stored.clear();
        stored.extend(
            samples.iter().map(|&sample| (u32::from(u16::from_le_bytes(sample)).min(most) * 65_535 / most) as u16),
        );
        transform.apply(&stored, &mut converted);
        row.iter_mut().zip(&converted).for_each(|(byte, &sample)| *byte = to_8_bits(sample));
    }
    Ok(())
}

/// The rows of a plane, `row_bytes` each; `None` for a missing row.
fn rows<'a>(
    plane: &Plane<&'a [u8]>,
    size: Size,
    row_bytes: usize,
) -> Result<impl Iterator<Item = Option<&'a [u8]>>, DecodeError> {
    if (plane.width, plane.height) != (size.width, size.height) || plane.stride < row_bytes {
        return Err(not_as_probed());
    }
    Ok(plane.data.chunks(plane.stride).map(move |row| row.get(..row_bytes)))
}

/// Divides premultiplied colour by alpha.
fn unpremultiply(pixel: &mut [u8; 4]) {
    let alpha = u32::from(pixel[3]);
    for channel in &mut pixel[..3] {
        if let Some(straight) = (u32::from(*channel) * 255 + alpha / 2).checked_div(alpha) {
            *channel = straight.min(255) as u8;
        }
    }
}

/// The file's colour description: an ICC profile, or code points (nclx).
fn colors(handle: &ImageHandle) -> Option<Colors<'static>> {
    if let Some(profile) = handle.color_profile_raw() {
        return Some(Colors::Profile(profile.data.into()));
    }
    let points = handle.color_profile_nclx()?;
    let primaries = u8::try_from(points.color_primaries() as u32).ok()?;
    let transfer = u8::try_from(points.transfer_characteristics() as u32).ok()?;
    Some(Colors::CodePoints(CodePoints { primaries, transfer }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const GRID: &[u8] = include_bytes!("../../../tests/fixtures/codec/grid.heic");

    #[test]
    fn libheif_decodes_hevc_and_nothing_else() {
        let counting = super::super::counting_decoder::NAME;
        let decoders = |format| {
            let found = LIBRARY.decoder_descriptors(8, Some(format));
            found.iter().filter(|decoder| decoder.id() != counting).count()
        };
        assert_eq!(decoders(CompressionFormat::Hevc), 1);
        for other in [
            CompressionFormat::Jpeg,
            CompressionFormat::Av1,
            CompressionFormat::Avc,
            CompressionFormat::Vvc,
            CompressionFormat::Evc,
            CompressionFormat::Jpeg2000,
            CompressionFormat::HtJ2k,
            CompressionFormat::Uncompressed,
        ] {
            assert_eq!(decoders(other), 0, "{other:?}");
        }
    }

    #[test]
    fn an_expired_decode_stops_before_the_next_tile() {
        let size = Size::new(120, 100);
        let (expired, reads) = (Cell::new(false), Cell::new(0));
        let clock = || {
            reads.set(reads.get() + 1);
            expired.get()
        };
        let context = context(GRID, &Limits::default(), &clock).expect("a container");
        let handle = primary(&context).expect("a picture");
        let mut pixels = vec![0; size.area() * 4];
        reads.set(0);
        samples(&handle, size, &mut pixels).expect("pixels");
        assert_eq!(reads.get(), 4, "one read for each tile");
        expired.set(true);
        reads.set(0);
        assert!(samples(&handle, size, &mut pixels).is_err());
        assert_eq!(reads.get(), 1);
    }
}
