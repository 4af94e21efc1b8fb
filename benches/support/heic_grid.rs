//! Writes HEIC files of any size without an encoder: grids (ISO/IEC 23008-12, 6.6.2.3) whose tiles repeat one coded picture.
//!
//! Each tile has a copy of the data, because a file whose items have more data than the file is refused.

/// A grid of `columns` × `rows` tiles. Each is the picture of `coded`, a file with one coded picture.
pub(crate) fn heic_grid(coded: &[u8], columns: u8, rows: u8) -> Vec<u8> {
    let (configuration, tile_size, stream) =
        (content(coded, b"hvcC"), content(coded, b"ispe"), content(coded, b"mdat"));
    // Width and height follow version and flags.
    let [width, height] = [(4, columns), (8, rows)].map(|(at, tiles)| number(&tile_size[at..]) * u32::from(tiles));
    let short = |side: u32| u16::try_from(side).expect("a side of a picture").to_be_bytes();
    let layout = [&[0, 0, rows - 1, columns - 1][..], &short(width), &short(height)].concat();

    let tiles = u16::from(columns) * u16::from(rows);
    let grid = tiles + 1;
    let start = boxed(b"ftyp", &[b"heic", &[0; 4], b"mif1heic"]);
    let data = [stream.repeat(usize::from(tiles)), layout.clone()].concat();
    let mut at = start.len() + 8;
    let (mut entries, mut places, mut properties) = (Vec::new(), Vec::new(), Vec::new());
    for item in 1..=grid {
        let (kind, numbers, len): (&[u8; 4], &[u8], usize) =
            if item < grid { (b"hvc1", &[1, 2], stream.len()) } else { (b"grid", &[3], layout.len()) };
        entries.extend(boxed(b"infe", &[&[2, 0, 0, 0], &item.to_be_bytes(), &[0, 0], kind, &[0]]));
        // In this file; one extent.
        places.extend([&item.to_be_bytes()[..], &[0, 0, 0, 1], &long(at), &long(len)].concat());
        properties.extend([&item.to_be_bytes()[..], &[numbers.len() as u8], numbers].concat());
        at += len;
    }
    let parts: Vec<u8> = (1..grid).flat_map(u16::to_be_bytes).collect();
    let parts = boxed(b"dimg", &[&grid.to_be_bytes(), &tiles.to_be_bytes(), &parts]);
    let sizes = [boxed(b"ispe", &[tile_size]), boxed(b"ispe", &[&[0; 4], &width.to_be_bytes(), &height.to_be_bytes()])];
    let meta = boxed(
        b"meta",
        &[
            &[0; 4],
            &boxed(b"hdlr", &[&[0; 8], b"pict", &[0; 13]]),
            &boxed(b"pitm", &[&[0; 4], &grid.to_be_bytes()]),
            &boxed(b"iloc", &[&[0, 0, 0, 0, 0x44, 0], &grid.to_be_bytes(), &places]),
            &boxed(b"iinf", &[&[0; 4], &grid.to_be_bytes(), &entries]),
            &boxed(b"iref", &[&[0; 4], &parts]),
            &boxed(
                b"iprp",
                &[
                    &boxed(b"ipco", &[&boxed(b"hvcC", &[configuration]), &sizes.concat()]),
                    &boxed(b"ipma", &[&[0; 4], &u32::from(grid).to_be_bytes(), &properties]),
                ],
            ),
        ],
    );
    [start, boxed(b"mdat", &[&data]), meta].concat()
}

/// The content of the first box `name`.
fn content<'a>(file: &'a [u8], name: &[u8; 4]) -> &'a [u8] {
    let at = file.windows(4).position(|bytes| bytes == name).expect("a box of this name");
    let start = at - 4;
    &file[at + 4..start + number(&file[start..]) as usize]
}

fn boxed(name: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&long(body.len() + 8)[..], name, &body].concat()
}

fn long(value: usize) -> [u8; 4] {
    u32::try_from(value).expect("a short file").to_be_bytes()
}

/// The big-endian number at the start of `bytes`.
fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(*bytes.first_chunk().expect("four bytes"))
}
