//! Background pictures: cover, contain and stretch.

use super::*;

/// A picture whose pixels encode their position, on a canvas of `size` with a subject of one pixel.
fn fitted(picture: Size, fit: Fit, size: Size) -> Frame {
    let place = |x: u32, y: u32| [x as u8, y as u8, 77, 255];
    let background = Some(drawn(picture.width, picture.height, place));
    let scene = on(Background::Picture { fit, behind: Color([250, 0, 250, 255]) });
    let speck = drawn(size.width, size.height, |x, y| if (x, y) == (0, 0) { [9, 9, 9, 255] } else { [0; 4] });
    flattened_with(speck, &scene, Materials { background, ..Materials::default() }).composite.into_frame()
}

#[test]
fn a_background_covers_is_contained_or_stretched() {
    let (wide, high, square) = (Size::new(200, 100), Size::new(100, 200), Size::new(100, 100));
    let near = |pixel: [u8; 4], x: u32, y: u32| {
        let off = pixel[0].abs_diff(x as u8).max(pixel[1].abs_diff(y as u8));
        assert!(off <= 2 && pixel[2..] == [77, 255], "{pixel:?} for {x},{y}");
    };
    // The centre, pixel for pixel; the sides are cropped.
    let cover = fitted(wide, Fit::Cover, square);
    assert_eq!(cover.pixel(1, 0), [51, 0, 77, 255]);
    assert_eq!(cover.pixel(99, 99), [149, 99, 77, 255]);
    assert_eq!(fitted(high, Fit::Cover, square).pixel(40, 60), [40, 110, 77, 255]);
    // At half the size, with bars.
    let contain = fitted(wide, Fit::Contain, square);
    assert_eq!([contain.pixel(50, 24), contain.pixel(50, 75)], [[250, 0, 250, 255]; 2]);
    near(contain.pixel(50, 50), 100, 50);
    near(contain.pixel(20, 30), 40, 10);
    let contain = fitted(high, Fit::Contain, square);
    assert_eq!([contain.pixel(24, 50), contain.pixel(75, 50)], [[250, 0, 250, 255]; 2]);
    near(contain.pixel(60, 20), 70, 40);
    let stretch = fitted(wide, Fit::Stretch, square);
    near(stretch.pixel(20, 30), 40, 30);
    near(stretch.pixel(90, 80), 180, 80);
    // Enlarged, with an offset of a fraction of a pixel.
    let cover = fitted(Size::new(50, 40), Fit::Cover, square);
    near(cover.pixel(50, 50), 25, 20);
    near(cover.pixel(90, 10), 41, 4);
    for (fit, size) in [(Fit::Cover, wide), (Fit::Contain, high), (Fit::Stretch, square)] {
        assert_eq!(fitted(size, fit, size).pixel(60, 70), [60, 70, 77, 255], "the same size is copied");
    }
}

#[test]
fn every_fit_fills_every_canvas() {
    let sizes = [(1, 1), (1, 97), (97, 1), (64, 63), (33, 130), (300, 2)].map(|(w, h)| Size::new(w, h));
    for (picture, canvas) in sizes.iter().flat_map(|picture| sizes.map(|canvas| (*picture, canvas))) {
        for fit in [Fit::Cover, Fit::Contain, Fit::Stretch] {
            let after = fitted(picture, fit, canvas);
            assert!(!after.has_transparency(), "{picture} as {fit:?} on {canvas}");
            if fit != Fit::Contain {
                let pixels = after.pixels().as_chunks::<4>().0;
                assert!(pixels[1..].iter().all(|pixel| pixel[2] == 77), "{picture} as {fit:?} on {canvas}");
            }
        }
    }
}

#[test]
fn a_translucent_background_is_composited_over_the_colour_behind() {
    let speck = || drawn(10, 10, |x, y| if (x, y) == (0, 0) { [9, 9, 9, 255] } else { [0; 4] });
    let veil =
        |size| Materials { background: Some(drawn(size, size, |_, _| [255, 255, 255, 128])), ..Materials::default() };
    for size in [10, 33] {
        let scene = on(Background::Picture { fit: Fit::Cover, behind: Color::BLACK });
        assert_eq!(flattened_with(speck(), &scene, veil(size)).composite.frame().pixel(5, 5), [188, 188, 188, 255]);
        let scene = on(Background::Picture { fit: Fit::Cover, behind: Color::TRANSPARENT });
        assert_eq!(flattened_with(speck(), &scene, veil(size)).composite.frame().pixel(5, 5), [255, 255, 255, 128]);
    }
    let missing = on(Background::Picture { fit: Fit::Cover, behind: Color::WHITE });
    assert_eq!(flattened(speck(), &missing).pixel(5, 5), [255; 4]);
}
