//! Encodes PNG: strips of rows are filtered and compressed in parallel and joined to one zlib stream.
//!
//! The strips depend on the picture's size alone, so the file's bytes are independent of the number of threads.

use super::packing::Packing;
use super::strip::{Strip, StripEncoder, StripPixels};
use crate::codec::encode::IsCancelled;
use crate::codec::encode_options::PngEffort;
use crate::image::Size;
use png::{BitDepth, Compression, Encoder, Filter};
use rayon::prelude::*;
use zlib_rs::adler32::adler32_combine;

/// Bytes of a strip's pixels; smaller pictures have one strip.
const STRIP_BYTES: usize = 256 << 10;
/// Bytes of a strip's pixels when matches are searched. The search restarts at each strip: strips of 256 KiB would cost
/// 0.7 % of the size, these cost 0.2 %.
const SEARCHED_STRIP_BYTES: usize = 1 << 20;
/// Error message of an encoding that ended early.
const CANCELLED: &str = "the request was cancelled";
/// The zlib header (RFC 1950): deflate with a window of 32 KiB, no dictionary, the default level.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x9c];
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Length, type and checksum of a chunk.
const CHUNK_OVERHEAD: usize = 12;

/// Encodes packed RGBA without metadata (sRGB). Overwrites the pixels. Fails between two strips when `is_cancelled`.
pub(in crate::codec) fn encode(
    pixels: &mut [u8],
    size: Size,
    packing: Packing,
    effort: PngEffort,
    is_cancelled: IsCancelled<'_>,
) -> Result<Vec<u8>, String> {
    match effort {
        PngEffort::Fast => encode_fast(pixels, size, packing).map_err(|error| error.to_string()),
        PngEffort::Default | PngEffort::Best => {
            file(size, packing, &strips(pixels, size, packing, effort, is_cancelled)?)
        }
    }
}

/// Encodes with the png crate's compressor for filtered rows, which has one fixed Huffman code.
fn encode_fast(pixels: &mut [u8], size: Size, packing: Packing) -> Result<Vec<u8>, png::EncodingError> {
    let samples = packing.pack_in_place(pixels);
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, size.width, size.height);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_color(packing.color_type());
    encoder.set_compression(Compression::Fast);
    encoder.set_filter(Filter::Adaptive);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(samples)?;
    writer.finish()?;
    Ok(out)
}

/// The compressed strips, stored in place over the pixels.
fn strips<'a>(
    pixels: &'a mut [u8],
    size: Size,
    packing: Packing,
    effort: PngEffort,
    is_cancelled: IsCancelled<'_>,
) -> Result<Vec<Strip<'a>>, String> {
    if pixels.is_empty() {
        return Err("a picture without pixels".to_owned());
    }
    let row_bytes = size.width as usize * 4;
    let strip_bytes = if effort == PngEffort::Best { SEARCHED_STRIP_BYTES } else { STRIP_BYTES };
    let rows = (strip_bytes / row_bytes).clamp(1, size.height as usize);
    let mut above = None;
    let split = |strip: &'a mut [u8]| {
        let (body, last) = strip.split_at_mut(strip.len() - row_bytes);
        let last = &*last;
        StripPixels { above: above.replace(last), body, last }
    };
    let strips: Vec<_> = pixels.chunks_mut(rows * row_bytes).map(split).collect();
    let count = strips.len();
    let encoder = || StripEncoder::new(size.width as usize, rows, packing, effort);
    let each = strips.into_par_iter().enumerate();
    let encode = |encoder: &mut StripEncoder, (index, strip)| {
        if is_cancelled() { Err(CANCELLED.to_owned()) } else { encoder.encode(strip, index + 1 == count) }
    };
    each.map_init(encoder, encode).collect()
}

/// A PNG with `strips` as the parts of its zlib stream.
fn file(size: Size, packing: Packing, strips: &[Strip<'_>]) -> Result<Vec<u8>, String> {
    let adler = strips.iter().fold(1, |sum, strip| adler32_combine(sum, strip.adler, strip.raw_len as u64));
    let data: usize = strips.iter().map(|strip| strip.bytes.len()).sum();
    let mut out = Vec::with_capacity(SIGNATURE.len() + 3 * CHUNK_OVERHEAD + 13 + data + 6);
    out.extend_from_slice(SIGNATURE);
    let [width, height] = [size.width, size.height].map(u32::to_be_bytes);
    chunk(&mut out, b"IHDR", [&width[..], &height, &[8, packing.color_type() as u8, 0, 0, 0]])?;
    let (header, checksum) = (&ZLIB_HEADER[..], adler.to_be_bytes());
    let blocks = strips.iter().map(|strip| &strip.bytes[..]);
    chunk(&mut out, b"IDAT", std::iter::once(header).chain(blocks).chain([&checksum[..]]))?;
    chunk(&mut out, b"IEND", [])?;
    Ok(out)
}

/// Appends a chunk whose content is `parts`.
fn chunk<'a>(out: &mut Vec<u8>, name: &[u8; 4], parts: impl IntoIterator<Item = &'a [u8]>) -> Result<(), String> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name);
    parts.into_iter().for_each(|part| out.extend_from_slice(part));
    // A signed 32-bit integer in the file.
    let len = i32::try_from(out.len() - start - 8).map_err(|_| "more data than a PNG can hold")?;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    let checksum = crc32fast::hash(&out[start + 4..]);
    out.extend_from_slice(&checksum.to_be_bytes());
    Ok(())
}
