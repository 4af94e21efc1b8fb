//! Parses the item tables of a HEIF file's meta box (ISO/IEC 14496-12, 8.11 and ISO/IEC 23008-12): items, references,
//! properties and data ranges.
//!
//! libheif parses the same boxes again. Of duplicate entries a reader may take the first, the last or both, so the file
//! checked here could differ from the file decoded there. Files with a duplicate of anything unique are therefore
//! refused, and fields are read in libheif's widths and order (1.23: `file_layout.cc`, `file.cc`, `box.cc`).

use super::boxes::{BmffBox, children, sized_number, top_level, u16_or_u32};
use crate::codec::byte_reader::{slice, truncated, u8_at, u16_be, u32_be};
use crate::codec::error::{DecodeError, corrupt};
use crate::image::Size;
use memchr::memchr;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Maximum number of items, and of visits to them. A phone's 48-megapixel photo has about 200.
pub(super) const MAX_ITEMS: usize = 2000;
/// Maximum number of extents of all items, and of references. Both may be empty, so the file's bytes do not bound them.
const MAX_EXTENTS: usize = 10 * MAX_ITEMS;

/// Boxes that are unique in a meta box.
const UNIQUE_BOXES: [&[u8; 4]; 7] = [b"hdlr", b"pitm", b"iinf", b"iloc", b"iprp", b"iref", b"idat"];
/// Properties unique per item. Of duplicates libheif takes the first, the last, or all (rotation, mirror, crop).
const UNIQUE_PROPERTIES: [&[u8; 4]; 6] = [b"ispe", b"hvcC", b"auxC", b"irot", b"imir", b"clap"];
/// The auxiliary types that libheif decodes: alpha, by its names in HEIF and MIAF.
const ALPHA: [&[u8]; 3] =
    [b"urn:mpeg:avc:2015:auxid:1", b"urn:mpeg:hevc:2015:auxid:1", b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"];

pub(super) type ItemId = u32;

pub(super) struct ItemTables<'a> {
    bytes: &'a [u8],
    primary: ItemId,
    kinds: HashMap<ItemId, [u8; 4]>,
    /// Property boxes by index, from 1.
    properties: Vec<BmffBox>,
    owned: HashMap<ItemId, Vec<usize>>,
    derived_from: HashMap<ItemId, Vec<ItemId>>,
    /// The alpha pictures that libheif decodes with an item.
    alphas: HashMap<ItemId, Vec<ItemId>>,
    extents: HashMap<ItemId, Vec<Range<usize>>>,
}

