//! HEIC, in builds that read it.

use crate::codec::support::{Picture, assert_close, decode, fixture, names, reference};
use backdrop::codec::{self, Container, DecodeError, Limits};
use backdrop::image::Size;
use std::time::{Duration, Instant};

#[test]
fn this_build_has_an_hevc_decoder() {
    assert!(codec::heic::decoder_available());
}

#[test]
fn heics_of_every_kind_look_as_libheif_shows_them() {
    for name in names(".heic") {
        let seen: Picture = decode(&fixture(&name)).unwrap_or_else(|error| panic!("{name}: {error}")).into();
        assert_close(&name, &seen, &reference(&name), 6, 1.2);
    }
}

#[test]
fn the_container_turns_the_picture_and_exif_does_not_turn_it_again() {
    let probe = |name: &str| codec::probe(&fixture(name), &Limits::default()).expect("a header");
    assert_eq!(probe("turned_6.heic").size, Size::new(64, 80));
    assert_eq!(probe("turned_2.heic").size, Size::new(80, 64));
    assert_eq!(probe("exif_only.heic").size, Size::new(80, 64));
    assert_eq!(probe("grid.heic").size, Size::new(120, 100));
    assert_eq!(probe("primary_second.heic").size, Size::new(80, 64));
    assert_eq!(probe("plain.heic").container, Container::Heic);
}

#[test]
fn containers_made_to_hurt_are_refused_at_the_probe() {
    for name in ["grid_of_16384", "grid_of_grids", "grid_of_waste"] {
        let began = Instant::now();
        let bytes = fixture(&format!("hostile/{name}.heic"));
        match codec::probe(&bytes, &Limits::default()) {
            Err(DecodeError::Corrupt(_) | DecodeError::TooManyPixels { .. }) => {}
            other => panic!("{name}: {other:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(1), "{name}: {:?}", began.elapsed());
    }
}

#[test]
fn a_hundred_layers_cost_no_more_than_a_megapixel() {
    let began = Instant::now();
    // Small layers: allowed or not, they have to be cheap.
    let _ = decode(&fixture("hostile/hundred_layers.heic"));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn a_size_that_the_stream_does_not_have_is_damage() {
    assert!(matches!(decode(&fixture("hostile/size_lie.heic")), Err(DecodeError::Corrupt(_))));
}
