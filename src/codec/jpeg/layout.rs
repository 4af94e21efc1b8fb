//! Walks the markers of a JPEG file (ITU-T T.81, annex B) from SOI to EOI; finds size, EXIF, ICC profile and scans.
//!
//! The walk refuses files without a scan (no picture), with hundreds of scans (a bomb), and files that end within a
//! segment or before their last scan (truncated). It also selects the segments that the decoder needs: thumbnails, gain
//! maps, XMP and trailing data never reach the decoder.

use super::restarts::{Scan, Tables};
use crate::codec::byte_reader::{slice, truncated, u8_at, u16_be};
use crate::codec::error::{DecodeError, corrupt};
use crate::codec::exif;
use crate::codec::header::Flaw;
use crate::codec::icc::MAX_PROFILE_BYTES;
use crate::codec::limits::{Limits, check_size};
use crate::codec::orientation::Orientation;
use crate::image::Size;
use memchr::{memchr, memchr_iter};
use std::ops::Range;

/// Maximum of scans: progressive encoders write about ten. Each costs a pass over the picture, however few its bytes.
pub(super) const MAX_SCANS: usize = 100;
/// Maximum of quantisation and Huffman segments; no encoder writes a dozen per scan.
const MAX_TABLES: usize = 1200;
/// Bytes of padding after a scan's data: more than the decoder reads ahead, so that it reaches the end of the stream
/// only when data are missing.
const PADDING: usize = 16;
/// Values of the padding bytes. Pixels that depend on the value have lost their data.
pub(super) const PADDINGS: [u8; 2] = [0x00, 0x55];
/// SOS.
const SCAN: u8 = 0xda;
/// RST0.
const RESTART: u8 = 0xd0;
/// APP14.
const ADOBE: u8 = 0xee;
/// An Adobe segment without its last byte, the transform.
const ADOBE_SEGMENT: &[u8] = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00";
/// The Huffman tables of T.81, K.3, for files without tables, such as frames of webcams.
const STANDARD_TABLES: &[u8] = include_bytes!("standard_tables.bin");

#[derive(Debug)]
pub(in crate::codec) struct Layout {
    pub(super) size: Size,
    /// Colour model of the components.
    pub(super) colors: Colors,
    /// Whether zune-jpeg decodes it: one or two luma samples a side per chroma sample, and one scan if sequential.
    pub(super) is_common: bool,
    exif: Option<Range<usize>>,
    /// Index, count and position of the profile's chunks.
    profile: Vec<(u8, u8, Range<usize>)>,
    /// The segments that the decoder needs, except SOI and EOI.
    essential: Vec<Range<usize>>,
    /// Positions of missing restart markers, each with the marker's number.
    lost: Vec<(usize, u8)>,
    is_ended: bool,
    is_progressive: bool,
}

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
    /// Selects the model as libjpeg does: by the number of components, their identifiers, the JFIF marker and the
    /// transform in Adobe's marker.
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

    /// The transform in Adobe's marker for this model; `None` for grey, which needs no marker.
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
    pub(in crate::codec) fn read(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut walk = Walk::default();
        let mut at = 2; // SOI, by the signature
        loop {
            let marker;
            (marker, at) = next_marker(bytes, at)?;
            // `at` is now at the segment's length field, which stand-alone markers lack.
            match marker {
                0x01 | 0xd0..=0xd7 => continue,
                0xd8 => return Err(corrupt("a second start of image")),
                0xd9 => {
                    walk.is_ended = true;
                    break;
                }
                _ => {}
            }
            let length = usize::from(u16_be(bytes, at)?);
            let body = slice(bytes, at + 2, length.checked_sub(2).ok_or_else(|| corrupt("a segment of no length"))?)?;
            let mut end = at + length;
            if marker == SCAN {
                end = entropy_end(bytes, end);
            }
            let data = &bytes[at + length..end];
            // The file has no EOI; fill bytes may follow.
            let is_last = marker == SCAN && bytes[end..].iter().all(|byte| *byte == 0xff);
            walk.add_segment(marker, at - 2..end, at + 2, (body, data, is_last), limits)?;
            if is_last {
                break;
            }
            at = end;
        }
        walk.finish()
    }

    pub(in crate::codec) fn upright(&self, bytes: &[u8]) -> Size {
        self.orientation(bytes).upright(self.size)
    }

    pub(in crate::codec) const fn flaw(&self) -> Option<Flaw> {
        match (self.is_ended, self.lost.is_empty()) {
            (false, _) => Some(Flaw::NoEndMarker),
            (true, false) => Some(Flaw::LostRestartMarkers),
            (true, true) => None,
        }
    }

    pub(super) fn orientation(&self, bytes: &[u8]) -> Orientation {
        self.exif.clone().map_or(Orientation::Upright, |place| exif::orientation(&bytes[place]))
    }

    /// The reassembled colour profile; `None` when a chunk is missing or the profile is too large.
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

    /// Whether pixels may be missing, so that decoding has to detect it: a progressive picture without an EOI.
    pub(super) const fn may_be_cut(&self) -> bool {
        self.is_progressive && !self.is_ended
    }

    /// The file reduced to the segments that pixels need, with lost restart markers, then bytes of `padding`.
    ///
    /// A sequential picture for zune-jpeg gets no EOI: after an EOI it fills missing data with zeros, while the end of
    /// the bytes is an error in strict mode.
    pub(super) fn reduced(&self, bytes: &[u8], padding: u8) -> Vec<u8> {
        let mut out = Vec::new();
        let essential: usize = self.essential.iter().map(Range::len).sum();
        out.reserve_exact(
            2 + ADOBE_SEGMENT.len() + 1 + STANDARD_TABLES.len() + essential + 2 * self.lost.len() + PADDING + 2,
        );
        out.extend(b"\xff\xd8");
        // Replaces the file's own colour markers, which decoders interpret differently.
        if let Some(transform) = self.colors.adobe_transform() {
            out.extend(ADOBE_SEGMENT);
            out.push(transform);
        }
        if !self.is_progressive {
            out.extend(STANDARD_TABLES);
        }
        for place in &self.essential {
            let mut start = place.start;
            for &(at, number) in self.lost.iter().filter(|(at, _)| place.contains(at)) {
                out.extend(&bytes[start..at]);
                out.extend([0xff, RESTART + number]);
                start = at;
            }
            out.extend(&bytes[start..place.end]);
        }
        let is_strict = self.is_common && !self.is_progressive;
        if is_strict || self.may_be_cut() {
            out.extend([padding; PADDING]);
        }
        if !is_strict {
            out.extend(b"\xff\xd9");
        }
        out
    }
}

