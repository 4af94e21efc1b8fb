//! Decodes PNG with the png crate, row by row into the frame.
//!
//! All depths and colour types become RGBA8. Samples of 16 bits are converted by the profile first, then rounded to the
//! nearest 8-bit value, not truncated. An animation yields its default image (IDAT), as in viewers without animation.
//! Data after the last row, text and profile chunks are not inflated, so a decompression bomb there costs nothing.

use super::layout::Layout;
use crate::codec::byte_reader::truncated;
use crate::codec::error::{DecodeError, catch_panic, corrupt};
use crate::codec::header::Header;
use crate::codec::icc::{self, Samples, SixteenBitTransform, to_8_bits};
use crate::codec::limits::limits_of;
use crate::image::{BufferPool, Frame, Size};
use png::{BitDepth, ColorType, Decoder, InterlaceInfo, Reader, Transformations};
use std::io::Cursor;
use zlib_rs::{Inflate, InflateFlush, Status};

/// Allocation limit of the png crate: rows, and one chunk of at most the file's size.
const MAX_DECODER_BYTES: usize = 64 << 20;

pub(in crate::codec) fn decode(bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
    let layout = Layout::read(bytes, &limits_of(header.size))?;
    let samples = if layout.grey { Samples::Grey } else { Samples::Rgb };
    let colors = header.applies_profile.then(|| layout.colors(bytes)).flatten();
    let deep = colors.as_ref().filter(|_| layout.sixteen_bits);
    let transform = deep.and_then(|colors| SixteenBitTransform::of(samples, colors));
    // Each row is either written or an error.
    let mut pixels = pool.take_for_overwrite(layout.size.area() * 4);
    catch_panic("PNG", || match rows(bytes, &layout, transform.as_ref(), &mut pixels, false) {
        Err(_) if layout.flaw(bytes).is_some() => {
            check_stream(layout.data(bytes), layout.size)?;
            rows(bytes, &layout, transform.as_ref(), &mut pixels, true)
        }
        decoded => decoded,
    })?;
    if transform.is_none() {
        icc::to_srgb(&mut pixels, samples, colors.as_ref());
    }
    Ok(layout.orientation(bytes).apply(Frame::new(layout.size, pixels), pool))
}

/// Decodes all rows to `pixels`, converting 16-bit samples by `transform`.
fn rows(
    bytes: &[u8],
    layout: &Layout,
    transform: Option<&SixteenBitTransform>,
    pixels: &mut [u8],
    ignores_checksums: bool,
) -> Result<(), DecodeError> {
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MAX_DECODER_BYTES });
    decoder.set_ignore_text_chunk(true);
    decoder.ignore_checksums(ignores_checksums);
    decoder.set_ignore_iccp_chunk(true);
    // Expands palettes, depths below eight bits and tRNS, and adds alpha: two or four channels remain.
    decoder.set_transformations(Transformations::EXPAND | Transformations::ALPHA);
    let mut reader = decoder.read_info().map_err(corrupt)?;
    if (reader.info().width, reader.info().height) != (layout.size.width, layout.size.height) {
        return Err(corrupt("two headers"));
    }
    let stride = layout.size.width as usize * 4;
    match (reader.output_color_type(), reader.info().interlaced) {
        ((ColorType::Rgba, BitDepth::Eight), false) => {
            for row in pixels.chunks_exact_mut(stride) {
                next_row(&mut reader, row)?;
            }
        }
        (channels, interlaced) => {
            let mut convert: ConvertRow<'_> = match transform {
                Some(transform) if channels.1 == BitDepth::Sixteen => Box::new(converter_by(transform, channels.0)),
                Some(_) | None => converter(channels)?,
            };
            let channels_bytes = channels.0.samples() * if channels.1 == BitDepth::Sixteen { 2 } else { 1 };
            if interlaced {
                let mut line = vec![0; stride];
                // An interlaced file may lack a pass.
                pixels.fill(0);
                while let Some(row) = reader.next_interlaced_row().map_err(corrupt)? {
                    let &InterlaceInfo::Adam7(pass) = row.interlace() else {
                        return Err(corrupt("an unknown interlacing"));
                    };
                    let line = &mut line[..row.data().len() / channels_bytes * 4];
                    convert(row.data(), line);
                    png::expand_interlaced_row(pixels, stride, line, &pass, 32);
                }
            } else {
                let mut raw = vec![0; layout.size.width as usize * channels_bytes];
                for row in pixels.chunks_exact_mut(stride) {
                    next_row(&mut reader, &mut raw)?;
                    convert(&raw, row);
                }
            }
        }
    }
    // Skips the remaining data without inflating it, and verifies the last chunk's checksum.
    reader.read_row(&mut []).map_err(corrupt).map(|_| ())
}

