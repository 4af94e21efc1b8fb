//! Parses the boxes of the ISO base media file format (ISO/IEC 14496-12, 4.2) from untrusted bytes.

use crate::codec::byte_reader::{slice, truncated, u16_be, u32_be};
use crate::codec::error::{DecodeError, corrupt};
use std::ops::Range;

pub(super) struct BmffBox {
    pub(super) name: [u8; 4],
    pub(super) body: Range<usize>,
}

/// The boxes inside `range`; an incomplete one is an error.
pub(super) fn children(bytes: &[u8], range: Range<usize>) -> impl Iterator<Item = Result<BmffBox, DecodeError>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let part = Header::read(bytes, at, range.end).and_then(|header| header.within(range.end).ok_or_else(truncated));
        at = part.as_ref().map_or(range.end, |part| part.body.end);
        Some(part)
    })
}

/// The top-level boxes of a file, as libheif lists them: a box that extends beyond the file ends the list, unless
/// libheif reads its type at this level.
pub(super) fn top_level(bytes: &[u8]) -> impl Iterator<Item = Result<BmffBox, DecodeError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if bytes.len() - at < SHORT_HEADER {
            return None;
        }
        let header = Header::read(bytes, at, bytes.len());
        let whole = header.map(|header| (header.name, header.within(bytes.len())));
        at = bytes.len();
        match whole {
            Ok((_, Some(part))) => {
                at = part.body.end;
                Some(Ok(part))
            }
            Ok((name, None)) => matches!(&name, b"meta" | b"mini" | b"moov").then(|| Err(truncated())),
            Err(error) => Some(Err(error)),
        }
    })
}

/// Bytes of a box header without a 64-bit size.
const SHORT_HEADER: usize = 8;

struct Header {
    name: [u8; 4],
    body: usize,
    /// End of the box; `None` on overflow.
    end: Option<usize>,
}

impl Header {
    fn read(bytes: &[u8], at: usize, end: usize) -> Result<Self, DecodeError> {
        let name = slice(bytes, at + 4, 4)?.first_chunk::<4>().copied().ok_or_else(truncated)?;
        let (header, size) = match u32_be(bytes, at)? {
            // To the end of its container.
            0 => (SHORT_HEADER, end - at),
            1 => {
                let (high, low) = (u32_be(bytes, at + 8)?, u32_be(bytes, at + 12)?);
                (16, usize::try_from(u64::from(high) << 32 | u64::from(low)).map_err(|_| truncated())?)
            }
            size => (SHORT_HEADER, size as usize),
        };
        if size < header {
            return Err(corrupt("a box shorter than its header"));
        }
        Ok(Self { name, body: at + header, end: at.checked_add(size) })
    }

    /// The box, if it ends at or before `end`.
    fn within(self, end: usize) -> Option<BmffBox> {
        let stop = self.end.filter(|&stop| stop <= end)?;
        Some(BmffBox { name: self.name, body: self.body..stop })
    }
}

/// A 16-bit number, or 32-bit when `long`, and the position after it.
pub(super) fn u16_or_u32(bytes: &[u8], at: usize, long: bool) -> Result<(u32, usize), DecodeError> {
    if long { Ok((u32_be(bytes, at)?, at + 4)) } else { Ok((u16_be(bytes, at)?.into(), at + 2)) }
}

/// A number of 0, 4 or 8 bytes at `at`, which is advanced.
pub(super) fn sized_number(bytes: &[u8], at: &mut usize, width: usize) -> Result<usize, DecodeError> {
    let digits = slice(bytes, *at, width)?;
    *at += width;
    let value = digits.iter().fold(0_u64, |value, &digit| value << 8 | u64::from(digit));
    usize::try_from(value).map_err(|_| truncated())
}