struct Frame {
    size: Size,
    components: Vec<Component>,
    progressive: bool,
    /// Number of MCUs; in each of them a scan has at least one block of each of its components.
    units: usize,
    /// The largest sampling factors of any component: across, down.
    most: [u32; 2],
}

struct Component {
    identifier: u8,
    /// Sampling factors: across in the upper four bits, down in the lower ones.
    factors: u8,
    /// Set of the coefficients that are known to their lowest bit.
    complete: u64,
}

impl Component {
    fn sampling(&self) -> [u32; 2] {
        [self.factors >> 4, self.factors & 15].map(|factor| u32::from(factor.max(1)))
    }

    /// Records a progressive scan of the coefficients `first` to `last`, without their lowest `missing` bits.
    fn add_bits(&mut self, first: u8, last: u8, missing: u8) {
        if missing == 0 {
            (first..=last.min(63)).for_each(|coefficient| self.complete |= 1 << coefficient);
        }
    }

    fn is_complete(&self) -> bool {
        self.complete == u64::MAX
    }
}

#[derive(Default)]
struct Walk<'a> {
    frame: Option<Frame>,
    /// Components that have a scan.
    scanned: Vec<u8>,
    scans: usize,
    tables: usize,
    /// The bodies of the DHT segments.
    huffman: Vec<&'a [u8]>,
    /// MCUs between two restart markers; 0 without.
    interval: usize,
    lost: Vec<(usize, u8)>,
    is_ended: bool,
    is_jfif: bool,
    adobe: Option<u8>,
    exif: Option<Range<usize>>,
    profile: Vec<(u8, u8, Range<usize>)>,
    essential: Vec<Range<usize>>,
}