/// Verifies the checksum of the zlib stream (RFC 1950) of the picture data, for files whose chunks have wrong checksums.
fn check_stream<'a>(chunks: impl Iterator<Item = &'a [u8]>, size: Size) -> Result<(), DecodeError> {
    // Upper bound: eight bytes a pixel, and one byte for each row of each of the seven passes.
    let most = (size.area() * 8 + (size.height as usize + 1) * 7) as u64;
    let (mut inflate, mut pixels) = (Inflate::new(true, 15), vec![0; 64 << 10]);
    for mut chunk in chunks {
        loop {
            let before = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress(chunk, &mut pixels, InflateFlush::NoFlush);
            if matches!(status.map_err(|error| corrupt(error.as_str()))?, Status::StreamEnd) {
                return Ok(());
            }
            if inflate.total_out() > most {
                return Err(corrupt("more data than pixels"));
            }
            let read = inflate.total_in() - before.0;
            chunk = &chunk[read as usize..];
            if read == 0 && inflate.total_out() == before.1 {
                break;
            }
        }
    }
    Err(truncated())
}

fn next_row(reader: &mut Reader<Cursor<&[u8]>>, row: &mut [u8]) -> Result<(), DecodeError> {
    match reader.read_row(row).map_err(corrupt)? {
        Some(_) => Ok(()),
        None => Err(corrupt("rows are missing")),
    }
}

/// Converts a row of the decoder's samples to RGBA8.
type ConvertRow<'a> = Box<dyn FnMut(&[u8], &mut [u8]) + 'a>;

fn converter(channels: (ColorType, BitDepth)) -> Result<ConvertRow<'static>, DecodeError> {
    let convert: fn(&[u8], &mut [u8]) = match channels {
        (ColorType::Rgba, BitDepth::Eight) => |from, to| to.copy_from_slice(from),
        (ColorType::GrayscaleAlpha, BitDepth::Eight) => |from, to| {
            for (&[grey, alpha], pixel) in from.as_chunks::<2>().0.iter().zip(to.as_chunks_mut::<4>().0) {
                *pixel = [grey, grey, grey, alpha];
            }
        },
        (ColorType::Rgba, BitDepth::Sixteen) => |from, to| {
            for (&sample, byte) in from.as_chunks::<2>().0.iter().zip(to) {
                *byte = to_8_bits(u16::from_be_bytes(sample));
            }
        },
        (ColorType::GrayscaleAlpha, BitDepth::Sixteen) => |from, to| {
            for (&[g1, g2, a1, a2], pixel) in from.as_chunks::<4>().0.iter().zip(to.as_chunks_mut::<4>().0) {
                let [grey, alpha] = [[g1, g2], [a1, a2]].map(|sample| to_8_bits(u16::from_be_bytes(sample)));
                *pixel = [grey, grey, grey, alpha];
            }
        },
        (color, depth) => return Err(corrupt(format_args!("an unknown pixel layout, {color:?} of {depth:?} bits"))),
    };
    Ok(Box::new(convert))
}

/// Converts a row of big-endian 16-bit samples by `transform`, then rounds it to RGBA8.
fn converter_by(transform: &SixteenBitTransform, color: ColorType) -> impl FnMut(&[u8], &mut [u8]) {
    let (mut stored, mut converted) = (Vec::<u16>::new(), Vec::<u16>::new());
    move |row: &[u8], pixels: &mut [u8]| {
        stored.clear();
        if color == ColorType::GrayscaleAlpha {
            stored.extend(row.as_chunks::<4>().0.iter().flat_map(|&[g1, g2, a1, a2]| {
                let [grey, alpha] = [[g1, g2], [a1, a2]].map(u16::from_be_bytes);
                [grey, grey, grey, alpha]
            }));
        } else {
            stored.extend(row.as_chunks::<2>().0.iter().map(|&sample| u16::from_be_bytes(sample)));
        }
        converted.resize(stored.len(), 0);
        transform.apply(&stored, &mut converted);
        pixels.iter_mut().zip(&converted).for_each(|(byte, &sample)| *byte = to_8_bits(sample));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_are_rounded_to_the_nearest_eight() {
        for value in 0..=u16::MAX {
            let right = (f64::from(value) / 257.0).round();
            assert_eq!(f64::from(to_8_bits(value)), right, "{value}");
        }
    }
}
