//! Walks the markers of a JPEG file (ITU-T T.81, annex B) from SOI to EOI; finds size, EXIF, ICC profile and scans.
//!
//! The walk refuses before decoding: a file without an end (truncated), with hundreds of scans (a bomb), without a scan
//! (no picture). It also selects the segments that the decoder needs, so that thumbnails, gain maps, XMP and trailing
//! data never reach it.

use crate::codec::byte_reader::{slice, truncated, u8_at, u16_be};
use crate::codec::error::{DecodeError, corrupt};
use crate::codec::exif;
use crate::codec::icc::MAX_PROFILE_BYTES;
use crate::codec::limits::{Limits, check_size};
use crate::codec::orientation::Orientation;
use crate::image::Size;
use memchr::memchr;
use std::ops::Range;

/// Progressive encoders write about ten scans; each costs a pass over the picture, however few bytes it has.
pub(super) const MAX_SCANS: usize = 100;
/// Quantisation and Huffman segments; no encoder writes a dozen per scan.
const MAX_TABLES: usize = 1200;
/// More than the decoder reads ahead, so that it reaches the end of the stream only when data are missing.
const PADDING: [u8; 16] = [0; 16];
/// SOS.
const SCAN: u8 = 0xda;
/// APP14.
const ADOBE: u8 = 0xee;
/// An Adobe segment without its last byte, the transform.
const ADOBE_SEGMENT: &[u8] = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00";
/// The Huffman tables of T.81, K.3: of a file without its own, as frames of webcams are.
const STANDARD_TABLES: &[u8] = include_bytes!("standard_tables.bin");

/// Positions of the parts of a JPEG file.
#[derive(Debug)]
pub(in crate::codec) struct Layout {
    /// Stored size.
    pub(super) size: Size,
    /// What the components are.
    pub(super) colors: Colors,
    /// Whether zune-jpeg decodes it: luma has one or two samples a side for each of chroma, and a sequential picture has one scan.
    pub(super) is_common: bool,
    exif: Option<Range<usize>>,
    /// Index, count and position of the profile's chunks.
    profile: Vec<(u8, u8, Range<usize>)>,
    /// The segments that the decoder needs, except SOI and EOI.
    essential: Vec<Range<usize>>,
    is_progressive: bool,
}

/// What the components of a picture are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colors {
    Grey,
    YCbCr,
    Rgb,
    /// Inverted: 255 is no ink.
    Cmyk,
    /// Inverted CMYK with its colours as luma and chroma.
    Ycck,
}

impl Colors {
    /// By the number of components, their identifiers, whether there is a JFIF marker, and the transform of Adobe's, as in libjpeg.
    fn of(identifiers: &[u8], is_jfif: bool, adobe: Option<u8>) -> Self {
        match (identifiers, adobe) {
            ([_], _) => Self::Grey,
            ([_, _, _], _) if is_jfif => Self::YCbCr,
            ([_, _, _], Some(0)) | (b"RGB", None) => Self::Rgb,
            ([_, _, _], _) => Self::YCbCr,
            (_, None | Some(0)) => Self::Cmyk,
            (_, Some(_)) => Self::Ycck,
        }
    }

    /// The transform in Adobe's marker that says so; grey needs none.
    const fn adobe_transform(self) -> Option<u8> {
        match self {
            Self::Grey => None,
            Self::Rgb | Self::Cmyk => Some(0),
            Self::YCbCr => Some(1),
            Self::Ycck => Some(2),
        }
    }
}

impl Layout {
    /// Walks the markers of `bytes`.
    pub(in crate::codec) fn read(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut walk = Walk::default();
        let mut at = 2; // SOI, by the signature
        loop {
            let marker;
            (marker, at) = next_marker(bytes, at)?;
            // `at` is now at the segment's length, which stand-alone markers do not have.
            match marker {
                0x01 | 0xd0..=0xd7 => continue,
                0xd8 => return Err(corrupt("a second start of image")),
                0xd9 => break,
                _ => {}
            }
            let length = usize::from(u16_be(bytes, at)?);
            let body = slice(bytes, at + 2, length.checked_sub(2).ok_or_else(|| corrupt("a segment of no length"))?)?;
            let mut end = at + length;
            if marker == SCAN {
                end = entropy_end(bytes, end)?;
            }
            walk.add_segment(marker, at - 2..end, at + 2, body, limits)?;
            at = end;
        }
        walk.finish()
    }

