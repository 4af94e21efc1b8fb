//! Encoded pictures decode to the same pixels, exactly or within the quality's error, without metadata.

use crate::codec::support::{Picture, assert_close, decode, difference, reference, visible};
use backdrop::codec::{self, Channels, EncodeError, EncodeOptions, PngEffort};
use backdrop::image::{Buffer, Composite, EncodedImage, Frame, OutputFormat, Quality, Size};

fn composite(picture: &Picture) -> Composite {
    Composite::unchanged(Frame::new(picture.size, Buffer::from(picture.pixels.clone())))
}

fn options(format: OutputFormat, quality: u8) -> EncodeOptions {
    let quality = Quality::new(quality).expect("1 to 100");
    EncodeOptions { format, quality, png: PngEffort::Fast, channels: Channels::Rgba }
}

fn encoded(picture: &Picture, options: &EncodeOptions) -> EncodedImage {
    let file = codec::encode(composite(picture), options).expect("a file");
    assert_eq!((file.size, file.format), (picture.size, options.format));
    file
}

fn decode_again(file: &EncodedImage) -> Picture {
    decode(&file.bytes).expect("our own file").into()
}

fn cutout() -> Picture {
    reference("lossless_alpha.webp")
}

fn opaque() -> Picture {
    reference("lossless.webp")
}

/// The alpha of `picture` as opaque grey.
fn matte(picture: &Picture) -> Picture {
    let pixels = picture.pixels.chunks_exact(4).flat_map(|p| [p[3], p[3], p[3], 255]).collect();
    Picture { size: picture.size, pixels }
}

/// Names and data of the chunks of a PNG.
fn chunks(bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let (mut at, mut chunks) = (8, Vec::new());
    while at < bytes.len() {
        let len = u32::from_be_bytes(*bytes[at..].first_chunk().expect("a length")) as usize;
        chunks.push((&bytes[at + 4..at + 8], &bytes[at + 8..at + 8 + len]));
        at += len + 12;
    }
    chunks
}

#[test]
fn png_and_lossless_webp_keep_every_visible_pixel_and_no_hidden_colour() {
    for picture in [cutout(), opaque()] {
        for png in [PngEffort::Fast, PngEffort::Default, PngEffort::Best] {
            let file = encoded(&picture, &EncodeOptions { png, ..options(OutputFormat::Png, 92) });
            // Equal with hidden colours zeroed: the file contains nothing of the background.
            assert_eq!(decode_again(&file), visible(picture.clone()), "{png:?}");
        }
        assert_eq!(decode_again(&encoded(&picture, &options(OutputFormat::WebP, 100))), visible(picture.clone()));
    }
}

#[test]
fn more_png_effort_never_makes_a_larger_file() {
    let lens = |picture: &Picture| {
        let len = |png| encoded(picture, &EncodeOptions { png, ..options(OutputFormat::Png, 92) }).bytes.len();
        [PngEffort::Fast, PngEffort::Default, PngEffort::Best].map(len)
    };
    let [fast, default, best] = lens(&cutout());
    assert!(best <= default && default < fast, "{fast} {default} {best}");
    let mut seed = 1_u32;
    let noise = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 28) as u8
    });
    let noise = Picture { size: Size::new(128, 128), pixels: noise.take(128 * 128 * 4).collect() };
    assert!(lens(&noise).is_sorted_by(|less, more| less >= more));
}

/// A cutout of many strips: noise of little amplitude in a disc.
fn large_cutout(size: Size) -> Picture {
    let mut seed = 1_u32;
    let pixel = |at: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (x, y) = (at % size.width as usize, at / size.width as usize);
        let (u, v) = (x as f32 / size.width as f32 - 0.5, y as f32 / size.height as f32 - 0.5);
        let alpha = ((0.4 - u.hypot(v)) * 8000.0).clamp(0.0, 255.0) as u8;
        let level = (x / 9 + y / 5) as u8;
        [level, level.wrapping_add((seed >> 29) as u8), 200, alpha]
    };
    Picture { size, pixels: (0..size.area()).flat_map(pixel).collect() }
}

#[test]
fn a_png_of_many_strips_has_the_same_bytes_on_any_number_of_threads() {
    let picture = large_cutout(Size::new(1237, 701));
    for (png, channels) in
        [(PngEffort::Default, Channels::Rgba), (PngEffort::Best, Channels::Rgba), (PngEffort::Default, Channels::Alpha)]
    {
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| encoded(&picture, &EncodeOptions { png, channels, ..options(OutputFormat::Png, 92) }))
        };
        let file = on(1);
        assert_eq!(file.bytes, on(3).bytes, "{png:?}");
        let right = if channels == Channels::Alpha { matte(&picture) } else { visible(picture.clone()) };
        assert!(decode_again(&file) == right, "{png:?} {channels:?}");
        // The png crate stops at the last row, so the checksum of the whole stream is verified here.
        let data = chunks(&file.bytes).into_iter().filter(|(name, _)| *name == b"IDAT");
        let stream: Vec<u8> = data.flat_map(|(_, data)| data).copied().collect();
        assert!(fdeflate::decompress_to_vec(&stream).is_ok(), "{png:?} {channels:?}");
    }
}

