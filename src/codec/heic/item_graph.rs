//! Generates HEIC files whose items refer to each other, from a fuzzer's bytes.
//!
//! The bytes select kinds, references, auxiliary types and a second primary picture, in another `pitm` or `meta` box.
//! Mutated files rarely keep consistent tables and would seldom reach the code for references of several items.

use arbitrary::{Result, Unstructured};

use super::item_tables::ItemTables;

/// A file of one coded picture; all coded items share its data.
const CODED_FILE: &[u8] = include_bytes!("../../../tests/fixtures/codec/plain.heic");
/// Size of that picture, without padding.
const CODED_SIZE: [u16; 2] = [80, 64];
/// Maximum of items in a file.
const MOST_ITEMS: u16 = 8;
/// Auxiliary types: alpha and depth.
const AUXILIARY: [&[u8]; 2] = [b"urn:mpeg:hevc:2015:auxid:1\0", b"urn:mpeg:hevc:2015:auxid:2\0"];

/// The property numbers of [`properties`].
const CONFIGURATION: u8 = 1;
const FIRST_SIZE: u8 = 2;
const FIRST_AUXILIARY: u8 = 6;

/// An item. Item numbers are indices into the list of items, from 1.
struct Item {
    kind: &'static [u8; 4],
    /// Columns and rows of coded pictures that the item's size has room for, 1 or 2 each.
    tiles: [u16; 2],
    /// The inputs of a derived item.
    parts: Vec<u16>,
    /// The auxiliary type, and the items to which this one is auxiliary.
    auxiliary: Option<(u8, Vec<u16>)>,
}

impl Item {
    /// An item of a file with `count` items.
    fn arbitrary(input: &mut Unstructured<'_>, count: u16) -> Result<Self> {
        let kind = *input.choose(&[b"hvc1", b"hvc1", b"grid", b"iovl", b"iden"])?;
        let tiles = match kind {
            b"grid" | b"iovl" => [input.int_in_range(1..=2)?, input.int_in_range(1..=2)?],
            _ => [1, 1],
        };
        let parts = match kind {
            b"grid" => usize::from(tiles[0] * tiles[1]),
            b"iovl" => input.int_in_range(1..=3)?,
            b"iden" => 1,
            _ => 0,
        };
        let mut items = |count_of: usize| (0..count_of).map(|_| input.int_in_range(1..=count)).collect::<Result<_>>();
        let parts = items(parts)?;
        let owners = items(2)?;
        let auxiliary = input.int_in_range(0..=3_u8)?.checked_sub(2).map(|kind| (kind, owners));
        Ok(Self { kind, tiles, parts, auxiliary })
    }

    fn size(&self) -> [u16; 2] {
        [self.tiles[0] * CODED_SIZE[0], self.tiles[1] * CODED_SIZE[1]]
    }

    /// The data of a derived item (ISO/IEC 23008-12, 6.6.2).
    fn data(&self) -> Vec<u8> {
        let size = self.size().map(u16::to_be_bytes).concat();
        match self.kind {
            b"grid" => [&[0, 0, self.tiles[1] as u8 - 1, self.tiles[0] as u8 - 1][..], &size].concat(),
            b"iovl" => [&[0; 10][..], &size, &vec![0; 4 * self.parts.len()]].concat(),
            _ => Vec::new(),
        }
    }

    fn properties(&self) -> Vec<u8> {
        let size = FIRST_SIZE + (self.tiles[0] - 1) as u8 + 2 * (self.tiles[1] - 1) as u8;
        let configuration = (self.kind == b"hvc1").then_some(CONFIGURATION);
        let auxiliary = self.auxiliary.as_ref().map(|(kind, _)| FIRST_AUXILIARY + kind);
        [Some(size), configuration, auxiliary].into_iter().flatten().collect()
    }
}

