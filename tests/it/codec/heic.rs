//! HEIC, in builds with the feature `heic`.

use crate::codec::support::{Picture, assert_close, decode, fixture, names, reference};
use crate::support::hang_guard::within_a_minute;
use backdrop::codec::{self, Container, DecodeError, Limits};
use backdrop::image::Size;

#[test]
fn this_build_has_an_hevc_decoder() {
    assert!(codec::heic::decoder_available());
}

#[test]
fn heics_of_every_kind_agree_with_libheif() {
    for name in names(".heic") {
        let seen: Picture = decode(&fixture(&name)).unwrap_or_else(|error| panic!("{name}: {error}")).into();
        assert_close(&name, &seen, &reference(&name), 6, 1.2);
    }
}

#[test]
fn the_containers_rotation_applies_and_that_of_exif_does_not() {
    let probe = |name: &str| codec::probe(&fixture(name), &Limits::default()).expect("a header");
    assert_eq!(probe("turned_6.heic").size, Size::new(64, 80));
    assert_eq!(probe("turned_2.heic").size, Size::new(80, 64));
    assert_eq!(probe("exif_only.heic").size, Size::new(80, 64));
    assert_eq!(probe("grid.heic").size, Size::new(120, 100));
    assert_eq!(probe("primary_second.heic").size, Size::new(80, 64));
    assert_eq!(probe("plain.heic").container, Container::Heic);
}

#[test]
fn hostile_containers_are_refused_by_the_probe() {
    for name in ["grid_of_16384", "grid_of_grids", "grid_of_waste"] {
        let bytes = fixture(&format!("hostile/{name}.heic"));
        match within_a_minute(name, move || codec::probe(&bytes, &Limits::default())) {
            Err(DecodeError::Corrupt(_) | DecodeError::TooManyPixels { .. }) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_hundred_small_layers_are_decoded_or_refused() {
    let bytes = fixture("hostile/hundred_layers.heic");
    match within_a_minute("a hundred layers", move || decode(&bytes).map(drop)) {
        Ok(()) | Err(DecodeError::Corrupt(_) | DecodeError::Unsupported { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_size_that_the_stream_does_not_have_is_corrupt() {
    assert!(matches!(decode(&fixture("hostile/size_lie.heic")), Err(DecodeError::Corrupt(_))));
}