    /// Size of the upright picture.
    pub(in crate::codec) fn upright(&self, bytes: &[u8]) -> Size {
        self.orientation(bytes).upright(self.size)
    }

    /// The stored orientation.
    pub(super) fn orientation(&self, bytes: &[u8]) -> Orientation {
        self.exif.clone().map_or(Orientation::Upright, |place| exif::orientation(&bytes[place]))
    }

    /// The reassembled colour profile; `None` when a chunk is missing or it is too large.
    pub(super) fn profile(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let count = usize::from(self.profile.first()?.1);
        let len: usize = self.profile.iter().map(|(.., place)| place.len()).sum();
        if self.profile.len() != count || len > MAX_PROFILE_BYTES {
            return None;
        }
        let mut parts: Vec<_> = self.profile.iter().collect();
        parts.sort_by_key(|(number, ..)| *number);
        let complete = parts
            .iter()
            .zip(1..)
            .all(|((number, total, _), right)| usize::from(*number) == right && usize::from(*total) == count);
        complete.then(|| parts.iter().flat_map(|(.., place)| &bytes[place.clone()]).copied().collect())
    }

    /// The file with only the segments that the pixels need.
    ///
    /// A sequential picture for zune-jpeg gets no EOI: after that marker it fills missing data with zeros, while the end of the
    /// bytes is an error in strict mode.
    pub(super) fn reduced(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let essential: usize = self.essential.iter().map(Range::len).sum();
        out.reserve_exact(2 + ADOBE_SEGMENT.len() + 1 + STANDARD_TABLES.len() + essential + PADDING.len());
        out.extend(b"\xff\xd8");
        // In place of the file's own markers, of which decoders make different things.
        if let Some(transform) = self.colors.adobe_transform() {
            out.extend(ADOBE_SEGMENT);
            out.push(transform);
        }
        if !self.is_progressive {
            out.extend(STANDARD_TABLES);
        }
        self.essential.iter().for_each(|place| out.extend(&bytes[place.clone()]));
        if self.is_common && !self.is_progressive {
            out.extend(PADDING);
        } else {
            out.extend(b"\xff\xd9");
        }
        out
    }
}

/// A frame header.
struct Frame {
    size: Size,
    /// Of each component, its identifier and sampling factors: across in the upper four bits, down in the lower ones.
    components: Vec<[u8; 2]>,
    progressive: bool,
    /// Number of MCUs; a scan has at least one block of each of its components per MCU.
    units: usize,
}

/// State of the walk.
#[derive(Default)]
struct Walk {
    frame: Option<Frame>,
    /// Components that have a scan.
    scanned: Vec<u8>,
    scans: usize,
    tables: usize,
    is_jfif: bool,
    /// The transform in Adobe's marker.
    adobe: Option<u8>,
    exif: Option<Range<usize>>,
    profile: Vec<(u8, u8, Range<usize>)>,
    essential: Vec<Range<usize>>,
}

impl Walk {
    /// Adds a segment; `whole` is its range with marker and, for a scan, data. `body` starts at `start`.
    fn add_segment(
        &mut self,
        marker: u8,
        whole: Range<usize>,
        start: usize,
        body: &[u8],
        limits: &Limits,
    ) -> Result<(), DecodeError> {
        let needed = match marker {
            0xc0..=0xc2 => {
                if self.frame.is_some() {
                    return Err(corrupt("a second frame"));
                }
                self.frame = Some(Frame::read(body, marker == 0xc2, limits)?);
                true
            }
            0xc4 | 0xdb => {
                self.tables += 1;
                if self.tables > MAX_TABLES {
                    return Err(corrupt(format_args!("more than {MAX_TABLES} tables")));
                }
                true
            }
            0xdd => true,
            0xc3 | 0xc5..=0xcf => {
                return Err(DecodeError::Unsupported { found: Some("a lossless or arithmetic-coded JPEG") });
            }
            0xf7 => return Err(DecodeError::Unsupported { found: Some("JPEG-LS") }),
            SCAN => {
                self.add_scan(body, whole.end - start - body.len())?;
                true
            }
            0xe0 => {
                self.is_jfif |= body.starts_with(b"JFIF\0");
                false
            }
            0xe1 => {
                if body.starts_with(b"Exif\0\0") && self.exif.is_none() {
                    self.exif = Some(start..start + body.len());
                }
                false
            }
            0xe2 => {
                if let (true, Some(&[number, count])) =
                    (body.starts_with(b"ICC_PROFILE\0"), body.get(12..).and_then(<[u8]>::first_chunk::<2>))
                {
                    self.profile.push((number, count, start + 14..start + body.len()));
                }
                false
            }
            ADOBE => {
                if body.starts_with(b"Adobe") {
                    self.adobe = body.get(11).copied();
                }
                false
            }
            _ => false,
        };
        if needed {
            self.essential.push(whole);
        }
        Ok(())
    }

