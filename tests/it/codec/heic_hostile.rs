//! HEIF containers that are ambiguous between readers or cost more than their size explains are refused.

use crate::codec::support::{Picture, assert_close, decode, fixture, reference};
use backdrop::codec::{self, DecodeError, Header, Limits};
use backdrop::image::Size;

type Name = [u8; 4];

fn boxed(name: &Name, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(8 + body.len()).expect("a small box");
    [&len.to_be_bytes()[..], name, body].concat()
}

/// A box with version and flags.
fn full(name: &Name, version: u8, body: &[u8]) -> Vec<u8> {
    boxed(name, &[&[version, 0, 0, 0][..], body].concat())
}

fn split(mut bytes: &[u8]) -> Vec<(Name, Vec<u8>)> {
    let mut boxes = Vec::new();
    while let [a, b, c, d, rest @ ..] = bytes {
        let len = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        boxes.push((*rest.first_chunk().expect("a name"), bytes[8..len].to_vec()));
        bytes = &bytes[len..];
    }
    boxes
}

fn joined(boxes: &[(Name, Vec<u8>)]) -> Vec<u8> {
    boxes.iter().flat_map(|(name, body)| boxed(name, body)).collect()
}

fn body<'a>(boxes: &'a mut [(Name, Vec<u8>)], name: &Name) -> &'a mut Vec<u8> {
    &mut boxes.iter_mut().find(|(found, _)| found == name).expect("a box of this name").1
}

fn repeat(boxes: &mut Vec<(Name, Vec<u8>)>, name: &Name) {
    let copy = boxes.iter().find(|(found, _)| found == name).expect("a box of this name").clone();
    boxes.push(copy);
}

/// The grid of four tiles (items 1 to 4, item 5 the grid) with an edited meta box, at the end so that the offsets in
/// the iloc box remain valid.
fn grid_with(edit: impl FnOnce(&mut Vec<(Name, Vec<u8>)>)) -> Vec<u8> {
    let mut file = split(&fixture("grid.heic"));
    let meta = file.iter_mut().find(|(name, _)| name == b"meta").expect("a meta box");
    meta.0 = *b"free";
    let mut children = split(&meta.1[4..]);
    edit(&mut children);
    [joined(&file), full(b"meta", 0, &joined(&children))].concat()
}

/// [`grid_with`] an edit of one box of the meta box.
fn grid_with_body(name: &Name, edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    grid_with(|meta| edit(body(meta, name)))
}

/// Adds one to the 16-bit number at `at`.
fn increment(bytes: &mut [u8], at: usize) {
    bytes[at + 1] += 1;
}

fn probe(bytes: &[u8]) -> Result<Header, DecodeError> {
    codec::probe(bytes, &Limits::default())
}

