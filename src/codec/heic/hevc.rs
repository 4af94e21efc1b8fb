//! Checks an HEVC stream before decoding: the sizes in its sequence parameter sets (ITU-T H.265, 7.3.2.2), its number
//! of pictures and of slices (7.3.1.2, 7.3.6.1).

use crate::codec::byte_reader::{slice, truncated, u8_at, u16_be};
use crate::codec::error::{DecodeError, corrupt};
use crate::image::Size;

/// NAL unit types of intra random access pictures (IRAP); all slices are below 32.
const IRAP: std::ops::RangeInclusive<u8> = 16..=21;
const FIRST_OTHER: u8 = 32;
/// Video, sequence and picture parameter sets.
const PARAMETER_SETS: std::ops::RangeInclusive<u8> = 32..=34;
/// NAL unit type of a sequence parameter set.
const SPS: u8 = 33;
/// Pixels by which the coded size may exceed the shown one: it is rounded up to coding blocks of at most 64.
const MAX_PADDING: u32 = 64;
/// Maximum of NAL units per item. One slice per row of the smallest coding blocks of 4096 pixels would be 512.
const MAX_UNITS: usize = 2048;
/// Maximum of parameter sets: libde265 builds tables of the picture's size for every picture parameter set. Encoders
/// write one of each type.
const MAX_PARAMETER_SETS: usize = 64;

/// Checks every unit of an `hvcC` body and of the length-prefixed `stream`: no sequence parameter set may describe a
/// picture larger than `size`, there must be exactly one picture, intra-coded, and the units must end with the stream.
/// Returns the number of slices.
pub(super) fn check(configuration: &[u8], stream: &[u8], size: Size) -> Result<u64, DecodeError> {
    // libheif reads lengths of four bytes, whatever the configuration says.
    if u8_at(configuration, 21)? & 3 != 3 {
        return Err(corrupt("HEVC units behind lengths of other than four bytes"));
    }
    let mut units = Units::default();
    let arrays = u8_at(configuration, 22)?;
    let mut at = 23;
    for _ in 0..arrays {
        let count = u16_be(configuration, at + 1)?;
        at += 3;
        for _ in 0..count {
            let len = usize::from(u16_be(configuration, at)?);
            units.add(slice(configuration, at + 2, len)?, size)?;
            at += 2 + len;
        }
    }
    let mut at = 0;
    while at < stream.len() {
        let len = slice(stream, at, 4)?.iter().fold(0, |len, &byte| len << 8 | usize::from(byte));
        units.add(slice(stream, at + 4, len)?, size)?;
        at += 4 + len;
    }
    if units.pictures == 1 { Ok(units.slices) } else { Err(corrupt("an item without a picture")) }
}

#[derive(Default)]
struct Units {
    count: usize,
    parameter_sets: usize,
    pictures: usize,
    slices: u64,
}

impl Units {
    fn add(&mut self, unit: &[u8], size: Size) -> Result<(), DecodeError> {
        self.count += 1;
        if self.count > MAX_UNITS {
            return Err(corrupt(format_args!("more than {MAX_UNITS} units in one picture")));
        }
        let [first, second, rest @ ..] = unit else { return Ok(()) };
        let (kind, layer) = (first >> 1 & 63, (first & 1) << 5 | second >> 3);
        // libde265 skips units of enhancement layers (whose parameter sets have another syntax).
        if layer > 0 {
            return Ok(());
        }
        if kind < FIRST_OTHER {
            // Other pictures reference further pictures, which the decoder would have to generate.
            if !IRAP.contains(&kind) {
                return Err(corrupt("a picture that is not coded by itself"));
            }
            self.slices += 1;
            // first_slice_segment_in_pic_flag
            self.pictures += usize::from(rest.first().is_some_and(|byte| byte >> 7 == 1));
            if self.pictures > 1 {
                return Err(corrupt("several pictures in one item"));
            }
        }
        if PARAMETER_SETS.contains(&kind) {
            self.parameter_sets += 1;
            if self.parameter_sets > MAX_PARAMETER_SETS {
                return Err(corrupt(format_args!("more than {MAX_PARAMETER_SETS} parameter sets in one picture")));
            }
        }
        if kind == SPS {
            let coded = coded_size(unit).ok_or_else(truncated)?;
            if coded.width > size.width.saturating_add(MAX_PADDING)
                || coded.height > size.height.saturating_add(MAX_PADDING)
            {
                return Err(corrupt(format_args!("a stream of {coded} where {size} was promised")));
            }
        }
        Ok(())
    }
}

/// The picture size in a sequence parameter set; `None` for other units.
#[cfg(any(test, fuzzing))]
pub(super) fn parameter_set_size(unit: &[u8]) -> Option<Size> {
    let [first, second, ..] = unit else { return None };
    let (kind, layer) = (first >> 1 & 63, (first & 1) << 5 | second >> 3);
    if kind == SPS && layer == 0 { coded_size(unit) } else { None }
}