impl<'a> ItemTables<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let meta = meta(bytes)?;
        let mut file = Self {
            bytes,
            primary: 0,
            kinds: HashMap::new(),
            properties: Vec::new(),
            owned: HashMap::new(),
            derived_from: HashMap::new(),
            alphas: HashMap::new(),
            extents: HashMap::new(),
        };
        let parts = collect_boxes(bytes, meta.start + 4..meta.end)?;
        for name in UNIQUE_BOXES {
            check_unique(&parts, name)?;
        }
        let data = parts.iter().find(|part| &part.name == b"idat").map(|part| part.body.clone());
        let (mut primary, mut auxiliaries) = (None, HashMap::new());
        for part in &parts {
            let body = &bytes[part.body.clone()];
            match &part.name {
                b"pitm" => primary = Some(u16_or_u32(body, 4, u8_at(body, 0)? != 0)?.0),
                b"iinf" => file.read_kinds(part.body.clone())?,
                b"iref" => auxiliaries = file.read_references(part.body.clone())?,
                b"iprp" => file.read_properties(part.body.clone())?,
                b"iloc" => file.read_extents(body, data.clone())?,
                _ => {}
            }
        }
        file.primary = primary.ok_or_else(|| corrupt("no primary picture"))?;
        for &item in file.owned.keys() {
            for name in UNIQUE_PROPERTIES {
                if file.owned(item).filter(|part| &part.name == name).count() > 1 {
                    return Err(ambiguous(format_args!("two {} properties of one item", name.escape_ascii())));
                }
            }
        }
        for (item, auxiliaries) in auxiliaries {
            for auxiliary in auxiliaries {
                if file.is_alpha(auxiliary)? {
                    file.alphas.entry(item).or_default().push(auxiliary);
                }
            }
        }
        Ok(file)
    }

    fn read_kinds(&mut self, body: Range<usize>) -> Result<(), DecodeError> {
        let (count, at) = u16_or_u32(self.bytes, body.start + 4, u8_at(self.bytes, body.start)? != 0)?;
        // libheif stops at the count and ignores what follows.
        for part in children(self.bytes, at..body.end).take(count as usize) {
            let part = part?;
            if &part.name != b"infe" {
                continue;
            }
            let entry = &self.bytes[part.body];
            let version = u8_at(entry, 0)?;
            let (item, at) = u16_or_u32(entry, 4, version > 2)?;
            // A protection index precedes the type. Versions below 2 have no type.
            let kind = if version < 2 { &[][..] } else { slice(entry, at + 2, 4)? };
            let kind = kind.first_chunk::<4>().copied().unwrap_or_default();
            if self.kinds.insert(item, kind).is_some() {
                return Err(ambiguous(format_args!("two items of the number {item}")));
            }
            if self.kinds.len() > MAX_ITEMS {
                return Err(corrupt(format_args!("more than {MAX_ITEMS} items")));
            }
        }
        Ok(())
    }

    /// Parses references; returns the auxiliary pictures of each item, of any type.
    fn read_references(&mut self, body: Range<usize>) -> Result<HashMap<ItemId, Vec<ItemId>>, DecodeError> {
        let long = u8_at(self.bytes, body.start)? != 0;
        let (mut pieces, mut seen) = (0, HashSet::new());
        let mut auxiliaries: HashMap<ItemId, Vec<ItemId>> = HashMap::new();
        for part in children(self.bytes, body.start + 4..body.end) {
            let part = part?;
            let entry = &self.bytes[part.body];
            let (from, at) = u16_or_u32(entry, 0, long)?;
            let count = u16_be(entry, at)?;
            let mut at = at + 2;
            pieces += usize::from(count);
            if pieces > MAX_EXTENTS {
                return Err(corrupt(format_args!("more than {MAX_EXTENTS} references")));
            }
            let mut references = Vec::new();
            for _ in 0..count {
                let to;
                (to, at) = u16_or_u32(entry, at, long)?;
                references.push(to);
            }
            // libheif continues after the last number, not after the box. A uuid box has a longer header.
            if at != entry.len() || &part.name == b"uuid" {
                return Err(ambiguous("a reference of another size than its box"));
            }
            let repeated = match &part.name {
                b"dimg" => self.derived_from.insert(from, references).is_some(),
                b"auxl" => {
                    for to in references {
                        auxiliaries.entry(to).or_default().push(from);
                    }
                    !seen.insert(from)
                }
                _ => false,
            };
            if repeated {
                let name = part.name.escape_ascii();
                return Err(ambiguous(format_args!("two {name} references from the item {from}")));
            }
        }
        Ok(auxiliaries)
    }

    fn read_properties(&mut self, body: Range<usize>) -> Result<(), DecodeError> {
        let parts = collect_boxes(self.bytes, body)?;
        check_unique(&parts, b"ipco")?;
        for part in parts {
            match &part.name {
                b"ipco" => self.properties = collect_boxes(self.bytes, part.body)?,
                // There may be several of these boxes, of different widths; libheif merges them.
                b"ipma" => self.read_associations(&self.bytes[part.body])?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_associations(&mut self, body: &[u8]) -> Result<(), DecodeError> {
        let long_item = u8_at(body, 0)? != 0;
        let long_number = u8_at(body, 3)? & 1 != 0;
        let (entries, mut at) = (u32_be(body, 4)?, 8);
        for _ in 0..entries {
            let item;
            (item, at) = u16_or_u32(body, at, long_item)?;
            let count = u8_at(body, at)?;
            at += 1;
            let mut owned = Vec::new();
            for _ in 0..count {
                // The highest bit means "essential".
                if long_number {
                    owned.push(usize::from(u16_be(body, at)? & 0x7fff));
                    at += 2;
                } else {
                    owned.push(usize::from(u8_at(body, at)? & 0x7f));
                    at += 1;
                }
            }
            if self.owned.insert(item, owned).is_some() {
                return Err(ambiguous(format_args!("two lists of properties of the item {item}")));
            }
            if self.owned.len() > MAX_ITEMS {
                return Err(corrupt(format_args!("properties of more than {MAX_ITEMS} items")));
            }
        }
        Ok(())
    }

    fn read_extents(&mut self, body: &[u8], data: Option<Range<usize>>) -> Result<(), DecodeError> {
        let version = u8_at(body, 0)?;
        let widths = u16_be(body, 4)?;
        let width = |shift: u16| usize::from(widths >> shift & 15);
        let (offset_width, length_width, base_width) = (width(12), width(8), width(4));
        let index_width = if version == 0 { 0 } else { width(0) };
        if [offset_width, length_width, base_width, index_width].iter().any(|width| ![0, 4, 8].contains(width)) {
            return Err(ambiguous("numbers of other than 0, 4 or 8 bytes in the iloc box"));
        }
        let (items, mut at) = u16_or_u32(body, 6, version > 1)?;
        let (mut pieces, mut bytes) = (0, 0_usize);
        for _ in 0..items {
            let item;
            (item, at) = u16_or_u32(body, at, version > 1)?;
            // 0: offsets in the file; 1: in the idat box; 2: in another item, which no camera writes.
            let mut method = 0;
            if version > 0 {
                method = u16_be(body, at)? & 15;
                at += 2;
            }
            let is_external = method > 1 || u16_be(body, at)? != 0;
            at += 2;
            let base = sized_number(body, &mut at, base_width)?;
            let extents = u16_be(body, at)?;
            at += 2;
            let whole = if method == 1 { data.clone().unwrap_or_default() } else { 0..self.bytes.len() };
            let mut places = Vec::new();
            for _ in 0..extents {
                pieces += 1;
                if pieces > MAX_EXTENTS {
                    return Err(corrupt(format_args!("more than {MAX_EXTENTS} pieces")));
                }
                sized_number(body, &mut at, index_width)?;
                let offset = sized_number(body, &mut at, offset_width)?.checked_add(base).ok_or_else(truncated)?;
                // In the standard a missing length means the rest; in libheif it means nothing.
                let length = sized_number(body, &mut at, length_width)?;
                let start = whole.start.checked_add(offset).ok_or_else(truncated)?;
                let end = start.checked_add(length).ok_or_else(truncated)?;
                // While parsing, libheif copies the data of every item that is not a picture.
                bytes = bytes.saturating_add(length);
                if bytes > self.bytes.len() * 2 {
                    return Err(corrupt("its items need more data than it has"));
                }
                if is_external {
                    continue;
                }
                // Also checked for items that are not decoded: a file without their data is truncated.
                if end > whole.end {
                    return Err(truncated());
                }
                places.push(start..end);
            }
            if self.extents.insert(item, places).is_some() {
                return Err(ambiguous(format_args!("two locations of the item {item}")));
            }
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn primary(&self) -> ItemId {
        self.primary
    }

    pub(super) fn kind(&self, item: ItemId) -> Result<&[u8; 4], DecodeError> {
        self.kinds.get(&item).ok_or_else(|| corrupt("a picture that is not there"))
    }

    pub(super) fn derived_from(&self, item: ItemId) -> &[ItemId] {
        self.derived_from.get(&item).map(Vec::as_slice).unwrap_or_default()
    }

    /// The alpha pictures of `item`. Depth and gain maps are not decoded.
    pub(super) fn alphas(&self, item: ItemId) -> &[ItemId] {
        self.alphas.get(&item).map(Vec::as_slice).unwrap_or_default()
    }

    fn is_alpha(&self, item: ItemId) -> Result<bool, DecodeError> {
        let Some(body) = self.property(item, b"auxC") else { return Ok(false) };
        let text = body.get(4..).ok_or_else(truncated)?;
        // Of a text that does not end before its box, libheif drops the last character.
        let end = memchr(0, text).ok_or_else(|| ambiguous("an auxiliary type without an end"))?;
        Ok(ALPHA.contains(&&text[..end]))
    }

    /// The body of the first property `name` of `item`.
    pub(super) fn property(&self, item: ItemId, name: &[u8; 4]) -> Option<&'a [u8]> {
        self.owned(item).find(|part| &part.name == name).map(|part| &self.bytes[part.body.clone()])
    }

    fn owned(&self, item: ItemId) -> impl Iterator<Item = &BmffBox> {
        let numbers = self.owned.get(&item).map(Vec::as_slice).unwrap_or_default();
        numbers.iter().filter_map(|number| self.properties.get(number.checked_sub(1)?))
    }

    /// The size that the container declares for `item`.
    pub(super) fn size(&self, item: ItemId) -> Result<Size, DecodeError> {
        let body = self.property(item, b"ispe").ok_or_else(|| corrupt("a picture of no size"))?;
        Ok(Size::new(u32_be(body, 4)?, u32_be(body, 8)?))
    }

    /// The data of `item`, at most the file's size.
    pub(super) fn data(&self, item: ItemId) -> Result<Cow<'a, [u8]>, DecodeError> {
        let places = self.extents.get(&item).map(Vec::as_slice).unwrap_or_default();
        if places.iter().map(Range::len).sum::<usize>() > self.bytes.len() {
            return Err(corrupt("overlapping pieces"));
        }
        Ok(match places {
            [] => return Err(truncated()),
            [place] => Cow::Borrowed(&self.bytes[place.clone()]),
            several => several.iter().flat_map(|place| &self.bytes[place.clone()]).copied().collect(),
        })
    }
}

fn meta(bytes: &[u8]) -> Result<Range<usize>, DecodeError> {
    let mut found = None;
    for part in top_level(bytes) {
        let part = part?;
        match &part.name {
            b"meta" if found.is_some() => return Err(ambiguous("two meta boxes")),
            b"meta" => found = Some(part.body),
            // libheif reads it instead of a meta box.
            b"mini" => return Err(ambiguous("a mini box instead of a meta box")),
            _ => {}
        }
    }
    found.ok_or_else(|| corrupt("no meta box"))
}

/// The boxes inside `range`, at most `MAX_ITEMS`.
fn collect_boxes(bytes: &[u8], range: Range<usize>) -> Result<Vec<BmffBox>, DecodeError> {
    let parts: Vec<BmffBox> = children(bytes, range).take(MAX_ITEMS + 1).collect::<Result<_, _>>()?;
    if parts.len() > MAX_ITEMS {
        return Err(corrupt(format_args!("more than {MAX_ITEMS} boxes in one")));
    }
    Ok(parts)
}

/// Refuses a second box named `name`.
fn check_unique(parts: &[BmffBox], name: &[u8; 4]) -> Result<(), DecodeError> {
    if parts.iter().filter(|part| &part.name == name).count() > 1 {
        return Err(ambiguous(format_args!("two {} boxes", name.escape_ascii())));
    }
    Ok(())
}

/// An error for files that two readers could interpret differently.
fn ambiguous(reason: impl std::fmt::Display) -> DecodeError {
    corrupt(format_args!("ambiguous: {reason}"))
}
