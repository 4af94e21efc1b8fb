//! Reads the orientation tag of an EXIF block (TIFF 6.0: a header, then a directory of twelve-byte entries).
//!
//! A malformed block means "upright". The reader borrows the block and allocates nothing; `kamadak-exif` copies the
//! block, builds every tag and takes ten times as long for equal values.

use super::orientation::Orientation;

const ORIENTATION: u16 = 0x0112;
const SHORT: u16 = 3;
const LONG: u16 = 4;

/// The orientation in an EXIF block.
///
/// `block` starts at the TIFF header; the prefix `Exif\0\0` of JPEG, and of some WebP files, is skipped.
pub(super) fn orientation(block: &[u8]) -> Orientation {
    let tiff = block.strip_prefix(b"Exif\0\0").unwrap_or(block);
    tag(tiff).and_then(Orientation::from_exif).unwrap_or_default()
}

fn tag(tiff: &[u8]) -> Option<u16> {
    let little = match tiff.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let u16_at = |at: usize| {
        let pair = *tiff.get(at..)?.first_chunk::<2>()?;
        Some(if little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) })
    };
    let quad = *tiff.get(4..)?.first_chunk::<4>()?;
    let offset = if little { u32::from_le_bytes(quad) } else { u32::from_be_bytes(quad) };
    let directory = usize::try_from(offset).ok()?;
    let entries = usize::from(u16_at(directory)?);
    (0..entries)
        .map_while(|index| directory.checked_add(2 + index * 12).filter(|at| at + 12 <= tiff.len()))
        .find(|&at| u16_at(at) == Some(ORIENTATION))
        .and_then(|at| match (u16_at(at + 2)?, little) {
            (SHORT, _) | (LONG, true) => u16_at(at + 8),
            // The standard has two bytes; some writers use four.
            (LONG, false) => u16_at(at + 10),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(little: bool, value: u16) -> Vec<u8> {
        let short = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
        let long = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
        let mut out = if little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
        out.extend(long(8));
        out.extend(short(2));
        out.extend(short(0x0100)); // ImageWidth, to be skipped
        out.extend(short(SHORT));
        out.extend([long(1), long(0)].concat());
        out.extend(short(ORIENTATION));
        out.extend(short(SHORT));
        out.extend(long(1));
        out.extend([short(value), short(0)].concat());
        out
    }

    #[test]
    fn both_byte_orders_and_widths_are_read_with_and_without_the_jpeg_prefix() {
        for little in [true, false] {
            assert_eq!(orientation(&block(little, 6)), Orientation::Rotate90);
            let prefixed = [b"Exif\0\0".to_vec(), block(little, 8)].concat();
            assert_eq!(orientation(&prefixed), Orientation::Rotate270);
            let mut long = block(little, 0);
            let (kind, value) = (long.len() - 10, long.len() - 4);
            long[kind..kind + 2].copy_from_slice(&if little { LONG.to_le_bytes() } else { LONG.to_be_bytes() });
            long[value..].copy_from_slice(&if little { 6_u32.to_le_bytes() } else { 6_u32.to_be_bytes() });
            assert_eq!(orientation(&long), Orientation::Rotate90);
        }
    }

    #[test]
    fn a_malformed_block_means_upright() {
        let whole = block(true, 6);
        for len in 0..whole.len() - 2 {
            assert_eq!(orientation(&whole[..len]), Orientation::Upright, "cut after {len} bytes");
        }
        assert_eq!(orientation(&block(false, 9)), Orientation::Upright);
        assert_eq!(orientation(&[b"II*\0".as_slice(), &u32::MAX.to_le_bytes()].concat()), Orientation::Upright);
    }
}