fn coded_size(unit: &[u8]) -> Option<Size> {
    let mut bits = BitReader::new(unit.get(2..)?);
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
    bits.exp_golomb()?; // its id
    if bits.exp_golomb()? == 3 {
        bits.skip(1)?; // separate colour planes
    }
    Some(Size::new(bits.exp_golomb()?, bits.exp_golomb()?))
}

/// A bit reader over a unit's payload without its emulation prevention bytes (00 00 **03**).
struct BitReader {
    payload: Vec<u8>,
    at: usize,
}

/// Bytes read of a parameter set: the size is within the first hundred, including profiles of seven sub-layers.
const LOOKED_AT: usize = 256;

impl BitReader {
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

    /// Reads `count` bits, at most 32.
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

    /// A sequence parameter set of one layer with size `width`×`height`.
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
    fn the_size_is_read_after_emulation_prevention_bytes() {
        for (width, height) in [(1, 1), (640, 480), (4096, 2160), (65_535, 1)] {
            assert_eq!(coded_size(&set(width, height)), Some(Size::new(width, height)));
        }
    }

    /// A configuration of four-byte lengths with these units.
    fn configuration(units: &[&[u8]]) -> Vec<u8> {
        let mut configuration = vec![0; 23];
        configuration[21] = 3;
        for unit in units {
            configuration[22] += 1;
            configuration.extend([SPS, 0, 1, 0, unit.len() as u8]);
            configuration.extend(*unit);
        }
        configuration
    }

    fn stream(units: &[&[u8]]) -> Vec<u8> {
        let lengths = units.iter().map(|unit| u32::try_from(unit.len()).expect("short").to_be_bytes());
        lengths.zip(units).flat_map(|(len, unit)| [&len[..], unit].concat()).collect()
    }

    const SMALL: Size = Size::new(64, 64);
    const LARGE: Size = Size::new(16_384, 16_384);
    /// Slices of an IDR picture (type 19): the first, and another.
    const FIRST: &[u8] = &[19 << 1, 1, 0x80];
    const NEXT: &[u8] = &[19 << 1, 1, 0x40];

    #[test]
    fn a_stream_larger_than_its_container_declares_is_refused() {
        let unit = set(16_384, 16_384);
        let (none, large) = (configuration(&[]), stream(&[&unit, FIRST]));
        assert!(check(&none, &large, SMALL).is_err());
        assert_eq!(check(&none, &large, LARGE).ok(), Some(1));
        assert!(check(&none, &large[..large.len() - 1], LARGE).is_err());
        assert!(check(&configuration(&[&unit]), &stream(&[FIRST]), SMALL).is_err());
        assert!(check(&configuration(&[&unit]), &stream(&[FIRST]), LARGE).is_ok());
    }

    #[test]
    fn length_fields_that_libheif_reads_differently_are_refused() {
        let mut short = configuration(&[]);
        short[21] = 0;
        assert!(check(&short, &stream(&[FIRST]), SMALL).is_err());
    }

    #[test]
    fn an_item_is_exactly_one_intra_coded_picture() {
        let none = configuration(&[]);
        assert_eq!(check(&none, &stream(&[FIRST, NEXT, NEXT]), SMALL).ok(), Some(3));
        assert!(check(&none, &stream(&[FIRST, FIRST]), SMALL).is_err());
        assert!(check(&none, &stream(&[NEXT]), SMALL).is_err());
        assert!(check(&none, &stream(&[]), SMALL).is_err());
        assert!(check(&configuration(&[FIRST]), &stream(&[FIRST]), SMALL).is_err());
        let predicted = [1 << 1, 1, 0x40];
        assert!(check(&none, &stream(&[FIRST, &predicted]), SMALL).is_err());
        let in_another_layer = [1 << 1, 1 << 3 | 1, 0x80];
        assert_eq!(check(&none, &stream(&[FIRST, &in_another_layer]), SMALL).ok(), Some(1));
    }

    #[test]
    fn units_and_parameter_sets_are_bounded() {
        let none = configuration(&[]);
        let with =
            |unit: &[u8], count: usize| check(&none, &stream(&[&vec![unit; count][..], &[FIRST]].concat()), LARGE);
        let message = [39 << 1, 1];
        assert!(with(&message, MAX_UNITS - 1).is_ok());
        assert!(with(&message, MAX_UNITS).is_err());
        assert!(with(&[], MAX_UNITS).is_err());
        let pps = [34 << 1, 1];
        assert!(with(&pps, MAX_PARAMETER_SETS).is_ok());
        assert!(with(&pps, MAX_PARAMETER_SETS + 1).is_err());
    }
}