impl<'a> Walk<'a> {
    /// Adds a segment with body `body` at `start`. `whole` is its range with the marker and, for a scan, with `data`;
    /// `is_last` if the file ends with this scan.
    fn add_segment(
        &mut self,
        marker: u8,
        whole: Range<usize>,
        start: usize,
        (body, data, is_last): (&'a [u8], &[u8], bool),
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
                if marker == 0xc4 {
                    self.huffman.push(body);
                }
                true
            }
            0xdd => {
                self.interval = u16_be(body, 0)?.into();
                true
            }
            0xc3 | 0xc5..=0xcf => {
                return Err(DecodeError::Unsupported { found: Some("a lossless or arithmetic-coded JPEG") });
            }
            0xf7 => return Err(DecodeError::Unsupported { found: Some("JPEG-LS") }),
            SCAN => {
                self.add_scan(body, data, whole.end - data.len(), is_last)?;
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

    /// Adds a scan whose entropy-coded `data` begin at `start`; `is_last` if they end the file.
    fn add_scan(&mut self, body: &[u8], data: &[u8], start: usize, is_last: bool) -> Result<(), DecodeError> {
        let frame = self.frame.as_mut().ok_or_else(|| corrupt("a scan before its frame"))?;
        self.scans += 1;
        if self.scans > MAX_SCANS {
            return Err(corrupt(format_args!("more than {MAX_SCANS} scans")));
        }
        let count = usize::from(u8_at(body, 0)?);
        let named = slice(body, 1, count * 2)?;
        self.scanned.extend(named.iter().step_by(2));
        // A scan with DC coefficients has at least one bit for each block.
        let [first, last, accuracy] = *slice(body, 1 + count * 2, 3)?.first_chunk().ok_or_else(truncated)?;
        if first == 0 && data.len() * 8 < frame.units {
            return Err(truncated());
        }
        let (units, blocks) = frame.scan(named.as_chunks::<2>().0);
        let has_lost = self.interval > 0 && restarts(data) + 1 < units.div_ceil(self.interval);
        if frame.progressive {
            if has_lost {
                // The marker's position depends on all earlier scans; decoders would continue in the wrong interval.
                let lost = || corrupt("a progressive scan has lost restart markers");
                return Err(if is_last { truncated() } else { lost() });
            }
            let scanned =
                frame.components.iter_mut().filter(|it| named.iter().step_by(2).any(|name| *name == it.identifier));
            scanned.for_each(|component| component.add_bits(first, last, accuracy & 15));
        } else if has_lost || is_last {
            let scan = Scan { data, units, interval: self.interval, blocks };
            let tables = Tables::of(STANDARD_TABLES, &self.huffman);
            match scan.lost_markers(&tables) {
                Some(lost) => self.lost.extend(lost.into_iter().map(|(at, number)| (start + at, number))),
                None if is_last => return Err(truncated()),
                None => {}
            }
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
        if !self.is_ended && progressive && !components.iter().all(Component::is_complete) {
            return Err(truncated());
        }
        let identifiers: Vec<u8> = components.iter().map(|component| component.identifier).collect();
        let colors = Colors::of(&identifiers, self.is_jfif, self.adobe);
        let factors = |range: Range<usize>| components[range].iter().map(|component| component.factors);
        let is_common = (progressive || self.scans == 1)
            && match colors {
                Colors::Grey => true,
                Colors::YCbCr | Colors::Rgb => {
                    matches!(components[0].factors, 0x11 | 0x21 | 0x12 | 0x22)
                        && factors(1..3).all(|chroma| chroma == 0x11)
                }
                Colors::Cmyk | Colors::Ycck => factors(0..4).all(|factors| factors == 0x11),
            };
        let Self { exif, profile, essential, lost, is_ended, .. } = self;
        let is_progressive = progressive;
        Ok(Layout { size, colors, is_common, exif, profile, essential, lost, is_ended, is_progressive })
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
        let components: Vec<Component> =
            each.iter().map(|&[identifier, factors, _]| Component { identifier, factors, complete: 0 }).collect();
        let most = [0, 1].map(|side| components.iter().map(|it| it.sampling()[side]).max().unwrap_or(1));
        let units = Size::new(size.width.div_ceil(8 * most[0]), size.height.div_ceil(8 * most[1])).area();
        Ok(Self { size, components, progressive, units, most })
    }

    /// Number of MCUs of a scan, and the table numbers of each block of an MCU. `named`: pairs of component and tables.
    fn scan(&self, named: &[[u8; 2]]) -> (usize, Vec<u8>) {
        let of = |name: u8| self.components.iter().find(|component| component.identifier == name);
        if let [[name, tables]] = *named {
            let [across, down] = of(name).map_or(self.most, Component::sampling);
            let blocks = |side: u32, factor: u32, most: u32| (side * factor).div_ceil(most).div_ceil(8);
            let (Size { width, height }, most) = (self.size, self.most);
            let units = Size::new(blocks(width, across, most[0]), blocks(height, down, most[1])).area();
            return (units, vec![tables]);
        }
        let blocks = |&[name, tables]: &[u8; 2]| {
            let blocks = of(name).map_or(0, |component| component.sampling().iter().product::<u32>());
            std::iter::repeat_n(tables, blocks as usize)
        };
        (self.units, named.iter().flat_map(blocks).collect())
    }
}

/// The next marker from `at` and the position after it. Other bytes and fill bytes are skipped, as in every decoder.
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

/// Number of restart markers in entropy-coded data.
fn restarts(data: &[u8]) -> usize {
    memchr_iter(0xff, data).filter(|at| matches!(data.get(at + 1), Some(0xd0..=0xd7))).count()
}

/// End of the entropy-coded data from `at`: the first marker other than a restart, or the end of the file.
fn entropy_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let Ok((marker, behind)) = next_marker(bytes, at) else {
            let fill = bytes[at..].iter().rev().take_while(|byte| **byte == 0xff).count();
            return bytes.len() - fill;
        };
        if !matches!(marker, 0xd0..=0xd7) {
            return behind - 2;
        }
        at = behind;
    }
}
