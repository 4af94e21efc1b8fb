//! The RIFF structure of a WebP file (RFC 9649).

use crate::codec::bytes::{slice, truncated, u8_at, u16_le, u24_le, u32_le};
use crate::codec::{DecodeError, Limits, Orientation, corrupt, exif, judge};
use crate::image::Size;
use std::ops::Range;

/// Where things are in a WebP file.
#[derive(Debug)]
pub(in crate::codec) struct Layout {
    /// Stored size.
    pub(super) size: Size,
    exif: Option<Range<usize>>,
    profile: Option<Range<usize>>,
}

impl Layout {
    /// Walks the chunks of `bytes`.
    pub(in crate::codec) fn read(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        // "RIFF", the bytes that follow, "WEBP"; the first chunk's data begin at 20.
        let first = slice(bytes, 12, 4)?;
        let size = match first {
            b"VP8 " => lossy_size(bytes)?,
            b"VP8L" => lossless_size(bytes)?,
            b"VP8X" => Size::new(u24_le(bytes, 24)? + 1, u24_le(bytes, 27)? + 1),
            _ => return Err(corrupt("an unknown first chunk")),
        };
        judge(size, limits)?;
        let declared = usize::try_from(u32_le(bytes, 4)?).map_err(|_| truncated())?.saturating_add(8);
        let mut layout = Self { size, exif: None, profile: None };
        let (mut at, mut data) = (12, false);
        // Some writers leave out the last chunk's padding byte.
        while at + 1 < declared {
            let name = slice(bytes, at, 4)?;
            let len = usize::try_from(u32_le(bytes, at + 4)?).map_err(|_| truncated())?;
            slice(bytes, at + 8, len)?;
            let place = at + 8..at + 8 + len;
            match name {
                b"VP8 " | b"VP8L" | b"ANMF" => data = true,
                b"EXIF" => layout.exif = layout.exif.or(Some(place)),
                b"ICCP" => layout.profile = layout.profile.or(Some(place)),
                _ => {}
            }
            at += 8 + len + len % 2;
        }
        if data { Ok(layout) } else { Err(truncated()) }
    }

    /// Size of the upright picture.
    pub(in crate::codec) fn upright(&self, bytes: &[u8]) -> Size {
        self.orientation(bytes).upright(self.size)
    }

    /// How the picture is stored.
    pub(super) fn orientation(&self, bytes: &[u8]) -> Orientation {
        self.exif.clone().map_or(Orientation::Upright, |place| exif::orientation(&bytes[place]))
    }

    /// The colour profile.
    pub(super) fn profile<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.profile.clone().map(|place| &bytes[place])
    }
}

/// A key frame's header: a three-byte tag, the start code, then 14 bits a side.
fn lossy_size(bytes: &[u8]) -> Result<Size, DecodeError> {
    if slice(bytes, 23, 3)? != b"\x9d\x01\x2a" {
        return Err(corrupt("no key frame"));
    }
    Ok(Size::new(u32::from(u16_le(bytes, 26)? & 0x3fff), u32::from(u16_le(bytes, 28)? & 0x3fff)))
}

/// A signature byte, then 14 bits a side, less one.
fn lossless_size(bytes: &[u8]) -> Result<Size, DecodeError> {
    if u8_at(bytes, 20)? != 0x2f {
        return Err(corrupt("no lossless signature"));
    }
    let bits = u32_le(bytes, 21)?;
    Ok(Size::new((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
}
