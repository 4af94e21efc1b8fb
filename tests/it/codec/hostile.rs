//! Hostile files: truncated, mutated, oversized, compression bombs. Each is refused, or decoded within its limits.

use crate::codec::support::{Picture, decode, fixture, names, reference};
use crate::support::hang_guard::within_a_minute;
use backdrop::codec::{self, DecodeError, Flaw, Limits};
use backdrop::image::Size;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn readable() -> Vec<String> {
    let extensions: &[&str] =
        if cfg!(feature = "heic") { &[".jpg", ".png", ".webp", ".heic"] } else { &[".jpg", ".png", ".webp"] };
    extensions.iter().flat_map(|extension| names(extension)).collect()
}

/// The reason for which `bytes` are refused as corrupt or unsupported.
fn refusal(bytes: &[u8]) -> String {
    match decode(bytes) {
        Ok(_) => panic!("accepted"),
        Err(error @ (DecodeError::Corrupt(_) | DecodeError::Unsupported { .. })) => error.to_string(),
        Err(error) => panic!("refused for another reason: {error}"),
    }
}

/// A chunk of a PNG.
pub(crate) fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut checksum = !0_u32;
    for byte in name.iter().chain(data) {
        checksum ^= u32::from(*byte);
        for _ in 0..8 {
            checksum = if checksum & 1 == 1 { checksum >> 1 ^ 0xedb8_8320 } else { checksum >> 1 };
        }
    }
    let len = u32::try_from(data.len()).expect("a small chunk");
    [&len.to_be_bytes()[..], name, data, &(!checksum).to_be_bytes()].concat()
}

/// A PNG header of eight-bit grey.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
    [&b"\x89PNG\r\n\x1a\n"[..], &chunk(b"IHDR", &header)].concat()
}

pub(crate) fn with_png_chunk(bytes: &[u8], chunk: &[u8]) -> Vec<u8> {
    let behind_header = 8 + 12 + 13;
    [&bytes[..behind_header], chunk, &bytes[behind_header..]].concat()
}

/// A zlib stream of `len` zeros.
fn zeros(len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, u32::try_from(len - 1).expect("small"), 1);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_compression(png::Compression::Balanced);
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&vec![0; len - 1]).expect("pixels");
    writer.finish().expect("an end");
    let at = out.windows(4).position(|name| name == b"IDAT").expect("data");
    let size = u32::from_be_bytes(*out[at - 4..].first_chunk().expect("a length")) as usize;
    out[at + 4..at + 4 + size].to_vec()
}

#[test]
fn a_truncated_file_is_an_error_and_never_a_panic() {
    for name in readable() {
        let whole = fixture(&name);
        let right: Picture = decode(&whole).expect("a picture").into();
        for len in 1..whole.len() {
            match decode(&whole[..len]) {
                Err(DecodeError::Corrupt(_)) => {}
                // Too short to detect the container.
                Err(DecodeError::Unsupported { .. }) if len < 16 => {}
                // WebP pads its last chunk.
                Ok(frame) if len + 1 == whole.len() && name.ends_with(".webp") => {
                    assert_eq!(Picture::from(frame), right, "{name}");
                }
                // All pixels are there; the last bits of a progressive scan may be without effect.
                Ok(frame) if len + 4 >= whole.len() && name.ends_with(".jpg") => {
                    assert_eq!(Picture::from(frame), right, "{name}");
                }
                Ok(_) => panic!("{name} cut to {len} of {} bytes was a success", whole.len()),
                Err(error) => panic!("{name} cut to {len} bytes: {error}"),
            }
        }
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let mut dice = StdRng::seed_from_u64(20_240_607);
    // Small limits, so that a flipped size does not take a gigabyte.
    let limits = Limits { max_side: 512, ..Limits::default() };
    for name in readable() {
        let whole = fixture(&name);
        for _ in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..dice.random_range(1..6) {
                let at = dice.random_range(0..bytes.len());
                bytes[at] ^= 1 << dice.random_range(0..8);
            }
            if let Ok(header) = codec::probe(&bytes, &limits) {
                let pool = backdrop::image::BufferPool::new(0);
                if let Ok(frame) = codec::decode(&bytes, &header, &pool) {
                    assert_eq!(frame.size(), header.size, "{name}");
                }
            }
        }
    }
}

