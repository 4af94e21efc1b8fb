//! Walks the chunks of a PNG file from IHDR to IEND; finds size, EXIF and ICC profile.

use crate::codec::byte_reader::{slice, truncated, u8_at, u32_be};
use crate::codec::error::{DecodeError, corrupt};
use crate::codec::exif;
use crate::codec::header::Flaw;
use crate::codec::icc::{CodePoints, Colors, MAX_PROFILE_BYTES};
use crate::codec::limits::{Limits, check_size};
use crate::codec::orientation::Orientation;
use crate::image::Size;
use std::ops::Range;

/// Length, type and checksum of a chunk.
const CHUNK_OVERHEAD: usize = 12;

/// A gamma of 1 in `gAMA`, in hundred-thousandths.
const LINEAR: [u8; 4] = 100_000_u32.to_be_bytes();

/// The code points of a `cICP` chunk with RGB samples in the full range. Other values are undefined or unused in PNG.
fn code_points(chunk: &[u8]) -> Option<CodePoints> {
    match *chunk {
        [primaries, transfer, 0, 1] => Some(CodePoints { primaries, transfer }),
        _ => None,
    }
}

#[derive(Debug)]
pub(in crate::codec) struct Layout {
    pub(super) size: Size,
    /// Whether the colour type is grey, with or without alpha.
    pub(super) grey: bool,
    /// Whether samples have 16 bits.
    pub(super) sixteen_bits: bool,
    /// Ranges of the contents of the IDAT chunks.
    data: Vec<Range<usize>>,
    exif: Option<Range<usize>>,
    profile: Option<Range<usize>>,
    code_points: Option<CodePoints>,
    /// Whether samples are linear light by `gAMA` and no other chunk describes colours.
    is_linear: bool,
}

impl Layout {
    pub(in crate::codec) fn read(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        // Apple's variant for iOS swaps channels, premultiplies alpha and compresses without a header.
        if bytes.get(12..16) == Some(b"CgBI") {
            return Err(DecodeError::Unsupported { found: Some("a PNG optimised for iOS (CgBI)") });
        }
        // The signature has 8 bytes, and IHDR must be the first chunk.
        if slice(bytes, 8, 8)? != b"\0\0\0\x0dIHDR" {
            return Err(corrupt("it does not begin with IHDR"));
        }
        let size = Size::new(u32_be(bytes, 16)?, u32_be(bytes, 20)?);
        check_size(size, limits)?;
        let (depth, colour_type) = (u8_at(bytes, 24)?, u8_at(bytes, 25)?);
        let (grey, sixteen_bits) = (colour_type & 2 == 0, depth == 16);
        let mut layout = Self {
            size,
            grey,
            sixteen_bits,
            data: Vec::new(),
            exif: None,
            profile: None,
            code_points: None,
            is_linear: false,
        };
        let (mut at, mut other_colors) = (8 + CHUNK_OVERHEAD + 13, false);
        loop {
            let len = usize::try_from(u32_be(bytes, at)?).map_err(|_| truncated())?;
            let name = slice(bytes, at + 4, 4)?;
            let start = at + 8;
            slice(bytes, start, len.checked_add(4).ok_or_else(truncated)?)?;
            let place = start..start + len;
            match name {
                b"IEND" => break,
                b"IDAT" => layout.data.push(place),
                b"iCCP" if layout.data.is_empty() => layout.profile = layout.profile.or(Some(place)),
                b"cICP" if layout.data.is_empty() => {
                    layout.code_points = layout.code_points.or(code_points(&bytes[place]))
                }
                b"gAMA" if layout.data.is_empty() => layout.is_linear = bytes[place] == LINEAR,
                b"sRGB" | b"cHRM" => other_colors = true,
                b"eXIf" => layout.exif = layout.exif.or(Some(place)),
                _ => {}
            }
            at = start + len + 4;
        }
        layout.is_linear &= !other_colors;
        if layout.data.is_empty() { Err(corrupt("no picture data")) } else { Ok(layout) }
    }

    pub(in crate::codec) fn upright(&self, bytes: &[u8]) -> Size {
        self.orientation(bytes).upright(self.size)
    }

    pub(super) fn data<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.data.iter().map(|place| &bytes[place.clone()])
    }

    /// [`Flaw::WrongChecksum`] when the checksum of an IDAT chunk is wrong.
    pub(in crate::codec) fn flaw(&self, bytes: &[u8]) -> Option<Flaw> {
        let is_right = |place: &Range<usize>| {
            u32_be(bytes, place.end).is_ok_and(|sum| sum == crc32fast::hash(&bytes[place.start - 4..place.end]))
        };
        (!self.data.iter().all(is_right)).then_some(Flaw::WrongChecksum)
    }

    pub(super) fn orientation(&self, bytes: &[u8]) -> Orientation {
        self.exif.clone().map_or(Orientation::Upright, |place| exif::orientation(&bytes[place]))
    }

    /// The colour description, by the precedence of the PNG specification: code points, profile, curve.
    pub(super) fn colors(&self, bytes: &[u8]) -> Option<Colors<'static>> {
        let profile = || self.profile(bytes).map(|profile| Colors::Profile(profile.into()));
        let linear = || (self.is_linear && self.profile.is_none()).then_some(Colors::Linear);
        self.code_points.map(Colors::CodePoints).or_else(profile).or_else(linear)
    }

    /// The inflated colour profile; `None` when it is malformed or larger than [`MAX_PROFILE_BYTES`].
    fn profile(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let chunk = &bytes[self.profile.clone()?];
        // A name, a zero, the compression method 0, a zlib stream.
        let name = chunk.iter().take(80).position(|&byte| byte == 0)?;
        let stream = chunk.get(name + 1..)?.strip_prefix(&[0])?;
        fdeflate::decompress_to_vec_bounded(stream, MAX_PROFILE_BYTES).ok()
    }
}
