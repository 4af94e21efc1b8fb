//! Walks the RIFF chunks of a WebP file (RFC 9649); finds size, EXIF and ICC profile.
//!
//! An extended file declares its size twice, on the canvas and in the picture data, and an animation frame a third time.
//! Contradicting sizes are refused here, because the decoder would allocate for them first.

use crate::codec::byte_reader::{slice, truncated, u8_at, u16_le, u24_le, u32_le};
use crate::codec::error::{DecodeError, corrupt};
use crate::codec::exif;
use crate::codec::limits::{Limits, check_size};
use crate::codec::orientation::Orientation;
use crate::image::Size;
use std::borrow::Cow;
use std::ops::Range;

#[derive(Debug)]
pub(in crate::codec) struct Layout {
    pub(super) size: Size,
    exif: Option<Range<usize>>,
    profile: Option<Range<usize>>,
    /// Flags of an extended file that match its actual chunks.
    flags: Option<u8>,
}

impl Layout {
    pub(in crate::codec) fn read(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        // "RIFF", the bytes that follow, "WEBP"; the first chunk's data begin at 20.
        let first = slice(bytes, 12, 4)?;
        let (size, is_animated) = match first {
            b"VP8X" => {
                let canvas = Size::new(u24_le(bytes, 24)? + 1, u24_le(bytes, 27)? + 1);
                (canvas, u8_at(bytes, FLAGS)? & ANIMATION != 0)
            }
            name => (data_size(name, bytes, 20)?, false),
        };
        check_size(size, limits)?;
        let declared = usize::try_from(u32_le(bytes, 4)?).map_err(|_| truncated())?.saturating_add(8);
        let flags = if first == b"VP8X" { Some(u8_at(bytes, FLAGS)?) } else { None };
        let is_flagged = |flag: u8| flags.is_some_and(|flags| flags & flag != 0);
        let mut layout = Self { size, exif: None, profile: None, flags: None };
        let mut unmet = ALPHA | EXIF | XMP;
        let (mut at, mut data, mut coverage, mut alpha) = (12, false, false, false);
        // Some writers leave out the last chunk's padding byte.
        while at + 1 < declared {
            let name = slice(bytes, at, 4)?;
            let len = usize::try_from(u32_le(bytes, at + 4)?).map_err(|_| truncated())?;
            slice(bytes, at + 8, len)?;
            let place = at + 8..at + 8 + len;
            unmet &= match name {
                // Alpha is part of lossless data and of frames.
                b"ALPH" | b"VP8L" | b"ANMF" => !ALPHA,
                b"EXIF" => !EXIF,
                b"XMP " => !XMP,
                _ => u8::MAX,
            };
            match name {
                b"ALPH" => coverage = true,
                b"VP8 " | b"VP8L" if !is_animated => {
                    check_equal(size, data_size(name, bytes, place.start)?)?;
                    alpha |= if name == b"VP8L" { has_alpha(bytes, place.start)? } else { coverage };
                    data = true;
                }
                // Only the first frame of an animation is decoded.
                b"ANMF" if is_animated && !data => {
                    check_frame(size, bytes, place.start)?;
                    data = true;
                }
                // As in libwebp, a chunk without its flag is ignored.
                b"EXIF" if is_flagged(EXIF) => layout.exif = layout.exif.or(Some(place)),
                b"ICCP" if is_flagged(PROFILE) => layout.profile = layout.profile.or(Some(place)),
                _ => {}
            }
            at += 8 + len + len % 2;
        }
        layout.flags = flags.map(|flags| flags & !unmet | if alpha { ALPHA } else { 0 });
        // Chunks after the declared end of the file are ignored here, though a decoder may read them.
        if data { Ok(layout) } else { Err(truncated()) }
    }