#[test]
fn trailing_bytes_are_ignored() {
    for name in readable().iter().filter(|name| !name.ends_with(".heic")) {
        let mut bytes = fixture(name);
        let right: Picture = decode(&bytes).expect("a picture").into();
        bytes.extend(fixture("baseline_420.jpg"));
        bytes.extend([0xff; 100]);
        assert_eq!(Picture::from(decode(&bytes).expect("a picture")), right, "{name}");
    }
}

#[test]
fn a_picture_over_the_limit_is_refused_by_its_header() {
    let limits = Limits::default();
    let probe = |width, height| {
        let bytes = [png_header(width, height), chunk(b"IDAT", &[0; 16]), chunk(b"IEND", &[])].concat();
        codec::probe(&bytes, &limits)
    };
    assert!(probe(4096, 4096).is_ok());
    for (width, height) in [(4097, 1), (1, 4097), (60_000, 60_000), (u32::MAX, u32::MAX)] {
        match probe(width, height) {
            Err(DecodeError::TooManyPixels { size, limit }) => {
                assert_eq!((size, limit), (Size::new(width, height), 4096));
            }
            other => panic!("{width}×{height}: {other:?}"),
        }
    }
    assert!(matches!(probe(0, 5), Err(DecodeError::Corrupt(_))));
    assert!(matches!(probe(5, 0), Err(DecodeError::Corrupt(_))));
}

#[test]
fn the_given_limits_apply() {
    let limits = Limits { max_bytes: 1000, max_side: 6000, max_megapixels: 24 };
    let refusal_of = |width, height, filler| {
        let bytes = [png_header(width, height), chunk(b"IDAT", &vec![0; filler]), chunk(b"IEND", &[])].concat();
        codec::probe(&bytes, &limits).err().map(|error| error.to_string())
    };
    assert_eq!(refusal_of(6000, 4000, 16), None);
    for (width, height, filler, message) in [
        (6001, 1, 16, "the picture is 6001×1, more than 6000×6000 pixels"),
        (1, 6001, 16, "the picture is 1×6001, more than 6000×6000 pixels"),
        (6000, 4001, 16, "the picture is 6000×4001, more than 24 megapixels"),
        (1, 1, 1000, "the file has more than 1000 bytes"),
    ] {
        assert_eq!(refusal_of(width, height, filler).as_deref(), Some(message));
    }
}

/// A small WebP whose header declares 16384×16384 pixels.
pub(crate) fn wide_webp() -> Vec<u8> {
    let mut webp = fixture("lossless.webp");
    webp[21..25].copy_from_slice(&0x0fff_ffff_u32.to_le_bytes());
    webp
}

#[test]
fn declared_sizes_of_jpegs_and_webps_are_limited() {
    let mut jpeg = fixture("baseline_444.jpg");
    let frame = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).expect("a frame header");
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    assert!(matches!(codec::probe(&jpeg, &Limits::default()), Err(DecodeError::TooManyPixels { .. })));
    assert!(matches!(codec::probe(&wide_webp(), &Limits::default()), Err(DecodeError::TooManyPixels { .. })));
}

#[test]
fn a_jpeg_with_less_data_than_its_size_is_corrupt() {
    for name in ["baseline_444.jpg", "progressive_444.jpg", "baseline_420.jpg"] {
        let mut jpeg = fixture(name);
        let frame =
            jpeg.windows(2).position(|pair| pair[0] == 0xff && matches!(pair[1], 0xc0 | 0xc2)).expect("a frame");
        jpeg[frame + 5..frame + 9].copy_from_slice(&[0x10, 0x00, 0x10, 0x00]);
        refusal(&jpeg);
    }
}

#[test]
fn a_truncated_scan_is_corrupt_even_with_an_end_marker() {
    for name in ["baseline_420.jpg", "baseline_444.jpg", "grey.jpg", "cmyk_adobe.jpg", "progressive_420.jpg"] {
        let whole = fixture(name);
        let scan = whole.windows(2).position(|pair| pair == [0xff, 0xda]).expect("a scan") + 14;
        // The first scan of a progressive picture has a bit per block; finer scans follow.
        let kept = if name.starts_with("progressive") { scan + 1 } else { scan + (whole.len() - scan) / 2 };
        refusal(&[&whole[..kept], &[0xff, 0xd9]].concat());
    }
}