    /// Adds a scan of `data_bytes`.
    fn add_scan(&mut self, body: &[u8], data_bytes: usize) -> Result<(), DecodeError> {
        let frame = self.frame.as_ref().ok_or_else(|| corrupt("a scan before its frame"))?;
        self.scans += 1;
        if self.scans > MAX_SCANS {
            return Err(corrupt(format_args!("more than {MAX_SCANS} scans")));
        }
        let count = usize::from(u8_at(body, 0)?);
        let named = slice(body, 1, count * 2)?;
        self.scanned.extend(named.iter().step_by(2));
        // A scan with DC coefficients spends at least one bit on each block.
        if u8_at(body, 1 + count * 2)? == 0 && data_bytes * 8 < frame.units {
            return Err(truncated());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Layout, DecodeError> {
        let Frame { size, components, progressive, .. } = self.frame.ok_or_else(|| corrupt("no frame"))?;
        self.scanned.sort_unstable();
        self.scanned.dedup();
        if self.scanned.len() < components.len() {
            return Err(corrupt("a component without a scan"));
        }
        let identifiers: Vec<u8> = components.iter().map(|[identifier, _]| *identifier).collect();
        let colors = Colors::of(&identifiers, self.is_jfif, self.adobe);
        let factors = |range: Range<usize>| components[range].iter().map(|[_, factors]| *factors);
        let is_common = (progressive || self.scans == 1)
            && match colors {
                Colors::Grey => true,
                Colors::YCbCr | Colors::Rgb => {
                    matches!(components[0][1], 0x11 | 0x21 | 0x12 | 0x22) && factors(1..3).all(|chroma| chroma == 0x11)
                }
                Colors::Cmyk | Colors::Ycck => factors(0..4).all(|factors| factors == 0x11),
            };
        let Self { exif, profile, essential, .. } = self;
        Ok(Layout { size, colors, is_common, exif, profile, essential, is_progressive: progressive })
    }
}

impl Frame {
    fn read(body: &[u8], progressive: bool, limits: &Limits) -> Result<Self, DecodeError> {
        let precision = u8_at(body, 0)?;
        let size = Size::new(u16_be(body, 3)?.into(), u16_be(body, 1)?.into());
        let components = u8_at(body, 5)?;
        check_size(size, limits)?;
        if precision != 8 {
            return Err(DecodeError::Unsupported { found: Some("a JPEG of more than eight bits") });
        }
        if !matches!(components, 1 | 3 | 4) {
            return Err(corrupt(format_args!("{components} colour components")));
        }
        // An identifier, two sampling factors of four bits, a table.
        let each = slice(body, 6, usize::from(components) * 3)?.as_chunks::<3>().0;
        let components: Vec<[u8; 2]> = each.iter().map(|&[identifier, factors, _]| [identifier, factors]).collect();
        let most = |factor: fn(u8) -> u8| components.iter().map(|[_, factors]| factor(*factors)).max().unwrap_or(1);
        let [across, down] =
            [most(|factors| factors >> 4), most(|factors| factors & 15)].map(|most| u32::from(most.max(1)));
        let units = Size::new(size.width.div_ceil(8 * across), size.height.div_ceil(8 * down)).area();
        Ok(Self { size, components, progressive, units })
    }
}

/// The next marker from `at` and the position after it. Bytes before it and fill bytes are skipped, as in every decoder.
fn next_marker(bytes: &[u8], mut at: usize) -> Result<(u8, usize), DecodeError> {
    loop {
        at += memchr(0xff, bytes.get(at..).ok_or_else(truncated)?).ok_or_else(truncated)? + 1;
        match u8_at(bytes, at)? {
            0x00 => at += 1,
            0xff => {}
            marker => return Ok((marker, at + 1)),
        }
    }
}

/// The end of the entropy-coded data from `at`: the first marker other than a restart.
fn entropy_end(bytes: &[u8], mut at: usize) -> Result<usize, DecodeError> {
    loop {
        let (marker, behind) = next_marker(bytes, at)?;
        if !matches!(marker, 0xd0..=0xd7) {
            return Ok(behind - 2);
        }
        at = behind;
    }
}
