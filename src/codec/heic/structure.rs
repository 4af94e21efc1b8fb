//! What decoding a HEIF file would cost, read from its boxes (ISO/IEC 14496-12 and 23008-12).
//!
//! A picture may be derived from others: a grid of tiles, layers on a canvas, and those from others again, the same
//! one any number of times. So a few hundred bytes can ask for hours of work that no single size betrays. The walk
//! adds up the pixels that would be decoded for the primary picture and holds them against the pixels that it shows.

use super::hevc;
use crate::codec::bytes::{slice, truncated, u8_at, u16_be, u32_be};
use crate::codec::{DecodeError, Limits, corrupt, judge};
use crate::image::Size;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// Items, and visits to them. A phone's 48-megapixel photo has about 200.
pub(super) const MAX_ITEMS: usize = 2000;
/// Extents of all items together: one that is told in no bytes at all must not cost any.
const MAX_PIECES: usize = 10 * MAX_ITEMS;
/// Decoded pixels that need no explanation: one 1024×1024 tile.
const SMALL: u64 = 1 << 20;
/// Tiles of tiles of tiles are made by no camera.
const MAX_DEPTH: usize = 4;

type Item = u32;
type Refused = DecodeError;

/// Judges the primary picture of `bytes`: every coded size, and the sum of them.
pub(super) fn judge_cost(bytes: &[u8], limits: &Limits) -> Result<(), Refused> {
    let meta = children(bytes, 0..bytes.len()).find_map(|part| match part {
        Ok(part) if &part.name == b"meta" => Some(Ok(part.body)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    let meta = meta.ok_or_else(|| corrupt("no meta box"))??;
    let file = File::read(bytes, meta)?;
    let shown = file.size(file.primary)?;
    judge(shown, limits)?;
    let mut spent = Spent { visits: 0, bytes: 0, pixels: 0, budget: pixels(shown) * 2 + SMALL };
    file.spend(file.primary, &mut spent, limits, 0)
}

fn pixels(size: Size) -> u64 {
    u64::from(size.width) * u64::from(size.height)
}

struct Spent {
    visits: usize,
    bytes: usize,
    pixels: u64,
    budget: u64,
}

/// The tables of the meta box that say what depends on what.
struct File<'a> {
    bytes: &'a [u8],
    primary: Item,
    kinds: HashMap<Item, [u8; 4]>,
    /// Property boxes by number, from 1.
    properties: Vec<Part>,
    owned: HashMap<Item, Vec<usize>>,
    derived_from: HashMap<Item, Vec<Item>>,
    auxiliaries: HashMap<Item, Vec<Item>>,
    places: HashMap<Item, Vec<Range<usize>>>,
}

impl<'a> File<'a> {
    fn read(bytes: &'a [u8], meta: Range<usize>) -> Result<Self, Refused> {
        let mut file = Self {
            bytes,
            primary: 0,
            kinds: HashMap::new(),
            properties: Vec::new(),
            owned: HashMap::new(),
            derived_from: HashMap::new(),
            auxiliaries: HashMap::new(),
            places: HashMap::new(),
        };
        let parts: Vec<Part> = children(bytes, meta.start + 4..meta.end).collect::<Result<_, _>>()?;
        let data = parts.iter().find(|part| &part.name == b"idat").map(|part| part.body.clone());
        let mut primary = None;
        for part in &parts {
            let body = &bytes[part.body.clone()];
            match &part.name {
                b"pitm" => primary = Some(wide(body, 4, u8_at(body, 0)? != 0)?.0),
                b"iinf" => file.read_kinds(part.body.clone())?,
                b"iref" => file.read_references(part.body.clone())?,
                b"iprp" => file.read_properties(part.body.clone())?,
                b"iloc" => file.read_places(body, data.clone())?,
                _ => {}
            }
        }
        file.primary = primary.ok_or_else(|| corrupt("no primary picture"))?;
        Ok(file)
    }

    fn read_kinds(&mut self, body: Range<usize>) -> Result<(), Refused> {
        let skip = if u8_at(self.bytes, body.start)? == 0 { 6 } else { 8 };
        for part in children(self.bytes, body.start + skip..body.end) {
            let part = part?;
            let entry = &self.bytes[part.body];
            let version = u8_at(entry, 0)?;
            if &part.name == b"infe" && version >= 2 {
                let (item, at) = wide(entry, 4, version > 2)?;
                // A protection index lies between the number and the type.
                let kind = slice(entry, at + 2, 4)?.first_chunk::<4>().copied().unwrap_or_default();
                self.kinds.insert(item, kind);
            }
            if self.kinds.len() > MAX_ITEMS {
                return Err(corrupt(format_args!("more than {MAX_ITEMS} items")));
            }
        }
        Ok(())
    }

    fn read_references(&mut self, body: Range<usize>) -> Result<(), Refused> {
        let long = u8_at(self.bytes, body.start)? != 0;
        for part in children(self.bytes, body.start + 4..body.end) {
            let part = part?;
            let entry = &self.bytes[part.body];
            let (from, at) = wide(entry, 0, long)?;
            let count = u16_be(entry, at)?;
            let mut at = at + 2;
            for _ in 0..count {
                let to;
                (to, at) = wide(entry, at, long)?;
                match &part.name {
                    b"dimg" => self.derived_from.entry(from).or_default().push(to),
                    b"auxl" => self.auxiliaries.entry(to).or_default().push(from),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn read_properties(&mut self, body: Range<usize>) -> Result<(), Refused> {
        for part in children(self.bytes, body) {
            let part = part?;
            match &part.name {
                b"ipco" => self.properties = children(self.bytes, part.body).collect::<Result<_, _>>()?,
                b"ipma" => self.read_associations(&self.bytes[part.body])?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_associations(&mut self, body: &[u8]) -> Result<(), Refused> {
        let long_item = u8_at(body, 0)? != 0;
        let long_number = u8_at(body, 3)? & 1 != 0;
        let (entries, mut at) = (u32_be(body, 4)?, 8);
        for _ in 0..entries {
            let item;
            (item, at) = wide(body, at, long_item)?;
            let count = u8_at(body, at)?;
            at += 1;
            let owned = self.owned.entry(item).or_default();
            for _ in 0..count {
                // The highest bit says "essential".
                if long_number {
                    owned.push(usize::from(u16_be(body, at)? & 0x7fff));
                    at += 2;
                } else {
                    owned.push(usize::from(u8_at(body, at)? & 0x7f));
                    at += 1;
                }
            }
        }
        Ok(())
    }

    fn read_places(&mut self, body: &[u8], data: Option<Range<usize>>) -> Result<(), Refused> {
        let version = u8_at(body, 0)?;
        let widths = u16_be(body, 4)?;
        let width = |shift: u16| usize::from(widths >> shift & 15);
        let (offset_width, length_width, base_width) = (width(12), width(8), width(4));
        let index_width = if version == 0 { 0 } else { width(0) };
        let (items, mut at) = wide(body, 6, version > 1)?;
        let mut pieces = 0;
        for _ in 0..items {
            let item;
            (item, at) = wide(body, at, version > 1)?;
            // 0: offsets in the file, 1: in the idat box, 2: in another item, which no camera writes.
            let mut method = 0;
            if version > 0 {
                method = u16_be(body, at)? & 15;
                at += 2;
            }
            let elsewhere = method > 1 || u16_be(body, at)? != 0;
            at += 2;
            let base = number(body, &mut at, base_width)?;
            let extents = u16_be(body, at)?;
            at += 2;
            let whole = if method == 1 { data.clone().unwrap_or_default() } else { 0..self.bytes.len() };
            let places = self.places.entry(item).or_default();
            for _ in 0..extents {
                pieces += 1;
                if pieces > MAX_PIECES {
                    return Err(corrupt(format_args!("more than {MAX_PIECES} pieces")));
                }
                number(body, &mut at, index_width)?;
                let offset = number(body, &mut at, offset_width)?.checked_add(base).ok_or_else(truncated)?;
                let length = number(body, &mut at, length_width)?;
                let start = whole.start.checked_add(offset).ok_or_else(truncated)?;
                // No length means all the rest.
                let end = if length == 0 { whole.end } else { start.checked_add(length).ok_or_else(truncated)? };
                if elsewhere {
                    continue;
                }
                // Also for items that are not decoded: a file that lacks their data was cut.
                if start > end || end > whole.end {
                    return Err(truncated());
                }
                places.push(start..end);
            }
        }
        Ok(())
    }

    fn owned(&self, item: Item) -> impl Iterator<Item = &Part> {
        let numbers = self.owned.get(&item).map(Vec::as_slice).unwrap_or_default();
        numbers.iter().filter_map(|number| self.properties.get(number.checked_sub(1)?))
    }

    fn size(&self, item: Item) -> Result<Size, Refused> {
        let part =
            self.owned(item).find(|part| &part.name == b"ispe").ok_or_else(|| corrupt("a picture of no size"))?;
        let body = &self.bytes[part.body.clone()];
        Ok(Size::new(u32_be(body, 4)?, u32_be(body, 8)?))
    }

    /// Adds what decoding `item` costs, with everything that it is made of.
    fn spend(&self, item: Item, spent: &mut Spent, limits: &Limits, depth: usize) -> Result<(), Refused> {
        spent.visits += 1;
        if spent.visits > MAX_ITEMS || depth > MAX_DEPTH {
            return Err(corrupt("made of more parts than its size can explain"));
        }
        for &auxiliary in self.auxiliaries.get(&item).map(Vec::as_slice).unwrap_or_default() {
            // Depth and gain maps hang here too and cost nothing: libheif decodes the alpha only. So the alpha gets a
            // budget of its own, as large as the picture's.
            let mut extra = Spent { pixels: 0, ..*spent };
            self.spend(auxiliary, &mut extra, limits, depth + 1)?;
            (spent.visits, spent.bytes) = (extra.visits, extra.bytes);
        }
        match self.kinds.get(&item) {
            Some(b"hvc1") => {
                let size = self.size(item)?;
                judge(size, limits)?;
                spent.bytes += self.check_stream(item, size)?;
                if spent.bytes > self.bytes.len() * 2 {
                    return Err(corrupt("made of more data than it has"));
                }
                spent.pixels += pixels(size);
                if spent.pixels > spent.budget {
                    return Err(corrupt("made of more pixels than its size can explain"));
                }
                Ok(())
            }
            Some(b"grid" | b"iovl" | b"iden") => {
                let parts = self.derived_from.get(&item).ok_or_else(|| corrupt("a picture made of nothing"))?;
                parts.iter().try_for_each(|&part| self.spend(part, spent, limits, depth + 1))
            }
            Some(b"av01") => Err(DecodeError::Unsupported { found: Some("AVIF") }),
            Some(_) => Err(DecodeError::Unsupported { found: Some("HEIF of a codec other than HEVC") }),
            None => Err(corrupt("a picture that is not there")),
        }
    }

    /// Holds the sizes inside the bitstream, which libde265 allocates by, against the container's; returns its bytes.
    fn check_stream(&self, item: Item, size: Size) -> Result<usize, Refused> {
        let part =
            self.owned(item).find(|part| &part.name == b"hvcC").ok_or_else(|| corrupt("no HEVC configuration"))?;
        let configuration = &self.bytes[part.body.clone()];
        let places = self.places.get(&item).map(Vec::as_slice).unwrap_or_default();
        let len = places.iter().map(Range::len).sum();
        if len > self.bytes.len() {
            return Err(corrupt("overlapping pieces"));
        }
        let stream: Cow<'_, [u8]> = match places {
            [] => return Err(truncated()),
            [place] => Cow::Borrowed(&self.bytes[place.clone()]),
            several => several.iter().flat_map(|place| &self.bytes[place.clone()]).copied().collect(),
        };
        hevc::check(configuration, &stream, size)?;
        Ok(len)
    }
}

/// One box.
struct Part {
    name: [u8; 4],
    body: Range<usize>,
}

/// The boxes inside `range`.
fn children(bytes: &[u8], range: Range<usize>) -> impl Iterator<Item = Result<Part, Refused>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let part = part(bytes, at, range.end);
        at = part.as_ref().map_or(range.end, |part| part.body.end);
        Some(part)
    })
}

fn part(bytes: &[u8], at: usize, end: usize) -> Result<Part, Refused> {
    let name = slice(bytes, at + 4, 4)?.first_chunk::<4>().copied().ok_or_else(truncated)?;
    let (header, size) = match u32_be(bytes, at)? {
        // To the end of what it is in.
        0 => (8, end - at),
        1 => {
            let (high, low) = (u32_be(bytes, at + 8)?, u32_be(bytes, at + 12)?);
            (16, usize::try_from(u64::from(high) << 32 | u64::from(low)).map_err(|_| truncated())?)
        }
        size => (8, size as usize),
    };
    let stop = at.checked_add(size).filter(|&stop| stop <= end).ok_or_else(truncated)?;
    if size < header {
        return Err(corrupt("a box shorter than its header"));
    }
    Ok(Part { name, body: at + header..stop })
}

/// A number of two bytes, or of four when `long`, and the place behind it.
fn wide(bytes: &[u8], at: usize, long: bool) -> Result<(u32, usize), Refused> {
    if long { Ok((u32_be(bytes, at)?, at + 4)) } else { Ok((u16_be(bytes, at)?.into(), at + 2)) }
}

/// A number of 0, 4 or 8 bytes at `at`, which moves behind it.
fn number(bytes: &[u8], at: &mut usize, width: usize) -> Result<usize, Refused> {
    let digits = slice(bytes, *at, width)?;
    *at += width;
    let value = digits.iter().fold(0_u64, |value, &digit| value << 8 | u64::from(digit));
    usize::try_from(value).map_err(|_| truncated())
}
