//! Drop shadows: position, opacity, extent and colour.

use super::*;

#[test]
fn a_hard_shadow_lies_exactly_at_its_offset() {
    let square = |x: u32, y: u32| (10..30).contains(&x) && (10..25).contains(&y);
    let scene = Scene { framing: Framing::Expanded, shadow: shadow(7.0, -13.0, 0.0, 0.4), ..Scene::default() };
    let after = flattened(drawn(32, 40, |x, y| if square(x, y) { [9, 200, 30, 255] } else { [0; 4] }), &scene);
    // The shadow leaves the picture by 3 above and 5 to the right.
    let expected = |dx: u32, dy: u32| {
        drawn(37, 43, move |x, y| {
            if y >= 3 && square(x, y - 3) {
                [9, 200, 30, 255]
            } else if x >= dx && square(x - dx, y + 10 - dy) {
                [0, 0, 0, 102]
            } else {
                [0; 4]
            }
        })
    };
    assert_eq!(largest_difference(&after, &expected(7, 0)), 0);
    assert!(largest_difference(&after, &expected(8, 0)) > 50, "the comparison misses a shifted shadow");
    assert!(largest_difference(&after, &expected(7, 1)) > 50, "the comparison misses a shifted shadow");
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
        let scene = Scene { framing: Framing::Expanded, shadow: Some(given), ..Scene::default() };
        let after = flattened(drawn(110, 110, |_, _| [255; 4]), &scene);
        let y = after.size().height / 2;
        let x = after.size().width - 30 - 55;
        assert_eq!(after.pixel(x, y), with([10, 20, 250], alpha), "{opacity}");
    }
}

#[test]
fn a_shadow_on_an_expanded_canvas_is_not_clipped() {
    for (dx, dy, sigma) in [(8.49, 8.49, 10.0), (-30.0, 5.0, 3.0), (0.0, -50.0, 50.0), (100.0, 100.0, 2.0)] {
        for width in [None, Some(90)] {
            let resize = Resize { width, ..Resize::default() };
            let scene =
                Scene { framing: Framing::Expanded, resize, shadow: shadow(dx, dy, sigma, 1.0), ..Scene::default() };
            let subject = drawn(70, 50, |x, y| with(RED, disc(x, y, (35.0, 25.0), 25.0, 1.0)));
            let after = flattened(subject, &scene);
            let Size { width, height } = after.size();
            // At most a faint trace touches the canvas's border, outside of the subject.
            let border = (0..width).flat_map(|x| [(x, 0), (x, height - 1)]);
            let border = border.chain((0..height).flat_map(|y| [(0, y), (width - 1, y)]));
            let most = border.map(|(x, y)| after.pixel(x, y)).filter(|pixel| pixel[0] == 0).map(|pixel| pixel[3]).max();
            assert!(most.is_none_or(|most| most <= 4), "{most:?} of {dx},{dy},{sigma} at {width}");
        }
    }
}

#[test]
fn a_shadow_darkens_the_background_and_not_the_subject() {
    let scene = Scene {
        framing: Framing::Padded { aspect: None, padding: Padding::Pixels(40) },
        shadow: shadow(8.0, 12.0, 10.0, 0.35),
        ..on(color([244, 244, 245]))
    };
    let before = drawn(60, 60, |x, y| with([200, 180, 20], disc(x, y, (30.0, 30.0), 25.0, 1.0)));
    let after = flattened(before.clone(), &scene);
    let subject = before.covered(SUBJECT_ALPHA).unwrap();
    assert_eq!(after.size(), Size::new(subject.width + 80, subject.height + 80));
    for (x, y) in (0..60).flat_map(|y| (0..60).map(move |x| (x, y))) {
        if before.pixel(x, y)[3] == 255 {
            assert_eq!(after.pixel(x + 40 - subject.left, y + 40 - subject.top), before.pixel(x, y));
        }
    }
    // There is shadow below and to the right, none above and to the left.
    let (right, bottom) = (subject.width + 40, subject.height + 40);
    assert!(after.pixel(right, bottom - 12)[0] < 225);
    assert_eq!(after.pixel(5, 5), [244, 244, 245, 255]);
    assert!(!after.has_transparency());
}

#[test]
fn a_shadow_on_a_colour_equals_the_transparent_result_on_a_page_of_that_colour() {
    let subject = || drawn(70, 60, |x, y| with([200, 180, 20], disc(x, y, (35.0, 30.0), 22.0, 3.0)));
    for (page, opacity, color) in
        [(WHITE, 0.4, Color::BLACK), (WHITE, 1.0, Color::BLACK), ([30, 90, 200], 0.6, Color([250, 10, 60, 255]))]
    {
        for sigma in [0.0, 4.0, 10.0] {
            let shadow = Some(Shadow { color, opacity, dx: -9.0, dy: 14.0, sigma });
            let scene = Scene { framing: Framing::Expanded, shadow, ..Scene::default() };
            let clear = flattened(subject(), &scene);
            let filled = flattened(
                subject(),
                &Scene { background: Background::Color(Color([page[0], page[1], page[2], 255])), ..scene.clone() },
            );
            // Without the shadow, to find where the subject covers nothing.
            let bare = flattened(
                subject(),
                &Scene { shadow: shadow.map(|shadow| Shadow { opacity: 0.0, ..shadow }), ..scene },
            );
            let (mut compared, mut shaded) = (0, 0);
            for (x, y) in (0..clear.size().height).flat_map(|y| (0..clear.size().width).map(move |x| (x, y))) {
                if bare.pixel(x, y)[3] > 0 {
                    continue;
                }
                let [color @ .., alpha] = clear.pixel(x, y);
                let share = f32::from(alpha) / 255.0;
                for ((color, page), filled) in color.into_iter().zip(page).zip(filled.pixel(x, y)) {
                    let browser = share * f32::from(color) + (1.0 - share) * f32::from(page);
                    let off = (f32::from(filled) - browser.round()).abs();
                    assert!(off <= 1.0, "{off} at {x},{y} of {opacity}, {sigma}");
                }
                compared += 1;
                shaded += u32::from(alpha > 8);
            }
            assert!(compared > 2000 && shaded > 300, "{compared}, {shaded}");
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
