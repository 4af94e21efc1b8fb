//! Walks the chunks of a PNG file from IHDR to IEND; finds size, EXIF and ICC profile.

use crate::codec::byte_reader::{slice, truncated, u8_at, u32_be};
use crate::codec::error::{DecodeError, corrupt};
use crate::codec::exif;
use crate::codec::icc::MAX_PROFILE_BYTES;
use crate::codec::limits::{Limits, check_size};
use crate::codec::orientation::Orientation;
use crate::image::Size;
use std::ops::Range;

/// Length, type and checksum of a chunk.
const CHUNK_OVERHEAD: usize = 12;

/// Positions of the parts of a PNG file.
#[derive(Debug)]
pub(in crate::codec) struct Layout {
    /// Stored size.
    pub(super) size: Size,
    /// Whether the colour type is grey, with or without alpha.
    pub(super) grey: bool,
    /// Whether samples have 16 bits.
    pub(super) sixteen_bits: bool,
    exif: Option<Range<usize>>,
    profile: Option<Range<usize>>,
}

impl Layout {
    /// Walks the chunks of `bytes`.
    pub(in crate::codec) fn read(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        // The signature is 8 bytes, and IHDR has to come first.
        if slice(bytes, 8, 8)? != b"\0\0\0\x0dIHDR" {
            return Err(corrupt("it does not begin with IHDR"));
        }
        let size = Size::new(u32_be(bytes, 16)?, u32_be(bytes, 20)?);
        check_size(size, limits)?;
        let (depth, colour_type) = (u8_at(bytes, 24)?, u8_at(bytes, 25)?);
        let (grey, sixteen_bits) = (colour_type & 2 == 0, depth == 16);
        let mut layout = Self { size, grey, sixteen_bits, exif: None, profile: None };
        let (mut at, mut data) = (8 + CHUNK_OVERHEAD + 13, false);
        loop {
            let len = usize::try_from(u32_be(bytes, at)?).map_err(|_| truncated())?;
            let name = slice(bytes, at + 4, 4)?;
            let start = at + 8;
            slice(bytes, start, len.checked_add(4).ok_or_else(truncated)?)?;
            let place = start..start + len;
            match name {
                b"IEND" => break,
                b"IDAT" => data = true,
                b"iCCP" if !data => layout.profile = layout.profile.or(Some(place)),
                b"eXIf" => layout.exif = layout.exif.or(Some(place)),
                _ => {}
            }
            at = start + len + 4;
        }
        if data { Ok(layout) } else { Err(corrupt("no picture data")) }
    }

    /// Size of the upright picture.
    pub(in crate::codec) fn upright(&self, bytes: &[u8]) -> Size {
        self.orientation(bytes).upright(self.size)
    }

    /// The stored orientation.
    pub(super) fn orientation(&self, bytes: &[u8]) -> Orientation {
        self.exif.clone().map_or(Orientation::Upright, |place| exif::orientation(&bytes[place]))
    }

    /// The inflated colour profile; `None` when it is malformed or larger than [`MAX_PROFILE_BYTES`].
    pub(super) fn profile(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let chunk = &bytes[self.profile.clone()?];
        // A name, a zero, the compression method 0, a zlib stream.
        let name = chunk.iter().take(80).position(|&byte| byte == 0)?;
        let stream = chunk.get(name + 1..)?.strip_prefix(&[0])?;
        fdeflate::decompress_to_vec_bounded(stream, MAX_PROFILE_BYTES).ok()
    }
}
