//! HEIC, in builds with the feature `heic`.

use crate::codec::support::{Picture, assert_close, decode, fixture, names, reference};
use crate::support::hang_guard::within_a_minute;
use backdrop::codec::{self, Container, DecodeError, Limits};
use backdrop::image::Size;

#[test]
fn heics_of_every_kind_agree_with_libheif() {
    for name in names(".heic") {
        let seen: Picture = decode(&fixture(&name)).unwrap_or_else(|error| panic!("{name}: {error}")).into();
        assert_close(&name, &seen, &reference(&name), 6, 1.2);
    }
}

/// A disc before a plain ground, tagged by code points alone.
#[test]
fn colours_given_by_code_points_are_converted() {
    for (name, within) in [("bt2020.sdr.heic", 4), ("bt2020.pq.heic", 14), ("bt2020.hlg.heic", 14)] {
        let seen: Picture = decode(&fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}")).into();
        for ((x, y), right) in [((64, 48), [200_u8, 60, 40]), ((8, 8), [203, 213, 225])] {
            let at = (y * seen.size.width as usize + x) * 4;
            let pixel = &seen.pixels[at..at + 3];
            assert!(pixel.iter().zip(right).all(|(seen, right)| seen.abs_diff(right) <= within), "{name}: {pixel:?}");
        }
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
