//! The subject's edge on a colour: mixtures of linear light only.

use super::*;

#[test]
fn a_white_disc_on_white_is_invisible() {
    for soft in [1.0, 7.0] {
        let white = |x, y| with(WHITE, disc(x, y, (40.0, 31.5), 20.3, soft));
        for size in [(0, 0), (57, 0), (200, 131)] {
            let given = |value| (value > 0).then_some(value);
            let resize = Resize { width: given(size.0), height: given(size.1), max_dim: None };
            let flat = flattened(drawn(81, 64, white), &Scene { resize, ..on(color(WHITE)) });
            assert!(flat.pixels().iter().all(|&value| value == 255));
        }
    }
    // An edge with a trace of a dark background is visible.
    let dark = |x, y| match disc(x, y, (40.0, 31.5), 20.3, 3.0) {
        255 => [255; 4],
        alpha => with([230; 3], alpha),
    };
    assert!(flattened(drawn(81, 64, dark), &on(color(WHITE))).pixels().iter().any(|&value| value < 254));
}

#[test]
fn a_red_disc_on_blue_has_only_mixtures_in_linear_light() {
    for soft in [1.0, 9.0] {
        for width in [None, Some(61), Some(203)] {
            let red = drawn(90, 90, |x, y| with(RED, disc(x, y, (44.0, 47.3), 30.0, soft)));
            let resize = Resize { width, ..Resize::default() };
            let after = flattened(red, &Scene { resize, ..on(color(BLUE)) });
            let worst = worst_mixture(&after, RED, BLUE);
            assert!(worst < 0.006, "{worst} with an edge of {soft} at {width:?}");
            assert!(!after.has_transparency());
        }
    }
}