#[test]
fn a_png_has_no_more_channels_than_it_needs_and_no_metadata() {
    let colour_type = |file: &EncodedImage| file.bytes[25];
    let png = options(OutputFormat::Png, 92);
    for (file, right) in [
        (encoded(&cutout(), &png), 6),
        (encoded(&opaque(), &png), 2),
        (encoded(&cutout(), &EncodeOptions { channels: Channels::Alpha, ..png }), 0),
    ] {
        assert_eq!(colour_type(&file), right);
        let mut names: Vec<_> = chunks(&file.bytes).into_iter().map(|(name, _)| name).collect();
        names.dedup();
        assert_eq!(names, [b"IHDR", b"IDAT", b"IEND"]);
    }
}

#[test]
fn the_alpha_channel_alone_is_written_as_grey() {
    let right = matte(&cutout());
    for (format, quality, max) in [
        (OutputFormat::Png, 92, 0),
        (OutputFormat::WebP, 100, 0),
        (OutputFormat::WebP, 92, 24),
        (OutputFormat::Jpeg, 92, 24),
    ] {
        let file = encoded(&cutout(), &EncodeOptions { channels: Channels::Alpha, ..options(format, quality) });
        assert_close(&format!("{format:?} {quality}"), &decode_again(&file), &right, max, f64::from(max) / 12.0);
    }
}

#[test]
fn lossy_webp_keeps_alpha_exactly_and_colour_approximately() {
    let picture = visible(cutout());
    let seen = decode_again(&encoded(&picture, &options(OutputFormat::WebP, 92)));
    for (seen, right) in seen.pixels.chunks_exact(4).zip(picture.pixels.chunks_exact(4)) {
        assert_eq!(seen[3], right[3]);
    }
    let solid = |picture: &Picture| {
        let pixels =
            picture.pixels.chunks_exact(4).flat_map(|p| if p[3] == 255 { [p[0], p[1], p[2], 255] } else { [0; 4] });
        Picture { size: picture.size, pixels: pixels.collect() }
    };
    assert_close("lossy", &solid(&seen), &solid(&picture), 48, 3.0);
}

#[test]
fn higher_quality_has_less_error_and_more_bytes() {
    for format in [OutputFormat::Jpeg, OutputFormat::WebP] {
        let files: Vec<_> = [20, 60, 95].map(|quality| encoded(&opaque(), &options(format, quality))).to_vec();
        assert!(files.is_sorted_by_key(|file| file.bytes.len()), "{format:?}");
        let errors: Vec<f64> = files.iter().map(|file| difference(&decode_again(file), &opaque()).mean).collect();
        assert!(errors.is_sorted_by(|a, b| a > b), "{format:?}: {errors:?}");
        assert!(errors[2] < 2.5, "{format:?}: {errors:?}");
    }
}

/// Sampling factors of the first component, and the markers.
fn jpeg_facts(bytes: &[u8]) -> (u8, Vec<u8>) {
    let (mut at, mut factors, mut markers) = (2, 0, Vec::new());
    while bytes[at + 1] != 0xda {
        let marker = bytes[at + 1];
        markers.push(marker);
        if marker == 0xc0 {
            factors = bytes[at + 11];
        }
        at += 2 + usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
    }
    (factors, markers)
}

#[test]
fn jpeg_subsamples_chroma_below_quality_90_only_and_has_no_metadata() {
    for (quality, right) in [(89, 0x22), (90, 0x11), (92, 0x11), (1, 0x22), (100, 0x11)] {
        let file = encoded(&opaque(), &options(OutputFormat::Jpeg, quality));
        let (factors, markers) = jpeg_facts(&file.bytes);
        assert_eq!(factors, right, "quality {quality}");
        assert!(markers.iter().all(|marker| !matches!(marker, 0xe1..=0xef | 0xfe)), "{markers:x?}");
    }
}

#[test]
fn a_transparent_jpeg_is_an_error_for_the_caller_to_flatten() {
    let error = codec::encode(composite(&cutout()), &options(OutputFormat::Jpeg, 92)).expect_err("no alpha");
    assert!(matches!(error, EncodeError::Encoder { format: OutputFormat::Jpeg, .. }));
    assert!(error.to_string().contains("background"), "{error}");
}

#[test]
fn a_side_above_the_limit_of_the_format_is_an_error() {
    let strip = |width| Picture { size: Size::new(width, 1), pixels: vec![255; width as usize * 4] };
    for quality in [92, 100] {
        assert!(codec::encode(composite(&strip(16_384)), &options(OutputFormat::WebP, quality)).is_err());
        assert!(codec::encode(composite(&strip(16_383)), &options(OutputFormat::WebP, quality)).is_ok());
    }
    assert!(codec::encode(composite(&strip(65_536)), &options(OutputFormat::Jpeg, 92)).is_err());
    assert!(codec::encode(composite(&strip(65_535)), &options(OutputFormat::Jpeg, 92)).is_ok());
}

#[test]
fn pictures_of_one_pixel_and_one_line_are_written_in_every_format() {
    for (width, height) in [(1, 1), (1, 37), (37, 1)] {
        let picture = Picture { size: Size::new(width, height), pixels: vec![200; (width * height * 4) as usize] };
        let solid = Picture { pixels: [90, 120, 150, 255].repeat((width * height) as usize), ..picture.clone() };
        assert_eq!(decode_again(&encoded(&picture, &options(OutputFormat::Png, 92))), picture);
        assert_eq!(decode_again(&encoded(&picture, &options(OutputFormat::WebP, 100))), picture);
        for format in [OutputFormat::Jpeg, OutputFormat::WebP] {
            assert_close("small", &decode_again(&encoded(&solid, &options(format, 92))), &solid, 6, 4.0);
        }
    }
}
