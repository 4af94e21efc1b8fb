//! Sticker outlines: width, seam and clipping.

use super::*;

#[test]
fn an_outline_is_a_ring_of_its_width_around_the_subject() {
    for (width, radius) in [(10.0, 30.0), (2.5, 12.0), (1.0, 20.0), (100.0, 9.0)] {
        let outline = Some(Outline { color: Color([1, 2, 3, 255]), width });
        let scene = Scene { framing: Framing::Trimmed { padding: 5 }, outline, ..Scene::default() };
        let after = flattened(drawn(70, 70, |x, y| with(RED, disc(x, y, (35.0, 35.0), radius, 1.0))), &scene);
        let middle = after.size().width / 2;
        let covered = |pixels: &mut dyn Iterator<Item = [u8; 4]>| pixels.map(|p| f32::from(p[3]) / 255.0).sum::<f32>();
        let across = covered(&mut (0..after.size().width).map(|x| after.pixel(x, middle)));
        assert!((across - 2.0 * (radius + width)).abs() < 0.4, "{across} across, {width} around {radius}");
        let all = covered(&mut after.pixels().as_chunks::<4>().0.iter().copied());
        let ideal = std::f32::consts::PI * (radius + width).powi(2);
        assert!((all / ideal - 1.0).abs() < 0.02, "{all} of {ideal}");
        // Padding stays clear.
        assert_eq!(after.covered(1).map(|bounds| bounds.left.min(bounds.top) >= 5), Some(true));
    }
}

#[test]
fn nothing_shows_between_a_soft_subject_and_its_outline() {
    for soft in [1.0, 6.0, 15.0] {
        let subject = || drawn(100, 100, |x, y| with(RED, disc(x, y, (50.0, 50.0), 30.0, soft)));
        let outline = Some(Outline { color: Color::WHITE, width: 12.0 });
        let inside = |frame: &Frame| {
            let Size { width, height } = frame.size();
            let near = |x: u32, y: u32| {
                (x as f32 + 0.5 - width as f32 / 2.0).hypot(y as f32 + 0.5 - height as f32 / 2.0) < 30.0 + 12.0 - 1.5
            };
            let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).filter(|&(x, y)| near(x, y));
            pixels.map(|(x, y)| off_mixture(frame.pixel(x, y), RED, WHITE)).fold(0.0, f32::max)
        };
        let framing = Framing::Trimmed { padding: 10 };
        let after = flattened(subject(), &Scene { framing, outline, ..on(color(BLUE)) });
        assert!(inside(&after) < 0.006, "{} with an edge of {soft}", inside(&after));
        // Only these three colours occur, and nothing of the subject beyond the outline.
        let bare = flattened(subject(), &Scene { framing, ..on(color(BLUE)) });
        assert!(inside(&bare) > 0.5, "the comparison misses a missing outline");
    }
}

#[test]
fn stray_traces_are_cut_off_with_an_outline_and_kept_without() {
    let picture =
        || {
            drawn(80, 40, |x, y| {
                if x == 70 && y == 20 { [0, 0, 9, 60] } else { with(RED, disc(x, y, (20.0, 20.0), 10.0, 1.0)) }
            })
        };
    let framing = Framing::Trimmed { padding: 0 };
    let outline = Some(Outline { color: Color::WHITE, width: 4.0 });
    let cut = flattened(picture(), &Scene { framing, outline, ..Scene::default() });
    let right = cut.covered(1).map(|bounds| bounds.left + bounds.width);
    assert!(right < Some(40), "{right:?}");
    let kept = flattened(picture(), &Scene { framing, ..Scene::default() });
    assert_eq!(kept.pixel(kept.size().width - 1, 10), [0, 0, 9, 60]);
}

#[test]
fn a_translucent_subject_keeps_its_sticker() {
    let veil = drawn(50, 50, |x, y| with(RED, disc(x, y, (25.0, 25.0), 15.0, 1.0) / 4));
    let outline = Some(Outline { color: Color::WHITE, width: 4.0 });
    let after = flattened(veil, &Scene { framing: Framing::Trimmed { padding: 0 }, outline, ..Scene::default() });
    let middle = after.size().width / 2;
    assert_eq!(after.pixel(middle, middle)[3], 255);
    assert!(off_mixture(after.pixel(middle, middle), RED, WHITE) < 0.01);
}
