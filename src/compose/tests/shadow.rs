//! Drop shadows: position, opacity, extent and colour.

use super::*;

#[test]
fn a_hard_shadow_lies_exactly_at_its_offset() {
    let square = |x: u32, y: u32| (10..30).contains(&x) && (10..25).contains(&y);
    let scene = Scene { framing: Framing::Expanded, shadow: shadow(7.0, -13.0, 0.0, 0.4), ..Scene::default() };
    let after = flattened(drawn(32, 40, |x, y| if square(x, y) { [9, 200, 30, 255] } else { [0; 4] }), &scene);
    // The shadow leaves the picture by 3 above and 5 to the right.
    let expected = |dx: u32| {
        drawn(37, 43, move |x, y| {
            if y >= 3 && square(x, y - 3) {
                [9, 200, 30, 255]
            } else if x >= dx && square(x - dx, y + 10) {
                [0, 0, 0, 102]
            } else {
                [0; 4]
            }
        })
    };
    assert_eq!(largest_difference(&after, &expected(7)), 0);
    assert!(largest_difference(&after, &expected(8)) > 50, "the comparison misses a shifted shadow");
}

#[test]
fn a_shadow_at_a_fractional_offset_is_interpolated() {
    let scene = Scene { framing: Framing::Expanded, shadow: shadow(20.25, 0.0, 0.0, 1.0), ..Scene::default() };
    let after = flattened(drawn(10, 3, |_, _| [255; 4]), &scene);
    assert_eq!(after.size(), Size::new(31, 3));
    let alphas: Vec<u8> = (18..31).map(|x| after.pixel(x, 1)[3]).collect();
    assert_eq!(alphas, [0, 0, 191, 255, 255, 255, 255, 255, 255, 255, 255, 255, 64]);
}

#[test]
fn a_shadow_has_its_opacity_and_its_colour_where_it_is_full() {
    for (opacity, alpha) in [(1.0, 255), (0.35, 89), (0.4, 102), (0.0, 0)] {
        let given = Shadow { color: Color([10, 20, 250, 0]), opacity, dx: 120.0, dy: 0.0, sigma: 10.0 };
        let at_the_shadow = |background| {
            let scene = Scene { framing: Framing::Expanded, shadow: Some(given), background, ..Scene::default() };
            let after = flattened(drawn(110, 110, |_, _| [255; 4]), &scene);
            after.pixel(after.size().width - 30 - 55, after.size().height / 2)
        };
        assert_eq!(at_the_shadow(Background::Clear), with([10, 20, 250], alpha), "{opacity}");
        // On a colour, as a browser shows the transparent result on a page of that colour.
        for (value, own) in at_the_shadow(color(WHITE)).into_iter().zip([10.0, 20.0, 250.0, 255.0]) {
            let expected = 255.0 + (own - 255.0) * opacity;
            assert!((f32::from(value) - expected).abs() <= 1.0, "{value} for {expected} at {opacity}");
        }
    }
}

#[test]
fn the_edge_of_a_subject_on_a_colour_with_a_shadow_is_mixed_in_linear_light() {
    // A shadow nearby does not change the edge.
    let subject = || drawn(90, 90, |x, y| with(RED, disc(x, y, (40.0, 40.0), 30.0, 5.0)));
    let scene = on(color(BLUE));
    let far = Scene { shadow: shadow(60.0, 60.0, 0.0, 0.4), ..scene.clone() };
    let (with, without) = (flattened(subject(), &far), flattened(subject(), &scene));
    let mut edge = 0;
    for (x, y) in (0..90).flat_map(|y| (0..60).map(move |x| (x, y))) {
        assert_eq!(with.pixel(x, y), without.pixel(x, y));
        let [red, _, blue, _] = with.pixel(x, y);
        edge += u32::from(red > 20 && blue > 20);
    }
    assert!(edge > 50, "{edge}");
    assert!(worst_mixture(&without, RED, BLUE) < 0.006);
    // On a shadow of the background's colour the edge equals the edge on the background.
    let same = Some(Shadow { color: Color([0, 0, 255, 255]), opacity: 0.7, dx: 0.0, dy: 0.0, sigma: 3.0 });
    assert!(worst_mixture(&flattened(subject(), &Scene { shadow: same, ..scene }), RED, BLUE) < 0.006);
}