#[track_caller]
fn assert_refused(what: &str, bytes: &[u8], reason: &str) {
    match probe(bytes) {
        Err(DecodeError::Corrupt(found)) => assert!(found.contains(reason), "{what}: {found}"),
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn a_meta_box_at_the_end_is_read() {
    let seen: Picture = decode(&grid_with(|_| ())).expect("a picture").into();
    assert_close("grid.heic", &seen, &reference("grid.heic"), 6, 1.2);
}

#[test]
fn duplicate_boxes_are_refused() {
    let whole = fixture("grid.heic");
    let meta = split(&whole).into_iter().find(|(name, _)| name == b"meta").expect("a meta box").1;
    assert_refused("two meta boxes", &[&whole[..], &boxed(b"meta", &meta)].concat(), "two meta boxes");
    assert_refused("a mini box", &[&whole[..], &boxed(b"mini", &[0; 40])].concat(), "mini");
    for name in [b"hdlr", b"pitm", b"iinf", b"iloc", b"iprp", b"iref"] {
        let what = format!("two {} boxes", name.escape_ascii());
        assert_refused(&what, &grid_with(|meta| repeat(meta, name)), &what);
    }
    let two_of_data = grid_with(|meta| meta.extend([(*b"idat", vec![0; 8]), (*b"idat", vec![1; 8])]));
    assert_refused("two idat boxes", &two_of_data, "two idat boxes");
    let two_lists = grid_with_body(b"iprp", |iprp| {
        let mut parts = split(iprp);
        repeat(&mut parts, b"ipco");
        *iprp = joined(&parts);
    });
    assert_refused("two ipco boxes", &two_lists, "two ipco boxes");
}

#[test]
fn duplicate_descriptions_of_an_item_are_refused() {
    let in_iinf = grid_with_body(b"iinf", |iinf| {
        let mut items = split(&iinf[6..]);
        items.push(items[0].clone());
        increment(iinf, 4);
        iinf.splice(6.., joined(&items));
    });
    assert_refused("an item twice in iinf", &in_iinf, "two items of the number 1");
    let in_iloc = grid_with_body(b"iloc", |iloc| {
        let first = iloc[8..8 + 14].to_vec();
        increment(iloc, 6);
        iloc.extend(first);
    });
    assert_refused("an item twice in iloc", &in_iloc, "two locations of the item 1");
    let in_ipma = grid_with_body(b"iprp", |iprp| {
        let mut parts = split(iprp);
        repeat(&mut parts, b"ipma");
        *iprp = joined(&parts);
    });
    assert_refused("an item in two ipma boxes", &in_ipma, "two lists of properties");
    // The last item has one property, its size; the tiles' is the second.
    let sizes = grid_with_body(b"iprp", |iprp| {
        let mut parts = split(iprp);
        let ipma = body(&mut parts, b"ipma");
        assert!(ipma.ends_with(&[5, 1, 3]), "{ipma:?}");
        ipma.splice(ipma.len() - 2.., [2, 3, 2]);
        *iprp = joined(&parts);
    });
    assert_refused("two sizes of one item", &sizes, "two ispe properties");
}

#[test]
fn references_that_libheif_reads_differently_are_refused() {
    let twice = grid_with_body(b"iref", |iref| {
        let copy = iref[4..].to_vec();
        iref.extend(copy);
    });
    assert_refused("two dimg references", &twice, "two dimg references");
    // libheif continues after the last number, where this reader sees padding.
    let padded = grid_with_body(b"iref", |iref| {
        let mut references = split(&iref[4..]);
        references[0].1.extend(boxed(b"auxl", &[0, 1, 0, 1, 0, 5]));
        iref.splice(4.., joined(&references));
    });
    assert_refused("a reference inside another", &padded, "another size than its box");
}

#[test]
fn number_widths_that_libheif_ignores_are_refused() {
    for width in [1, 2, 3, 5, 15] {
        let narrow = grid_with_body(b"iloc", |iloc| iloc[4] = width << 4 | 4);
        assert_refused("offsets of another width", &narrow, "0, 4 or 8 bytes");
    }
}

/// A picture of one tile of `grid.heic`, to which items are added.
struct Heif {
    items: Vec<(u16, Name, Vec<u8>)>,
    properties: Vec<Vec<u8>>,
    associations: Vec<(u16, Vec<u8>)>,
    references: Vec<(Name, u16, Vec<u16>)>,
}

impl Heif {
    /// Item 1 is the tile and the primary item; properties 1 and 2 are its configuration and its size.
    fn tile(size: Size) -> Self {
        let file = split(&fixture("grid.heic"));
        let meta = &file.iter().find(|(name, _)| name == b"meta").expect("a meta box").1;
        let mut meta = split(&meta[4..]);
        let configuration = split(&split(body(&mut meta, b"iprp"))[0].1)[0].clone();
        assert_eq!(&configuration.0, b"hvcC");
        let first = &body(&mut meta, b"iloc")[8..8 + 14];
        let len = u32::from_be_bytes(*first.last_chunk().expect("a length")) as usize;
        let media = &file.iter().find(|(name, _)| name == b"mdat").expect("data").1;
        Self {
            items: vec![(1, *b"hvc1", media[..len].to_vec())],
            properties: vec![boxed(b"hvcC", &configuration.1), ispe(size)],
            associations: vec![(1, vec![1, 2])],
            references: Vec::new(),
        }
    }

    fn property(&mut self, property: Vec<u8>) -> u8 {
        self.properties.push(property);
        u8::try_from(self.properties.len()).expect("few properties")
    }

    /// Another picture with the stream of the tile.
    fn add(&mut self, item: u16, properties: &[u8]) {
        let stream = self.items[0].2.clone();
        self.items.push((item, *b"hvc1", stream));
        self.associations.push((item, [&[1][..], properties].concat()));
    }

    fn bytes(&self, primary: u16) -> Vec<u8> {
        let few = |count: usize| u16::try_from(count).expect("few").to_be_bytes();
        let ftyp = boxed(b"ftyp", b"heic\0\0\0\0mif1heic");
        let media: Vec<u8> = self.items.iter().flat_map(|(_, _, data)| data).copied().collect();
        let mut at = u32::try_from(ftyp.len() + 8).expect("short");
        let (mut infe, mut iloc) = (few(self.items.len()).to_vec(), [&[0x44, 0][..], &few(self.items.len())].concat());
        for (item, kind, data) in &self.items {
            let content_type: &[u8] = if kind == b"mime" { b"\0image/jpeg\0" } else { b"\0" };
            infe.extend(full(b"infe", 2, &[&item.to_be_bytes()[..], &[0, 0], kind, content_type].concat()));
            let len = u32::try_from(data.len()).expect("short");
            iloc.extend([&item.to_be_bytes()[..], &[0, 0, 0, 1], &at.to_be_bytes(), &len.to_be_bytes()].concat());
            at += len;
        }
        let mut ipma = [&[0, 0][..], &few(self.associations.len())].concat();
        for (item, properties) in &self.associations {
            ipma.extend(item.to_be_bytes());
            ipma.push(u8::try_from(properties.len()).expect("few"));
            ipma.extend(properties);
        }
        let references = self.references.iter().flat_map(|(kind, from, to)| {
            let to: Vec<u8> =
                [&few(to.len())[..], &to.iter().flat_map(|to| to.to_be_bytes()).collect::<Vec<_>>()].concat();
            boxed(kind, &[&from.to_be_bytes()[..], &to].concat())
        });
        let references: Vec<u8> = references.collect();
        let mut meta = full(b"hdlr", 0, b"\0\0\0\0pict\0\0\0\0\0\0\0\0\0\0\0\0\0");
        meta.extend(full(b"pitm", 0, &primary.to_be_bytes()));
        meta.extend(full(b"iinf", 0, &infe));
        meta.extend(full(b"iloc", 0, &iloc));
        meta.extend(boxed(b"iprp", &[boxed(b"ipco", &self.properties.concat()), full(b"ipma", 0, &ipma)].concat()));
        if !references.is_empty() {
            meta.extend(full(b"iref", 0, &references));
        }
        [ftyp, boxed(b"mdat", &media), full(b"meta", 0, &meta)].concat()
    }
}

fn ispe(size: Size) -> Vec<u8> {
    full(b"ispe", 0, &[size.width.to_be_bytes(), size.height.to_be_bytes()].concat())
}

const TILE: Size = Size::new(64, 64);
/// The largest number of pixels outside of the budget.
const LARGE: Size = Size::new(1024, 1024);

/// A tile with `count` auxiliary pictures of a megapixel each.
fn with_auxiliaries(kind: &[u8], count: u16) -> Vec<u8> {
    let mut heif = Heif::tile(TILE);
    let (size, kind) = (heif.property(ispe(LARGE)), heif.property(full(b"auxC", 0, &[kind, b"\0"].concat())));
    for item in 2..2 + count {
        heif.add(item, &[size, kind]);
        heif.references.push((*b"auxl", item, vec![1]));
    }
    heif.bytes(1)
}

#[test]
fn a_plain_container_of_a_tile_is_decoded() {
    assert_eq!(decode(&Heif::tile(TILE).bytes(1)).expect("a picture").size(), TILE);
}

#[test]
fn all_alpha_planes_share_the_pixel_budget() {
    for kind in
        ["urn:mpeg:hevc:2015:auxid:1", "urn:mpeg:avc:2015:auxid:1", "urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"]
    {
        assert!(probe(&with_auxiliaries(kind.as_bytes(), 1)).is_ok());
        assert_refused(kind, &with_auxiliaries(kind.as_bytes(), 2), "more pixels than its size can explain");
    }
    // The alpha of each tile of a grid, and the alpha of an alpha, are decoded too.
    let mut heif = Heif::tile(TILE);
    let alpha = heif.property(full(b"auxC", 0, b"urn:mpeg:hevc:2015:auxid:1\0"));
    let size = heif.property(ispe(LARGE));
    heif.add(2, &[size, alpha]);
    heif.add(3, &[size, alpha]);
    heif.references.extend([(*b"auxl", 2, vec![1]), (*b"auxl", 3, vec![2])]);
    assert_refused("the alpha of an alpha", &heif.bytes(1), "more pixels than its size can explain");
}

#[test]
fn an_auxiliary_type_without_an_end_is_refused() {
    // libheif leaves out the last character, and decodes these as alpha.
    let mut heif = Heif::tile(TILE);
    let alpha = heif.property(full(b"auxC", 0, b"urn:mpeg:hevc:2015:auxid:1?"));
    heif.add(2, &[2, alpha]);
    heif.references.push((*b"auxl", 2, vec![1]));
    assert_refused("an alpha in disguise", &heif.bytes(1), "an auxiliary type without an end");
}

#[test]
fn depth_and_gain_maps_are_not_decoded_and_not_counted() {
    for kind in ["urn:mpeg:hevc:2015:auxid:2", "urn:com:apple:photo:2020:aux:hdrgainmap"] {
        assert!(probe(&with_auxiliaries(kind.as_bytes(), 8)).is_ok(), "{kind}");
    }
}

#[test]
fn codecs_other_than_hevc_are_refused_by_name_of_the_item() {
    for kind in [b"jpeg", b"mime", b"av01", b"avc1", b"vvc1", b"j2k1", b"unci", b"lhv1", b"mski", b"tili"] {
        let mut heif = Heif::tile(TILE);
        heif.items[0] = (1, *kind, fixture("baseline_420.jpg"));
        let error = probe(&heif.bytes(1)).expect_err("not HEVC");
        assert!(matches!(error, DecodeError::Unsupported { found: Some(_) }), "{}: {error}", kind.escape_ascii());
    }
    // As the alpha of a picture that is HEVC.
    let mut heif = Heif::tile(TILE);
    let alpha = heif.property(full(b"auxC", 0, b"urn:mpeg:hevc:2015:auxid:1\0"));
    heif.add(2, &[2, alpha]);
    heif.items[1] = (2, *b"jpeg", fixture("baseline_420.jpg"));
    heif.references.push((*b"auxl", 2, vec![1]));
    assert!(matches!(probe(&heif.bytes(1)), Err(DecodeError::Unsupported { .. })));
}

#[test]
fn a_coded_picture_derived_from_others_is_refused() {
    let mut heif = Heif::tile(TILE);
    heif.add(2, &[2]);
    heif.references.push((*b"dimg", 1, vec![2]));
    assert_refused("a derived coded picture", &heif.bytes(1), "made of others");
}

#[test]
fn a_canvas_of_another_size_than_the_containers_is_refused() {
    let overlay = |width: u16, height: u16| {
        let mut heif = Heif::tile(TILE);
        let canvas = [&[0; 10][..], &width.to_be_bytes(), &height.to_be_bytes(), &[0; 4]].concat();
        heif.items.push((2, *b"iovl", canvas));
        heif.associations.push((2, vec![2]));
        heif.references.push((*b"dimg", 2, vec![1]));
        heif.bytes(2)
    };
    assert!(probe(&overlay(64, 64)).is_ok());
    assert_refused("a hidden canvas", &overlay(4096, 4096), "a canvas of 4096×4096");
}

#[test]
fn canvases_share_the_pixel_budget() {
    // Overlays of one small tile each, on canvases of a megapixel.
    let overlays = |count: u16| {
        let mut heif = Heif::tile(TILE);
        let size = heif.property(ispe(LARGE));
        let small = heif.property(ispe(TILE));
        let spec = |side: u16, layers: usize| {
            [&[0; 10][..], &side.to_be_bytes(), &side.to_be_bytes(), &vec![0; 4 * layers]].concat()
        };
        for item in 2..2 + count {
            heif.items.push((item, *b"iovl", spec(1024, 1)));
            heif.associations.push((item, vec![size]));
            heif.references.push((*b"dimg", item, vec![1]));
        }
        heif.items.push((100, *b"iovl", spec(64, usize::from(count))));
        heif.associations.push((100, vec![small]));
        heif.references.push((*b"dimg", 100, (2..2 + count).collect()));
        heif.bytes(100)
    };
    assert!(probe(&overlays(1)).is_ok());
    assert_refused("many canvases", &overlays(20), "more pixels than its size can explain");
}

#[test]
fn an_item_has_one_picture_and_few_slices() {
    let mut heif = Heif::tile(LARGE);
    let stream = heif.items[0].2.clone();
    heif.items[0].2 = stream.repeat(2);
    assert_refused("two pictures", &heif.bytes(1), "several pictures");
    let slices = |count: usize| {
        let slice: &[u8] = &[0, 0, 0, 3, 19 << 1, 1, 0x40];
        let mut heif = Heif::tile(LARGE);
        heif.items[0].2 = [&stream[..], &slice.repeat(count)].concat();
        heif.bytes(1)
    };
    assert!(probe(&slices(8)).is_ok());
    assert_refused("slices that each reach to the end", &slices(200), "more pixels than its size can explain");
}

#[test]
fn a_repeated_rotation_is_refused() {
    let mut heif = Heif::tile(TILE);
    let turn = heif.property(boxed(b"irot", &[1]));
    heif.associations[0].1.push(turn);
    assert!(decode(&heif.bytes(1)).is_ok());
    heif.associations[0].1.push(turn);
    assert_refused("two turns", &heif.bytes(1), "two irot properties");
}

#[test]
fn data_of_items_that_are_no_pictures_count_towards_the_byte_budget() {
    let mut heif = Heif::tile(TILE);
    for item in 2..52 {
        heif.items.push((item, *b"Exif", vec![0; 100]));
    }
    assert!(probe(&heif.bytes(1)).is_ok());
    let whole = heif.bytes(1);
    // Each of the fifty refers to the same first 5 kB.
    let mut file = split(&whole);
    let meta = body(&mut file, b"meta");
    let mut children = split(&meta[4..]);
    let iloc = body(&mut children, b"iloc");
    for entry in iloc[8 + 14..].chunks_exact_mut(14) {
        entry[6..10].copy_from_slice(&32_u32.to_be_bytes());
        entry[10..].copy_from_slice(&5000_u32.to_be_bytes());
    }
    meta.splice(4.., joined(&children));
    assert_refused("overlapping data", &joined(&file), "more data than it has");
}