#[test]
fn a_jpeg_with_too_many_scans_is_refused_by_the_probe() {
    let whole = fixture("progressive_444.jpg");
    let body = &whole[..whole.len() - 2];
    let last = body.windows(2).rposition(|pair| pair == [0xff, 0xda]).expect("a scan");
    let mut bomb = body.to_vec();
    while bomb.len() < 1 << 20 {
        bomb.extend(&body[last..]);
    }
    bomb.extend([0xff, 0xd9]);
    let error = codec::probe(&bomb, &Limits::default()).expect_err("too many scans").to_string();
    assert!(error.contains("scans"), "{error}");
}

/// A PNG with `inflated` zeros in a compressed chunk of metadata, for each kind of chunk.
pub(crate) fn metadata_bombs(plain: &[u8], inflated: usize) -> [Vec<u8>; 3] {
    let bomb = zeros(inflated);
    assert!(bomb.len() < inflated / 300, "it compresses well");
    let kinds = [(b"zTXt", &b"Comment\0\0"[..]), (b"iCCP", b"Profile\0\0"), (b"iTXt", b"Comment\0\x01\0\0\0")];
    kinds.map(|(name, head)| with_png_chunk(plain, &chunk(name, &[head, &bomb].concat())))
}

#[test]
fn a_png_with_compression_bombs_in_its_metadata_is_decoded() {
    let right = reference("rgba_8.png");
    for bytes in metadata_bombs(&fixture("rgba_8.png"), 60_000_000) {
        let decoded = within_a_minute("a bomb of metadata", move || decode(&bytes));
        assert_eq!(Picture::from(decoded.expect("a picture")), right);
    }
}

#[test]
fn a_png_with_a_compression_bomb_after_its_last_row_is_decoded() {
    let bomb = zeros(60_000_000);
    let bytes = [png_header(3, 3), chunk(b"IDAT", &bomb), chunk(b"IEND", &[])].concat();
    let decoded = within_a_minute("a bomb of pixels", move || decode(&bytes));
    assert_eq!(decoded.expect("nine black pixels").size(), Size::new(3, 3));
}

#[test]
fn a_wrong_checksum_of_whole_pixels_is_a_flaw_and_of_others_corrupt() {
    for name in ["rgb_8.png", "rgb_8_interlaced.png"] {
        let whole = fixture(name);
        let right: Picture = decode(&whole).expect("a picture").into();
        let flaw = |bytes: &[u8]| codec::probe(bytes, &Limits::default()).expect("a header").flaw;
        assert_eq!(flaw(&whole), None);
        let end = whole.windows(4).position(|name| name == b"IEND").expect("an end") - 4;
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        };
        let chunk = flipped(end - 1);
        assert_eq!(flaw(&chunk), Some(Flaw::WrongChecksum));
        assert_eq!(Picture::from(decode(&chunk).expect("its pixels are whole")), right);
        // The last byte of the stream's checksum; a byte of the pixels.
        for at in [end - 5, end - 40] {
            refusal(&flipped(at));
        }
    }
}

#[test]
fn a_bomb_behind_a_wrong_checksum_is_not_inflated() {
    let mut bytes = [png_header(3, 3), chunk(b"IDAT", &zeros(60_000_000)), chunk(b"IEND", &[])].concat();
    let at = bytes.len() - 13;
    bytes[at] ^= 1;
    let error = within_a_minute("a bomb of pixels", move || refusal(&bytes));
    assert!(error.contains("more data"), "{error}");
}

#[test]
fn unsupported_kinds_of_jpeg_are_named() {
    let mut jpeg = fixture("baseline_444.jpg");
    let frame = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).expect("a frame header");
    jpeg[frame + 1] = 0xc9;
    assert!(refusal(&jpeg).contains("arithmetic"));
    jpeg[frame + 1] = 0xc0;
    jpeg[frame + 4] = 12;
    assert!(refusal(&jpeg).contains("more than eight bits"));
}
