//! The inpainted and blurred source as background.

use super::*;

/// A photo of a blue disc, and its cutout.
fn photo(width: u32, height: u32, ground: impl Fn(u32, u32) -> [u8; 3] + Copy) -> (Frame, Frame) {
    let at = (width as f32 * 0.55, height as f32 * 0.45);
    let radius = width.min(height) as f32 * 0.3;
    let cutout = drawn(width, height, |x, y| with([20, 60, 240], disc(x, y, at, radius, 3.0)));
    let source = flattened_with(
        cutout.clone(),
        &on(Background::Picture { fit: Fit::Stretch, behind: Color::BLACK }),
        Materials { background: Some(drawn(width, height, |x, y| with(ground(x, y), 255))), ..Materials::default() },
    );
    (source.composite.into_frame(), cutout)
}

fn over_blurred(source: &Frame, cutout: Frame, scene: &Scene) -> Frame {
    let materials = Materials { plate: scene.plate(source), ..Materials::default() };
    flattened_with(cutout, scene, materials).composite.into_frame()
}

#[test]
fn no_colour_of_the_subject_bleeds_into_its_blurred_background() {
    let flat = [200, 30, 40];
    for (width, height) in [(120, 90), (90, 121), (37, 37), (400, 301)] {
        let (source, cutout) = photo(width, height, |_, _| flat);
        for intensity in [2, 10, 37, 100] {
            for framing in [Framing::Whole, Framing::Padded { aspect: None, padding: Padding::Share(0.1) }] {
                let scene = Scene { framing, ..on(blurred(intensity)) };
                let after = over_blurred(&source, cutout.clone(), &scene);
                // The disc on exactly that colour.
                let ideal = flattened(cutout.clone(), &Scene { framing, ..on(color(flat)) });
                assert_eq!(largest_difference(&after, &ideal), 0, "{intensity} of {width}×{height}");
            }
        }
        // The comparison detects bleeding: a plate without a subject to inpaint.
        let scene = on(blurred(37));
        let nothing = drawn(width, height, |x, _| if x == 0 { with(flat, 255) } else { [0; 4] });
        let bled = over_blurred(&source, nothing.clone(), &scene);
        assert!(largest_difference(&bled, &flattened(nothing, &on(color(flat)))) > 20);
    }
}

#[test]
fn a_blurred_background_is_not_shifted() {
    // A ramp in linear light, which a blur does not change away from the border.
    let ramp = |x: u32, _: u32| [encoded8_of_linear16()[20_000 + x as usize * 100]; 3];
    let (source, cutout) = photo(400, 300, ramp);
    for intensity in [2, 10, 50] {
        let after = over_blurred(&source, cutout.clone(), &on(blurred(intensity)));
        for x in 45..130 {
            let (blurred, own) = (after.pixel(x, 20)[0], ramp(x, 20)[0]);
            assert!(blurred.abs_diff(own) <= 1, "{blurred} for {own} at {x} with {intensity}");
        }
    }
    assert!(ramp(130, 0)[0].abs_diff(ramp(120, 0)[0]) > 1, "the ramp is too flat to see a shift by some pixels");
}

#[test]
fn a_blurred_background_is_mirrored_beyond_its_border() {
    let ramp = |x: u32, _: u32| [(x / 2) as u8 + 40; 3];
    let (source, cutout) = photo(300, 200, ramp);
    let subject = cutout.covered(SUBJECT_ALPHA).unwrap();
    let framing = Framing::Padded { aspect: None, padding: Padding::Pixels(subject.left + 45) };
    for intensity in [2, 30] {
        let after = over_blurred(&source, cutout.clone(), &Scene { framing, ..on(blurred(intensity)) });
        let border = (after.size().width - subject.width) / 2 - subject.left;
        assert!((44..=46).contains(&border), "{border}");
        for away in 0..border {
            let (outside, inside) = (after.pixel(border - 1 - away, 100), after.pixel(border + away, 100));
            assert!(outside[0].abs_diff(inside[0]) <= 1, "{outside:?} and {inside:?}, {away} away");
        }
        let far = after.pixel(0, 100)[0].abs_diff(after.pixel(border, 100)[0]);
        assert!(far > 10, "the ramp is too flat to distinguish mirroring from replication: {far}");
    }
}

#[test]
fn a_fine_comb_becomes_half_the_light() {
    let comb = |x: u32, _: u32| [if x.is_multiple_of(2) { 0 } else { 255 }; 3];
    let (source, cutout) = photo(300, 200, comb);
    for intensity in [10, 100] {
        let after = over_blurred(&source, cutout.clone(), &on(blurred(intensity)));
        for (x, y) in [(60, 20), (61, 180), (50, 100)] {
            assert!(after.pixel(x, y)[0].abs_diff(188) <= 3, "{:?} at {x},{y}", after.pixel(x, y));
        }
    }
}

#[test]
fn a_stronger_blur_is_softer() {
    let half = |x: u32, _: u32| [if x < 60 { 20 } else { 230 }; 3];
    let (source, cutout) = photo(400, 300, half);
    let steepest = |intensity: u8| {
        let after = over_blurred(&source, cutout.clone(), &on(blurred(intensity)));
        (1..120).map(|x| after.pixel(x, 10)[0].abs_diff(after.pixel(x - 1, 10)[0])).max().unwrap()
    };
    let steps = [2, 10, 30, 60, 100].map(steepest);
    assert!(steps.is_sorted_by(|stronger, weaker| stronger > weaker), "{steps:?}");
}

#[test]
fn a_picture_without_background_gets_the_fallback_colour() {
    let source = drawn(40, 30, |_, _| [90, 90, 90, 255]);
    let cutout = drawn(40, 30, |_, _| [90, 90, 90, 200]);
    let framing = Framing::Padded { aspect: None, padding: Padding::Pixels(10) };
    let after = over_blurred(&source, cutout, &Scene { framing, ..on(blurred(50)) });
    assert_eq!(after.pixel(0, 0), [1, 2, 3, 255]);
    // Without a plate, the fallback colour is used too.
    let cutout = drawn(40, 30, |x, _| with(RED, if x < 20 { 255 } else { 0 }));
    assert_eq!(flattened(cutout, &on(blurred(50))).pixel(30, 0), [1, 2, 3, 255]);
}
