//! Every container, colour model and orientation is decoded to upright sRGB with straight alpha.

use crate::codec::support::{Picture, assert_close, decode, fixture, names, reference, visible};
use backdrop::codec::{self, Container, DecodeError, Limits};
use backdrop::image::{BufferPool, Size};

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

#[test]
fn all_eight_orientations_decode_to_the_same_upright_picture() {
    let upright: Picture = decode(&fixture("orientation_1.png")).expect("a picture").into();
    for value in 2..=8 {
        let name = format!("orientation_{value}.png");
        let bytes = fixture(&name);
        let header = codec::probe(&bytes, &Limits::default()).expect("a header");
        assert_eq!(header.size, upright.size, "{name}: the probe applies the orientation to the size");
        assert_eq!(Picture::from(decode(&bytes).expect("a picture")), upright, "{name}");
    }
}

#[test]
fn an_srgb_profile_changes_no_pixel() {
    let plain: Picture = decode(&fixture("baseline_444.jpg")).expect("a picture").into();
    for name in ["srgb.jpg", "broken_profile.jpg"] {
        assert_eq!(Picture::from(decode(&fixture(name)).expect("a picture")), plain, "{name}");
    }
}

#[test]
fn the_adobe_marker_does_not_affect_cmyk() {
    let with: Picture = decode(&fixture("cmyk_adobe.jpg")).expect("a picture").into();
    let without: Picture = decode(&fixture("cmyk_without_adobe.jpg")).expect("a picture").into();
    assert_eq!(with, without);
}

#[test]
fn the_container_is_detected_from_the_bytes() {
    for (name, container, size) in [
        ("baseline_420.jpg", Container::Jpeg, Size::new(45, 34)),
        ("rgba_16_interlaced.png", Container::Png, Size::new(45, 34)),
        ("lossy_alpha.webp", Container::WebP, Size::new(45, 34)),
        ("orientation_6.jpg", Container::Jpeg, Size::new(34, 45)),
    ] {
        let header = codec::probe(&fixture(name), &Limits::default()).expect("a header");
        assert_eq!((header.container, header.size), (container, size), "{name}");
    }
}

#[test]
fn an_empty_file_is_reported_as_empty_and_a_foreign_format_by_name() {
    let limits = Limits::default();
    assert!(matches!(codec::probe(b"", &limits), Err(DecodeError::Empty)));
    let gif = codec::probe(b"GIF89a\x01\0\x01\0\0\0\0;", &limits).expect_err("not read here");
    assert_eq!(gif.to_string(), "not a JPEG, PNG, WebP or HEIC file (it looks like GIF)");
    assert!(matches!(codec::probe(b"no picture", &limits), Err(DecodeError::Unsupported { found: None })));
}

#[cfg(not(feature = "heic"))]
#[test]
fn a_build_without_heic_reports_it() {
    let error = codec::probe(&fixture("plain.heic"), &Limits::default()).expect_err("not in this build");
    assert!(matches!(error, DecodeError::Unsupported { .. }));
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