/// The file that `bytes` select; `None` if they are too few.
pub(super) fn file(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut input = Unstructured::new(bytes);
    let count = input.int_in_range(1..=MOST_ITEMS).ok()?;
    let primary = input.int_in_range(1..=count).ok()?;
    let items: Vec<Item> = (0..count).map(|_| Item::arbitrary(&mut input, count)).collect::<Result<_>>().ok()?;
    // Read after the items, so that inputs that end with the items have one primary picture.
    let (duplicate, second) = (input.int_in_range(0..=15_u8).ok()?, input.int_in_range(1..=count).ok()?);
    let coded = ItemTables::read(CODED_FILE).expect("a fixture");
    let configuration = coded.property(coded.primary(), b"hvcC").expect("it is coded");
    let stream = coded.data(coded.primary()).expect("it has data");

    let numbered = || (1_u16..).zip(&items);
    let mut data = stream.to_vec();
    let mut places = Vec::new();
    for (number, item) in numbered() {
        let own = item.data();
        let (start, length) = if item.kind == b"hvc1" { (0, stream.len()) } else { (data.len(), own.len()) };
        data.extend(own);
        // Item number; construction method 1 (idat box); data reference 0 (this file); one extent.
        places.extend([number, 1, 0, 1].map(u16::to_be_bytes).concat());
        places.extend([start as u32, length as u32].map(u32::to_be_bytes).concat());
    }
    let entry = |(number, item): (u16, &Item)| {
        boxed(b"infe", &[&[2, 0, 0, 0], &number.to_be_bytes(), &[0, 0], item.kind, &[0]])
    };
    let entries: Vec<u8> = numbered().flat_map(entry).collect();
    let reference = |name, from: u16, to: &[u16]| {
        let to: Vec<u8> = to.iter().flat_map(|item| item.to_be_bytes()).collect();
        boxed(name, &[&from.to_be_bytes(), &((to.len() / 2) as u16).to_be_bytes(), &to])
    };
    let mut references = Vec::new();
    for (number, item) in numbered() {
        if !item.parts.is_empty() {
            references.extend(reference(b"dimg", number, &item.parts));
        }
        if let Some((_, owners)) = &item.auxiliary {
            references.extend(reference(b"auxl", number, owners));
        }
    }
    let associations: Vec<u8> = numbered()
        .flat_map(|(number, item)| {
            let properties = item.properties();
            [&number.to_be_bytes()[..], &[properties.len() as u8], &properties].concat()
        })
        .collect();
    let pitm = |item: u16| boxed(b"pitm", &[&[0; 4], &item.to_be_bytes()]);
    let meta = |primaries: &[u8]| {
        boxed(
            b"meta",
            &[
                &[0; 4],
                &boxed(b"hdlr", &[&[0; 8], b"pict", &[0; 13]]),
                primaries,
                &boxed(b"iloc", &[&[1, 0, 0, 0, 0x44, 0], &count.to_be_bytes(), &places]),
                &boxed(b"iinf", &[&[0; 4], &count.to_be_bytes(), &entries]),
                &boxed(b"iref", &[&[0; 4], &references]),
                &boxed(
                    b"iprp",
                    &[
                        &boxed(b"ipco", &[&properties(configuration)]),
                        &boxed(b"ipma", &[&[0; 4], &u32::from(count).to_be_bytes(), &associations]),
                    ],
                ),
                &boxed(b"idat", &[&data]),
            ],
        )
    };
    let metas = match duplicate {
        1 => meta(&[primary, second].map(pitm).concat()),
        2 => [primary, second].map(|item| meta(&pitm(item))).concat(),
        _ => meta(&pitm(primary)),
    };
    Some([boxed(b"ftyp", &[b"heic", &[0; 4], b"mif1heic"]), metas].concat())
}

fn properties(configuration: &[u8]) -> Vec<u8> {
    let size = |[columns, rows]: [u16; 2]| {
        let size = [columns * CODED_SIZE[0], rows * CODED_SIZE[1]].map(|side| u32::from(side).to_be_bytes()).concat();
        boxed(b"ispe", &[&[0; 4], &size])
    };
    let sizes = [[1, 1], [2, 1], [1, 2], [2, 2]].map(size).concat();
    let auxiliary = AUXILIARY.map(|name| boxed(b"auxC", &[&[0; 4], name])).concat();
    [boxed(b"hvcC", &[configuration]), sizes, auxiliary].concat()
}

fn boxed(name: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&(body.len() as u32 + 8).to_be_bytes(), &name[..], &body].concat()
}