    /// `bytes` with the flags of the chunks that exist. Some writers set other flags: libwebp goes by the chunks, but
    /// image-webp refuses the file or drops its alpha.
    pub(super) fn with_flags_met<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut bytes = Cow::Borrowed(bytes);
        if let Some(flags) = self.flags.filter(|flags| bytes[FLAGS] != *flags) {
            bytes.to_mut()[FLAGS] = flags;
        }
        bytes
    }

    pub(in crate::codec) fn upright(&self, bytes: &[u8]) -> Size {
        self.orientation(bytes).upright(self.size)
    }

    pub(super) fn orientation(&self, bytes: &[u8]) -> Orientation {
        self.exif.clone().map_or(Orientation::Upright, |place| exif::orientation(&bytes[place]))
    }

    pub(super) fn profile<'a>(&self, bytes: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        self.profile.clone().map(|place| bytes[place].into())
    }
}

/// Offset of an extended file's flags, and the flags that are read.
const FLAGS: usize = 20;
const ANIMATION: u8 = 1 << 1;
const XMP: u8 = 1 << 2;
const EXIF: u8 = 1 << 3;
const ALPHA: u8 = 1 << 4;
const PROFILE: u8 = 1 << 5;

/// Checks that an animation frame, with chunk data at `at`, lies on the `canvas` and has its declared size.
fn check_frame(canvas: Size, bytes: &[u8], at: usize) -> Result<(), DecodeError> {
    // Left and top in steps of two pixels, width and height less one, duration and flags: 16 bytes.
    let [left, top] = [u24_le(bytes, at)? * 2, u24_le(bytes, at + 3)? * 2];
    let frame = Size::new(u24_le(bytes, at + 6)? + 1, u24_le(bytes, at + 9)? + 1);
    if left + frame.width > canvas.width || top + frame.height > canvas.height {
        return Err(corrupt("a frame beyond the canvas"));
    }
    let chunk = at + 16;
    let data = match slice(bytes, chunk, 4)? {
        // An alpha chunk precedes lossy data.
        b"ALPH" => {
            let len = usize::try_from(u32_le(bytes, chunk + 4)?).map_err(|_| truncated())?;
            let lossy = chunk.saturating_add(8).saturating_add(len).saturating_add(len % 2);
            match slice(bytes, lossy, 4)? {
                b"VP8 " => lossy_size(bytes, lossy.saturating_add(8))?,
                _ => return Err(corrupt("alpha without colour")),
            }
        }
        name => data_size(name, bytes, chunk + 8)?,
    };
    check_equal(frame, data)
}

fn check_equal(declared: Size, stored: Size) -> Result<(), DecodeError> {
    if declared == stored { Ok(()) } else { Err(corrupt(format!("{stored} pixels where it declares {declared}"))) }
}

/// The size of the picture data at `at` in a chunk `name`.
fn data_size(name: &[u8], bytes: &[u8], at: usize) -> Result<Size, DecodeError> {
    match name {
        b"VP8 " => lossy_size(bytes, at),
        b"VP8L" => lossless_size(bytes, at),
        _ => Err(corrupt("an unknown chunk for the picture")),
    }
}

/// Size in a key frame's header: a three-byte tag, the start code, then 14 bits a side.
fn lossy_size(bytes: &[u8], at: usize) -> Result<Size, DecodeError> {
    let header = slice(bytes, at, 10)?;
    if header[3..6] != *b"\x9d\x01\x2a" {
        return Err(corrupt("no key frame"));
    }
    Ok(Size::new(u32::from(u16_le(header, 6)? & 0x3fff), u32::from(u16_le(header, 8)? & 0x3fff)))
}

fn lossless_size(bytes: &[u8], at: usize) -> Result<Size, DecodeError> {
    let bits = lossless_header(bytes, at)?;
    Ok(Size::new((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
}

fn has_alpha(bytes: &[u8], at: usize) -> Result<bool, DecodeError> {
    Ok(lossless_header(bytes, at)? >> 28 & 1 != 0)
}

/// The four bytes after the signature byte: 14 bits a side, less one, then a bit for alpha.
fn lossless_header(bytes: &[u8], at: usize) -> Result<u32, DecodeError> {
    let header = slice(bytes, at, 5)?;
    if header[0] != 0x2f {
        return Err(corrupt("no lossless signature"));
    }
    u32_le(header, 1)
}
