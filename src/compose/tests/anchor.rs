//! Subjects anchored at the borders of the canvas.

use super::*;

/// A column with a soft edge that the lower border crops.
fn bust(width: u32, height: u32) -> Frame {
    let middle = width as f32 / 2.0;
    drawn(width, height, |x, y| {
        let across = ((width as f32 / 5.0 - (x as f32 + 0.5 - middle).abs()) / 2.0 + 0.5).clamp(0.0, 1.0);
        let down = ((y as f32 - height as f32 / 4.0) / 2.0).clamp(0.0, 1.0);
        with(RED, (across * down * 255.0).round() as u8)
    })
}

#[test]
fn a_cropped_subject_touches_that_border_without_padding_outline_or_rim() {
    let studio = Framing::Padded { aspect: None, padding: Padding::Share(0.1) };
    let outline = Some(Outline { color: Color::WHITE, width: 7.0 });
    for (framing, outline, width) in [
        (studio, None, None),
        (studio, None, Some(123)),
        (Framing::Expanded, None, None),
        (Framing::Expanded, None, Some(75)),
        (Framing::Trimmed { padding: 9 }, outline, None),
        (Framing::Trimmed { padding: 9 }, outline, Some(90)),
    ] {
        for (dx, dy, sigma) in [(8.0, 12.0, 10.0), (-6.0, -14.0, 3.0), (0.0, 20.0, 0.0)] {
            let resize = Resize { width, ..Resize::default() };
            let shadow = shadow(dx, dy, sigma, 0.5).filter(|_| outline.is_none());
            let scene = Scene { framing, anchor: Anchor::Auto, resize, shadow, outline, ..on(color([230, 240, 250])) };
            let after = flattened(bust(100, 160), &scene);
            let Size { width, height } = after.size();
            // Each of the lowest rows equals the row above it: subject, shadow and outline all reach the border.
            for (x, y) in (height - 20..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                let (here, above) = (after.pixel(x, y), after.pixel(x, y - 1));
                let off = here.iter().zip(above).map(|(a, b)| a.abs_diff(b)).max();
                assert!(off <= Some(2), "{here:?} under {above:?} at {x},{y} of {framing:?} with {dx},{dy},{sigma}");
            }
            let lowest: Vec<_> = (0..width).map(|x| after.pixel(x, height - 1)).collect();
            assert!(lowest.iter().filter(|pixel| pixel[..3] == RED).count() > 20, "{framing:?}");
            // Centred subjects have a rim or padding.
            let middle = flattened(bust(100, 160), &Scene { anchor: Anchor::Center, ..scene });
            let bottom = middle.size().height - 1;
            assert!(
                (0..middle.size().width).all(|x| middle.pixel(x, bottom)[..3] != RED)
                    || (framing == Framing::Expanded && dy < 0.0)
            );
        }
    }
}
