//! The picture size inside an HEVC stream: sequence parameter sets (ITU-T H.265, 7.3.2.2).

use crate::codec::bytes::{slice, truncated, u8_at, u16_be};
use crate::codec::{DecodeError, corrupt};
use crate::image::Size;

/// NAL unit type of a sequence parameter set.
const SPS: u8 = 33;
/// The coded size is the shown one rounded up to coding blocks (at most 64), before cropping.
const SLACK: u32 = 64;

/// Checks every sequence parameter set of an `hvcC` body and of `stream` (units behind their lengths): none may
/// describe a picture larger than `size`, and the units have to end where the stream does.
pub(super) fn check(configuration: &[u8], stream: &[u8], size: Size) -> Result<(), DecodeError> {
    let length_bytes = usize::from(u8_at(configuration, 21)? & 3) + 1;
    let arrays = u8_at(configuration, 22)?;
    let mut at = 23;
    for _ in 0..arrays {
        let units = u16_be(configuration, at + 1)?;
        at += 3;
        for _ in 0..units {
            let len = usize::from(u16_be(configuration, at)?);
            check_unit(slice(configuration, at + 2, len)?, size)?;
            at += 2 + len;
        }
    }
    let mut at = 0;
    while at < stream.len() {
        let len = slice(stream, at, length_bytes)?.iter().fold(0, |len, &byte| len << 8 | usize::from(byte));
        check_unit(slice(stream, at + length_bytes, len)?, size)?;
        at += length_bytes + len;
    }
    Ok(())
}

fn check_unit(unit: &[u8], size: Size) -> Result<(), DecodeError> {
    let Some(first) = unit.first() else { return Ok(()) };
    if first >> 1 & 63 != SPS {
        return Ok(());
    }
    let coded = coded_size(unit).ok_or_else(truncated)?;
    if coded.width > size.width.saturating_add(SLACK) || coded.height > size.height.saturating_add(SLACK) {
        return Err(corrupt(format_args!("a stream of {coded} where {size} was promised")));
    }
    Ok(())
}

fn coded_size(unit: &[u8]) -> Option<Size> {
    let mut bits = Bits::new(unit.get(2..)?);
    bits.skip(4)?;
    let sub_layers = bits.take(3)?;
    bits.skip(1)?;
    bits.skip(96)?; // general profile, tier and level
    let present: Vec<(bool, bool)> =
        (0..sub_layers).map(|_| Some((bits.take(1)? != 0, bits.take(1)? != 0))).collect::<Option<_>>()?;
    if sub_layers > 0 {
        bits.skip(2 * (8 - sub_layers))?;
    }
    for (profile, level) in present {
        bits.skip(if profile { 88 } else { 0 } + if level { 8 } else { 0 })?;
    }
    bits.exp_golomb()?; // its number
    if bits.exp_golomb()? == 3 {
        bits.skip(1)?; // separate colour planes
    }
    Some(Size::new(bits.exp_golomb()?, bits.exp_golomb()?))
}

/// The bits of a unit's payload, without the bytes put in to keep start codes out (00 00 **03**).
struct Bits {
    payload: Vec<u8>,
    at: usize,
}

/// The size stands within the first hundred bytes of a set; profiles of seven sub-layers included.
const LOOKED_AT: usize = 256;

impl Bits {
    fn new(escaped: &[u8]) -> Self {
        let mut zeros = 0;
        let mut payload = Vec::new();
        for &byte in escaped.iter().take(LOOKED_AT) {
            if zeros >= 2 && byte == 3 {
                zeros = 0;
                continue;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            payload.push(byte);
        }
        Self { payload, at: 0 }
    }

    fn skip(&mut self, count: u32) -> Option<()> {
        self.at += count as usize;
        (self.at <= self.payload.len() * 8).then_some(())
    }

    /// Up to 32 bits.
    fn take(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0, |value: u32, _| {
            let bit = self.payload.get(self.at / 8)? >> (7 - self.at % 8) & 1;
            self.at += 1;
            Some(value << 1 | u32::from(bit))
        })
    }

    fn exp_golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.take(1)? == 0 {
            zeros += 1;
        }
        if zeros > 31 { None } else { Some((1 << zeros) - 1 + self.take(zeros)?) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set of one layer that says `width`×`height`.
    fn set(width: u32, height: u32) -> Vec<u8> {
        let mut bits = vec![0_u8; 8 + 96];
        let mut golomb = |value: u32| {
            let code = value + 1;
            let len = 32 - code.leading_zeros();
            bits.extend((1..len).map(|_| 0));
            bits.extend((0..len).rev().map(|shift| (code >> shift & 1) as u8));
        };
        [0, 1, width, height].into_iter().for_each(&mut golomb);
        let mut unit = vec![SPS << 1, 1];
        let mut zeros = 0;
        for byte in bits.chunks(8) {
            let byte = byte.iter().enumerate().fold(0, |sum, (at, bit)| sum | bit << (7 - at));
            if zeros >= 2 && byte <= 3 {
                unit.push(3);
                zeros = 0;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            unit.push(byte);
        }
        unit
    }

    #[test]
    fn the_size_is_read_behind_escaped_zeros() {
        for (width, height) in [(1, 1), (640, 480), (4096, 2160), (65_535, 1)] {
            assert_eq!(coded_size(&set(width, height)), Some(Size::new(width, height)));
        }
    }

    #[test]
    fn a_stream_larger_than_its_container_says_is_refused() {
        let mut configuration = vec![0; 23];
        configuration[21] = 3; // lengths of four bytes
        let unit = set(16_384, 16_384);
        let stream = [&u32::try_from(unit.len()).expect("short").to_be_bytes()[..], &unit].concat();
        assert!(check(&configuration, &stream, Size::new(64, 64)).is_err());
        assert!(check(&configuration, &stream, Size::new(16_384, 16_384)).is_ok());
        assert!(check(&configuration, &stream[..stream.len() - 1], Size::new(16_384, 16_384)).is_err());
        configuration[22] = 1;
        configuration.extend([SPS, 0, 1, 0, unit.len() as u8]);
        configuration.extend(&unit);
        assert!(check(&configuration, &[], Size::new(64, 64)).is_err());
    }
}
