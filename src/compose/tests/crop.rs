//! Crops, and the fill beyond the picture.

use super::*;

fn cropped(source: Frame, subject: Rect, aspect: (u32, u32)) -> Flattened {
    let framing = Framing::Cropped { aspect: Aspect::new(aspect.0, aspect.1), padding: 0 };
    composed(source, subject, &Scene { framing, ..on(Background::EdgeColor) }, Materials::default())
}

#[test]
fn beyond_the_picture_a_crop_replicates_the_nearest_pixel() {
    let source = drawn(60, 40, |x, y| [x as u8 * 4, y as u8 * 6, 77, 255]);
    for (subject, aspect) in [
        (rect(0, 5, 60, 10), (1, 1)),
        (rect(5, 0, 10, 40), (1, 1)),
        (rect(1, 10, 12, 9), (16, 9)),
        (rect(50, 33, 9, 7), (1, 1)),
        (rect(0, 0, 5, 5), (4, 5)),
        (rect(0, 0, 60, 40), (9, 16)),
    ] {
        let Flattened { composite, subject: found } = cropped(source.clone(), subject, aspect);
        let after = composite.into_frame();
        let Rect { left, top, width, height } = found.expect("the subject");
        assert_eq!((width, height), (subject.width, subject.height));
        let (right, bottom) = (after.size().width - left - width, after.size().height - top - height);
        assert!(left.abs_diff(right) <= 1 && top.abs_diff(bottom) <= 1, "{subject}: {left} {right} {top} {bottom}");
        let nearest = |at: u32, start: u32, from: u32, side: u32| {
            (i64::from(at) - i64::from(start) + i64::from(from)).clamp(0, i64::from(side) - 1) as u32
        };
        for (x, y) in (0..after.size().height).flat_map(|y| (0..after.size().width).map(move |x| (x, y))) {
            let expected = source.pixel(nearest(x, left, subject.left, 60), nearest(y, top, subject.top, 40));
            assert_eq!(after.pixel(x, y), expected, "{x},{y} around {subject}");
        }
    }
    // Resized as well.
    let framing = Framing::Cropped { aspect: Aspect::new(16, 9), padding: 3 };
    let scene =
        Scene { framing, resize: Resize { width: Some(333), ..Resize::default() }, ..on(Background::EdgeColor) };
    let subject = rect(1, 10, 12, 9);
    let layout = scene.layout(source.size(), subject).unwrap();
    let after = composed(source, subject, &scene, Materials::default()).composite.into_frame();
    assert!(layout.place.left > 0 && !after.has_transparency());
    assert!(
        (0..after.size().height)
            .all(|y| (0..layout.place.left).all(|x| after.pixel(x, y) == after.pixel(layout.place.left, y)))
    );
}

#[test]
fn a_crop_of_a_cutout_measures_its_subject_again() {
    let cutout = drawn(60, 20, |x, y| with(RED, disc(x, y, (30.0, 10.0), 8.0, 1.0)));
    let framing = Framing::Cropped { aspect: Some(Aspect::SQUARE), padding: 20 };
    let after = flattened_with(cutout, &Scene { framing, ..Scene::default() }, Materials::default());
    assert_eq!(after.composite.frame().size(), Size::new(56, 56));
    assert_eq!(after.subject, Some(rect(20, 20, 16, 16)));
    assert_eq!(after.composite.frame().pixel(0, 0), [0; 4]);
}

#[test]
fn the_bars_around_a_cutout_are_transparent_even_if_it_touches_its_border() {
    let cutout = drawn(60, 20, |x, _| if (10..50).contains(&x) { with(RED, 255) } else { [0; 4] });
    let after = cropped(cutout, rect(10, 0, 40, 20), (1, 1));
    assert_eq!(after.composite.frame().size(), Size::new(40, 40));
    assert_eq!([after.composite.frame().pixel(20, 9), after.composite.frame().pixel(20, 10)], [[0; 4], with(RED, 255)]);
    // A subject off the picture's centre is centred in the crop.
    let cutout = drawn(60, 20, |x, y| if x < 10 && y < 10 { with(RED, 255) } else { [0; 4] });
    let corner = cropped(cutout, rect(0, 0, 10, 10), (2, 1));
    assert_eq!((corner.composite.frame().size(), corner.subject), (Size::new(20, 10), Some(rect(5, 0, 10, 10))));
    assert_eq!(corner.composite.frame().pixel(4, 5), [0; 4]);
    assert_eq!(after.subject, Some(rect(0, 10, 40, 20)));
}
