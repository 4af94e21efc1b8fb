//! WebP files whose header contradicts their chunks. The probe refuses another size before pixels are allocated, ignores flags of
//! absent chunks, and alpha is decoded without its flag.

use crate::codec::support::{decode, fixture};
use backdrop::codec::{self, DecodeError, Limits};
use backdrop::image::Size;

const DECLARED: Size = Size::new(64, 64);
/// A decoder would allocate some 300 MB for this size.
const ACTUAL: Size = Size::new(16383, 12000);

fn u24(value: u32) -> [u8; 3] {
    let [low, mid, high, _] = value.to_le_bytes();
    [low, mid, high]
}

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let len = u32::try_from(data.len()).expect("a small chunk");
    let padding = &[0][..data.len() % 2];
    [name, &len.to_le_bytes()[..], data, padding].concat()
}

fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
    let chunks = chunks.concat();
    let len = u32::try_from(chunks.len() + 4).expect("a small file");
    [b"RIFF", &len.to_le_bytes()[..], b"WEBP", &chunks].concat()
}

fn canvas(Size { width, height }: Size, flags: u8) -> Vec<u8> {
    chunk(b"VP8X", &[&[flags, 0, 0, 0][..], &u24(width - 1), &u24(height - 1)].concat())
}

const STILL: u8 = 0;
const ANIMATED: u8 = 2;

/// The header of a key frame and the beginning of its data.
fn lossy(Size { width, height }: Size) -> Vec<u8> {
    let side = |side: u32| u16::try_from(side).expect("14 bits").to_le_bytes();
    chunk(b"VP8 ", &[&[0x10, 0, 0, 0x9d, 0x01, 0x2a][..], &side(width), &side(height), &[0; 20]].concat())
}

fn lossless(Size { width, height }: Size) -> Vec<u8> {
    let bits = (width - 1) | (height - 1) << 14;
    chunk(b"VP8L", &[&[0x2f][..], &bits.to_le_bytes(), &[0; 20]].concat())
}

fn animation(canvas_size: Size, frames: &[Vec<u8>]) -> Vec<u8> {
    let head = [canvas(canvas_size, ANIMATED), chunk(b"ANIM", &[0; 6])];
    file(&[&head, frames].concat())
}

/// A frame of `size` at (2 `left`, 2 `top`).
fn frame([left, top]: [u32; 2], Size { width, height }: Size, data: &[Vec<u8>]) -> Vec<u8> {
    let header = [u24(left), u24(top), u24(width - 1), u24(height - 1), u24(100)].concat();
    chunk(b"ANMF", &[&header[..], &[0], &data.concat()].concat())
}

fn probed(bytes: &[u8]) -> Result<Size, DecodeError> {
    codec::probe(bytes, &Limits::default()).map(|header| header.size)
}

fn assert_refused(bytes: &[u8], what: &str) {
    match probed(bytes) {
        Err(DecodeError::Corrupt(_)) => {}
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn a_picture_of_another_size_than_its_canvas_or_frame_is_refused() {
    for actual in [DECLARED, ACTUAL, Size::new(65, 64), Size::new(64, 63)] {
        for data in [vec![lossy(actual)], vec![lossless(actual)], vec![chunk(b"ALPH", &[0; 9]), lossy(actual)]] {
            let animated = animation(DECLARED, &[frame([0, 0], DECLARED, &data)]);
            let still = file(&[vec![canvas(DECLARED, STILL)], data].concat());
            for (bytes, what) in [(still, "a still picture"), (animated, "a frame")] {
                match actual == DECLARED {
                    true => assert_eq!(probed(&bytes).expect("one size"), DECLARED),
                    false => assert_refused(&bytes, what),
                }
            }
        }
    }
}

#[test]
fn a_frame_may_be_anywhere_on_the_canvas_but_not_beyond() {
    let size = Size::new(20, 10);
    for (place, fits) in
        [([0, 0], true), ([22, 27], true), ([23, 27], false), ([22, 28], false), ([0xff_ffff, 0], false)]
    {
        let bytes = animation(DECLARED, &[frame(place, size, &[lossy(size)])]);
        match fits {
            true => assert_eq!(probed(&bytes).expect("a frame on the canvas"), DECLARED),
            false => assert_refused(&bytes, "a frame beyond the canvas"),
        }
    }
    assert_refused(&animation(DECLARED, &[frame([0, 0], ACTUAL, &[lossy(ACTUAL)])]), "a frame larger than the canvas");
}

#[test]
fn a_file_or_frame_without_picture_data_is_refused() {
    let still = |chunks: &[Vec<u8>]| file(&[&[canvas(DECLARED, STILL)], chunks].concat());
    assert_refused(&still(&[]), "no picture");
    assert_refused(&still(&[frame([0, 0], DECLARED, &[lossy(DECLARED)])]), "a frame in a still file");
    assert_refused(&animation(DECLARED, &[lossy(DECLARED)]), "a still picture in an animation");
    assert_refused(&animation(DECLARED, &[frame([0, 0], DECLARED, &[])]), "an empty frame");
    assert_refused(&animation(DECLARED, &[frame([0, 0], DECLARED, &[chunk(b"ALPH", &[0; 9])])]), "coverage alone");
    // A decoder may read what follows coverage as lossy data, whatever its name.
    let unnamed = [chunk(b"ALPH", &[0; 9]), chunk(b"XXXX", &lossy(ACTUAL)[8..])];
    assert_refused(&animation(DECLARED, &[frame([0, 0], DECLARED, &unnamed)]), "coverage and something unknown");
    // A decoder may read a picture after the file's declared end.
    let hidden = [still(&[frame([0, 0], DECLARED, &[lossy(DECLARED)])]), lossy(ACTUAL)].concat();
    assert_refused(&hidden, "a picture behind the end");
}

#[test]
fn flags_of_absent_chunks_do_not_matter() {
    let plain = decode(&fixture("lossy.webp")).expect("a valid file");
    let size = plain.size();
    let data = fixture("lossy.webp")[12..].to_vec();
    for flags in [0x04, 0x08, 0x10, 0x20, 0x3c] {
        let decoded = decode(&file(&[canvas(size, flags), data.clone()])).expect("a valid picture");
        assert!(decoded.pixels() == plain.pixels(), "{flags:#x}");
    }
    // Alpha data are decoded whatever the other flags say.
    let mut with_alpha = fixture("lossy_alpha.webp");
    let expected = decode(&with_alpha).expect("a valid file");
    with_alpha[20] |= 0x0c;
    assert!(decode(&with_alpha).expect("a valid picture").pixels() == expected.pixels());
}

#[test]
fn alpha_is_decoded_where_its_flag_is_missing() {
    // A file of one chunk, and the same chunk in an extended file without flags.
    let plain = fixture("lossless_alpha.webp");
    assert_eq!(plain[12..16], *b"VP8L");
    let expected = decode(&plain).expect("a valid file");
    assert!(expected.has_transparency());
    let extended = file(&[canvas(expected.size(), STILL), plain[12..].to_vec()]);
    assert!(decode(&extended).expect("a valid picture").pixels() == expected.pixels(), "lossless");
    let mut lossy = fixture("lossy_alpha.webp");
    let expected = decode(&lossy).expect("a valid file");
    assert!(expected.has_transparency());
    lossy[20] &= !0x10;
    assert!(decode(&lossy).expect("a valid picture").pixels() == expected.pixels(), "lossy");
}
