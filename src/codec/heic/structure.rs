//! The tables of a HEIF file's meta box (ISO/IEC 14496-12, 8.11 and ISO/IEC 23008-12): items, what they are made of, and
//! where their data are.
//!
//! libheif reads the same boxes again. Where a file says something twice, one reader takes the first and another the
//! last or both, and what was checked here would not be what is decoded there. So a file is refused when it holds
//! a second one of anything that is read once, and fields are read in libheif's widths and order (1.23: `file_layout.cc`,
//! `file.cc`, `box.cc`).

use super::boxes::{Part, children, number, top_level, wide};
use crate::codec::bytes::{slice, truncated, u8_at, u16_be, u32_be};
use crate::codec::{DecodeError, corrupt};
use crate::image::Size;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Items, and visits to them. A phone's 48-megapixel photo has about 200.
pub(super) const MAX_ITEMS: usize = 2000;
/// Extents of all items together, and references between items: one that takes no bytes must not cost any.
const MAX_PIECES: usize = 10 * MAX_ITEMS;

/// Boxes that a meta box holds at most once.
const SINGLE_BOXES: [&[u8; 4]; 7] = [b"hdlr", b"pitm", b"iinf", b"iloc", b"iprp", b"iref", b"idat"];
/// Properties that an item has at most once. libheif takes the first of some and the last of others, and applies every
/// turn, mirror and crop that it finds.
const SINGLE_PROPERTIES: [&[u8; 4]; 6] = [b"ispe", b"hvcC", b"auxC", b"irot", b"imir", b"clap"];
/// The types of an auxiliary picture that libheif decodes: the alpha, under the names of HEIF and of MIAF.
const ALPHA: [&[u8]; 3] =
    [b"urn:mpeg:avc:2015:auxid:1", b"urn:mpeg:hevc:2015:auxid:1", b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"];

pub(super) type Item = u32;

/// The tables that say what depends on what.
pub(super) struct File<'a> {
    bytes: &'a [u8],
    primary: Item,
    kinds: HashMap<Item, [u8; 4]>,
    /// Property boxes by number, from 1.
    properties: Vec<Part>,
    owned: HashMap<Item, Vec<usize>>,
    derived_from: HashMap<Item, Vec<Item>>,
    /// The auxiliary pictures of an item that are decoded with it.
    alphas: HashMap<Item, Vec<Item>>,
    places: HashMap<Item, Vec<Range<usize>>>,
}

