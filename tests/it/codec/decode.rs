//! Every container, colour model and orientation is decoded to upright sRGB with straight alpha.

use crate::codec::hostile::{chunk, with_png_chunk};
use crate::codec::support::{Picture, assert_close, decode, fixture, names, read_png, reference, visible};
use backdrop::codec::{self, Header, Limits};
use backdrop::image::BufferPool;
use moxcms::ColorProfile;

fn check(name: &str, max: u8, mean: f64) {
    let seen: Picture = decode(&fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}")).into();
    assert_close(name, &visible(seen), &visible(reference(name)), max, mean);
}

#[test]
fn jpegs_of_every_kind_agree_with_libjpeg() {
    for name in names(".jpg") {
        let (max, mean) = match name.as_str() {
            // Another colour engine, and for CMYK another interpolation of the table too.
            "cmyk_profile.jpg" => (10, 1.5),
            "display_p3.jpg" | "adobe_rgb.jpg" | "grey_profile.jpg" => (6, 1.0),
            // libjpeg-turbo does not smooth chroma where there are two columns or fewer.
            name if name.starts_with("tiny_1") => (12, 3.0),
            _ => (5, 0.7),
        };
        check(&name, max, mean);
    }
}

#[test]
fn pngs_of_every_kind_decode_exactly() {
    for name in
        names(".png").iter().filter(|name| !name.contains("p3") && !name.contains("adobe") && !name.contains("profile"))
    {
        check(name, 0, 0.0);
    }
}

#[test]
fn profiles_of_pngs_and_webps_are_converted_as_by_littlecms() {
    for name in ["display_p3.png", "adobe_rgb.png", "grey_profile.png", "display_p3.webp"] {
        check(name, 2, 0.6);
    }
}

/// Profiles of linear light: of grey, and with the primaries of sRGB.
fn linear_profiles() -> [Vec<u8>; 2] {
    let grey = ColorProfile::new_gray_with_gamma(1.0);
    let mut rgb = ColorProfile::new_srgb();
    rgb.cicp = None;
    for curve in [&mut rgb.red_trc, &mut rgb.green_trc, &mut rgb.blue_trc] {
        curve.clone_from(&grey.gray_trc);
    }
    [grey, rgb].map(|profile| profile.encode().expect("a profile"))
}

/// A row of 16-bit samples, with a profile.
fn deep_png(color: png::ColorType, levels: &[u16], profile: Vec<u8>) -> Vec<u8> {
    let mut info = png::Info::with_size(u32::try_from(levels.len()).expect("a row"), 1);
    (info.color_type, info.bit_depth, info.icc_profile) = (color, png::BitDepth::Sixteen, Some(profile.into()));
    let mut file = Vec::new();
    let encoder = png::Encoder::with_info(&mut file, info).expect("a still picture");
    let mut writer = encoder.write_header().expect("a header");
    let samples: Vec<u8> = levels.iter().flat_map(|level| level.to_be_bytes().repeat(color.samples())).collect();
    writer.write_image_data(&samples).expect("pixels");
    writer.finish().expect("an end");
    file
}

#[test]
fn linear_light_of_16_bits_keeps_its_shadows() {
    let levels: Vec<u16> = (0..=u16::MAX).step_by(131).collect();
    for (color, profile) in [png::ColorType::Grayscale, png::ColorType::Rgb].into_iter().zip(linear_profiles()) {
        let seen: Picture = decode(&deep_png(color, &levels, profile)).expect("a picture").into();
        assert_eq!(seen.pixels[4..8], [7, 7, 7, 255], "{color:?}: 131 of 65535");
        for (level, pixel) in levels.iter().zip(seen.pixels.chunks_exact(4)) {
            let light = f64::from(*level) / 65535.0;
            let encoded = if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 };
            // Rounded once, from a table of 65536 levels of light.
            let is_near = |value: &u8| (f64::from(*value) - encoded * 255.0).abs() < 0.56;
            assert!(pixel[..3].iter().all(is_near), "{color:?}: {level} is {pixel:?} for {encoded}");
        }
    }
}

#[test]
fn a_profile_converts_16_bits_in_every_layout() {
    let [grey, rgb] = linear_profiles().map(|profile| {
        let stream = fdeflate::compress_to_vec(&profile);
        chunk(b"iCCP", &[&b"linear\0\0"[..], &stream].concat())
    });
    for (name, profile) in [("grey_16", &grey), ("grey_alpha_16", &grey), ("rgb_16", &rgb), ("rgba_16", &rgb)] {
        let read = |name: &str| Picture::from(decode(&with_png_chunk(&fixture(name), profile)).expect(name));
        let (plain, interlaced) = (read(&format!("{name}.png")), read(&format!("{name}_interlaced.png")));
        assert!(plain == interlaced, "{name}: the interlaced picture differs");
        let stored = reference(&format!("{name}.png"));
        let alpha = |picture: &Picture| picture.pixels.iter().skip(3).step_by(4).copied().collect::<Vec<u8>>();
        assert_eq!(alpha(&plain), alpha(&stored), "{name}");
        assert_ne!(plain.pixels, stored.pixels, "{name}: it is not converted");
    }
}

#[test]
fn samples_are_those_stored_where_no_profile_is_applied() {
    let samples = |name: &str| {
        let bytes = fixture(name);
        let header = codec::probe(&bytes, &Limits::default()).expect("a header");
        assert!(header.applies_profile, "{name}");
        let header = Header { applies_profile: false, ..header };
        Picture::from(codec::decode(&bytes, &header, &BufferPool::new(0)).expect("a picture"))
    };
    for name in ["display_p3.png", "grey_profile.png"] {
        assert!(samples(name) == read_png(&fixture(name)), "{name}");
    }
    let mut lossy = vec!["display_p3.jpg", "grey_profile.jpg", "display_p3.webp"];
    if cfg!(feature = "heic") {
        lossy.push("display_p3.heic");
    }
    for name in lossy {
        assert!(samples(name) != Picture::from(decode(&fixture(name)).expect("a picture")), "{name}");
    }
}

#[test]
fn webps_of_every_kind_decode() {
    for name in [
        "lossless.webp",
        "lossless_alpha.webp",
        "animated.webp",
        "orientation_5.webp",
        "orientation_6.webp",
        "orientation_8.webp",
    ] {
        check(name, 0, 0.0);
    }
    for name in ["lossy.webp", "lossy_alpha.webp", "animated_lossy.webp"] {
        check(name, 4, 0.6);
    }
}

#[cfg(not(feature = "heic"))]
#[test]
fn a_build_without_heic_reports_it() {
    let error = codec::probe(&fixture("plain.heic"), &Limits::default()).expect_err("not in this build");
    assert!(matches!(error, codec::DecodeError::Unsupported { .. }));
    assert!(error.to_string().contains("this build does not read"), "{error}");
}

#[test]
fn buffers_are_returned_to_the_pool() {
    let pool = BufferPool::new(1 << 20);
    let bytes = fixture("orientation_6.jpg");
    let header = codec::probe(&bytes, &Limits::default()).expect("a header");
    drop(codec::decode(&bytes, &header, &pool).expect("a picture"));
    // The stored and the rotated one.
    assert!(pool.kept_bytes() >= 2 * 45 * 34 * 4, "{}", pool.kept_bytes());
}