impl<'a> File<'a> {
    /// Reads the tables of `bytes`.
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
            places: HashMap::new(),
        };
        let parts = listed(bytes, meta.start + 4..meta.end)?;
        for name in SINGLE_BOXES {
            single(&parts, name)?;
        }
        let data = parts.iter().find(|part| &part.name == b"idat").map(|part| part.body.clone());
        let (mut primary, mut auxiliaries) = (None, HashMap::new());
        for part in &parts {
            let body = &bytes[part.body.clone()];
            match &part.name {
                b"pitm" => primary = Some(wide(body, 4, u8_at(body, 0)? != 0)?.0),
                b"iinf" => file.read_kinds(part.body.clone())?,
                b"iref" => auxiliaries = file.read_references(part.body.clone())?,
                b"iprp" => file.read_properties(part.body.clone())?,
                b"iloc" => file.read_places(body, data.clone())?,
                _ => {}
            }
        }
        file.primary = primary.ok_or_else(|| corrupt("no primary picture"))?;
        for &item in file.owned.keys() {
            for name in SINGLE_PROPERTIES {
                if file.owned(item).filter(|part| &part.name == name).count() > 1 {
                    return Err(ambiguous(format_args!("two {} properties of one item", name.escape_ascii())));
                }
            }
        }
        for items in auxiliaries.values_mut() {
            items.retain(|&item| file.is_alpha(item));
        }
        file.alphas = auxiliaries;
        Ok(file)
    }

    fn read_kinds(&mut self, body: Range<usize>) -> Result<(), DecodeError> {
        let (count, at) = wide(self.bytes, body.start + 4, u8_at(self.bytes, body.start)? != 0)?;
        // libheif stops at the count, whatever is behind.
        for part in children(self.bytes, at..body.end).take(count as usize) {
            let part = part?;
            if &part.name != b"infe" {
                continue;
            }
            let entry = &self.bytes[part.body];
            let version = u8_at(entry, 0)?;
            let (item, at) = wide(entry, 4, version > 2)?;
            // A protection index lies between the number and the type, which there is from version 2.
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

    /// Reads what is derived from what; returns the auxiliary pictures of each item, of whatever type.
    fn read_references(&mut self, body: Range<usize>) -> Result<HashMap<Item, Vec<Item>>, DecodeError> {
        let long = u8_at(self.bytes, body.start)? != 0;
        let (mut pieces, mut seen) = (0, HashSet::new());
        let mut auxiliaries: HashMap<Item, Vec<Item>> = HashMap::new();
        for part in children(self.bytes, body.start + 4..body.end) {
            let part = part?;
            let entry = &self.bytes[part.body];
            let (from, at) = wide(entry, 0, long)?;
            let count = u16_be(entry, at)?;
            let mut at = at + 2;
            pieces += usize::from(count);
            if pieces > MAX_PIECES {
                return Err(corrupt(format_args!("more than {MAX_PIECES} references")));
            }
            let mut references = Vec::new();
            for _ in 0..count {
                let to;
                (to, at) = wide(entry, at, long)?;
                references.push(to);
            }
            // libheif finds the next reference behind the last number, and not behind the box; a uuid has a longer header.
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
        let parts = listed(self.bytes, body)?;
        single(&parts, b"ipco")?;
        for part in parts {
            match &part.name {
                b"ipco" => self.properties = listed(self.bytes, part.body)?,
                // There may be several, of different widths; libheif puts them together.
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
            (item, at) = wide(body, at, long_item)?;
            let count = u8_at(body, at)?;
            at += 1;
            let mut owned = Vec::new();
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
            if self.owned.insert(item, owned).is_some() {
                return Err(ambiguous(format_args!("two lists of properties of the item {item}")));
            }
            if self.owned.len() > MAX_ITEMS {
                return Err(corrupt(format_args!("properties of more than {MAX_ITEMS} items")));
            }
        }
        Ok(())
    }

    fn read_places(&mut self, body: &[u8], data: Option<Range<usize>>) -> Result<(), DecodeError> {
        let version = u8_at(body, 0)?;
        let widths = u16_be(body, 4)?;
        let width = |shift: u16| usize::from(widths >> shift & 15);
        let (offset_width, length_width, base_width) = (width(12), width(8), width(4));
        let index_width = if version == 0 { 0 } else { width(0) };
        if [offset_width, length_width, base_width, index_width].iter().any(|width| ![0, 4, 8].contains(width)) {
            return Err(ambiguous("numbers of other than 0, 4 or 8 bytes in the iloc box"));
        }
        let (items, mut at) = wide(body, 6, version > 1)?;
        let (mut pieces, mut bytes) = (0, 0_usize);
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
            let mut places = Vec::new();
            for _ in 0..extents {
                pieces += 1;
                if pieces > MAX_PIECES {
                    return Err(corrupt(format_args!("more than {MAX_PIECES} pieces")));
                }
                number(body, &mut at, index_width)?;
                let offset = number(body, &mut at, offset_width)?.checked_add(base).ok_or_else(truncated)?;
                // The standard reads no length as all the rest, libheif as nothing.
                let length = number(body, &mut at, length_width)?;
                let start = whole.start.checked_add(offset).ok_or_else(truncated)?;
                let end = start.checked_add(length).ok_or_else(truncated)?;
                // libheif copies the data of every item that is no picture while it reads the boxes.
                bytes = bytes.saturating_add(length);
                if bytes > self.bytes.len() * 2 {
                    return Err(corrupt("made of more data than it has"));
                }
                if elsewhere {
                    continue;
                }
                // Also for items that are not decoded: a file that lacks their data was cut.
                if end > whole.end {
                    return Err(truncated());
                }
                places.push(start..end);
            }
            if self.places.insert(item, places).is_some() {
                return Err(ambiguous(format_args!("two places of the item {item}")));
            }
        }
        Ok(())
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The picture that is shown.
    pub(super) fn primary(&self) -> Item {
        self.primary
    }

    /// The type of `item`.
    pub(super) fn kind(&self, item: Item) -> Result<&[u8; 4], DecodeError> {
        self.kinds.get(&item).ok_or_else(|| corrupt("a picture that is not there"))
    }

    /// What `item` is derived from.
    pub(super) fn derived_from(&self, item: Item) -> &[Item] {
        self.derived_from.get(&item).map(Vec::as_slice).unwrap_or_default()
    }

    /// The auxiliary pictures of `item` that are decoded with it: its alpha. Depth and gain maps are not.
    pub(super) fn alphas(&self, item: Item) -> &[Item] {
        self.alphas.get(&item).map(Vec::as_slice).unwrap_or_default()
    }

    fn is_alpha(&self, item: Item) -> bool {
        let body = self.property(item, b"auxC");
        let name = body.and_then(|body| body.get(4..)?.split(|byte| *byte == 0).next());
        name.is_some_and(|name| ALPHA.contains(&name))
    }

    /// The body of the first property of `item` that is called `name`.
    pub(super) fn property(&self, item: Item, name: &[u8; 4]) -> Option<&'a [u8]> {
        self.owned(item).find(|part| &part.name == name).map(|part| &self.bytes[part.body.clone()])
    }

    fn owned(&self, item: Item) -> impl Iterator<Item = &Part> {
        let numbers = self.owned.get(&item).map(Vec::as_slice).unwrap_or_default();
        numbers.iter().filter_map(|number| self.properties.get(number.checked_sub(1)?))
    }

    /// The size that the container states for `item`.
    pub(super) fn size(&self, item: Item) -> Result<Size, DecodeError> {
        let body = self.property(item, b"ispe").ok_or_else(|| corrupt("a picture of no size"))?;
        Ok(Size::new(u32_be(body, 4)?, u32_be(body, 8)?))
    }

    /// The data of `item`, at most as much as the file has.
    pub(super) fn data(&self, item: Item) -> Result<Cow<'a, [u8]>, DecodeError> {
        let places = self.places.get(&item).map(Vec::as_slice).unwrap_or_default();
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

/// Where the meta box is.
fn meta(bytes: &[u8]) -> Result<Range<usize>, DecodeError> {
    let mut found = None;
    for part in top_level(bytes) {
        let part = part?;
        match &part.name {
            b"meta" if found.is_some() => return Err(ambiguous("two meta boxes")),
            b"meta" => found = Some(part.body),
            // libheif takes it in the place of a meta box.
            b"mini" => return Err(ambiguous("a mini box, which takes the place of a meta box")),
            _ => {}
        }
    }
    found.ok_or_else(|| corrupt("no meta box"))
}

/// The boxes inside `range`, which are few.
fn listed(bytes: &[u8], range: Range<usize>) -> Result<Vec<Part>, DecodeError> {
    let parts: Vec<Part> = children(bytes, range).take(MAX_ITEMS + 1).collect::<Result<_, _>>()?;
    if parts.len() > MAX_ITEMS {
        return Err(corrupt(format_args!("more than {MAX_ITEMS} boxes in one")));
    }
    Ok(parts)
}

/// Refuses a second box of the name.
fn single(parts: &[Part], name: &[u8; 4]) -> Result<(), DecodeError> {
    if parts.iter().filter(|part| &part.name == name).count() > 1 {
        return Err(ambiguous(format_args!("two {} boxes", name.escape_ascii())));
    }
    Ok(())
}

/// The file can be read in two ways.
fn ambiguous(reason: impl std::fmt::Display) -> DecodeError {
    corrupt(format_args!("ambiguous: {reason}"))
}
