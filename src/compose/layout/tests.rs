//! Layouts of every framing, size and anchor.

use crate::compose::{
    Anchor, Aspect, Background, BorderContact, Fit, Framing, Grounding, Head, Layout, Light, MAX_SIDE, Outline,
    Padding, Resize, Scene, Shadow, ground_shadow, shadow,
};
use crate::image::color::Color;
use crate::image::{Rect, Size};

const PORTRAIT: Size = Size::new(200, 300);
const LANDSCAPE: Size = Size::new(300, 200);
const SQUARE: Size = Size::new(256, 256);

fn resize(width: u32, height: u32, max_dim: u32) -> Resize {
    let given = |value: u32| (value > 0).then_some(value);
    Resize { width: given(width), height: given(height), max_dim: given(max_dim) }
}

fn canvas(source: Size, width: u32, height: u32, max_dim: u32) -> (u32, u32) {
    let layout = resize(width, height, max_dim).layout(source).unwrap();
    (layout.canvas.width, layout.canvas.height)
}

#[test]
fn a_requested_size_is_the_canvas_and_the_picture_is_fitted_in() {
    assert_eq!(Resize::default().layout(PORTRAIT).unwrap(), Layout::unchanged(PORTRAIT));
    let (wide, high) = (Size::new(4000, 3), Size::new(4096, 1));
    // Picture; width, height and longest side; canvas.
    for (source, (width, height, max_dim), expected) in [
        // One side alone keeps the aspect and may enlarge.
        (PORTRAIT, (100, 0, 0), (100, 150)),
        (LANDSCAPE, (100, 0, 0), (100, 67)),
        (LANDSCAPE, (0, 100, 0), (150, 100)),
        (SQUARE, (1000, 0, 0), (1000, 1000)),
        (wide, (3200, 0, 0), (3200, 2)),
        (high, (100, 0, 0), (100, 1)),
        // The longest side shrinks and never enlarges.
        (LANDSCAPE, (0, 0, 150), (150, 100)),
        (PORTRAIT, (0, 0, 150), (100, 150)),
        (PORTRAIT, (0, 0, 300), (200, 300)),
        (PORTRAIT, (0, 0, 5000), (200, 300)),
        (high, (0, 0, 64), (64, 1)),
        (LANDSCAPE, (1000, 0, 500), (500, 333)),
    ] {
        assert_eq!(canvas(source, width, height, max_dim), expected, "{source}");
    }
    // Both sides are an exact box with the picture in the centre; the longest side clamps the whole box.
    for (source, (width, height, max_dim), expected, place) in [
        (LANDSCAPE, (400, 100, 0), (400, 100), rect(125, 0, 150, 100)),
        (SQUARE, (400, 1000, 0), (400, 1000), rect(0, 300, 400, 400)),
        (LANDSCAPE, (400, 100, 200), (200, 50), rect(62, 0, 75, 50)),
    ] {
        let layout = resize(width, height, max_dim).layout(source).unwrap();
        assert_eq!((layout.canvas, layout.place), (Size::new(expected.0, expected.1), place), "{source}");
    }
}

#[test]
fn one_side_alone_adds_no_padding_despite_rounding() {
    for source in [Size::new(4000, 3), Size::new(3, 4000), Size::new(1, 4096), Size::new(333, 777)] {
        let layout = resize(1023, 0, 511).layout(source).unwrap();
        assert_eq!(layout.place, Rect::whole(layout.canvas));
    }
}

#[test]
fn a_result_beyond_the_longest_side_is_refused() {
    assert!(resize(8192, 0, 0).layout(SQUARE).is_ok());
    assert_eq!(resize(8193, 0, 0).layout(SQUARE).unwrap_err().size, Size::new(8193, 8193));
    assert!(resize(8000, 0, 0).layout(PORTRAIT).is_err(), "the other side counts too");
    assert!(resize(u32::MAX, u32::MAX, 0).layout(SQUARE).is_err());
    assert_eq!(canvas(SQUARE, 100_000, 0, 100), (100, 100));
}

const NARROW: Size = Size::new(1, 997);

/// In a picture of 200×300 that shows the whole body.
const HEAD: Head = Head {
    middle: 90.0,
    eyes: 80.0,
    top: 60.0,
    left: 70.0,
    right: 110.0,
    chin: 104.0,
    face: 40.0,
    bottom: 300.0,
    cut_above: false,
    cut_left: false,
    cut_right: false,
};

fn rect(left: u32, top: u32, width: u32, height: u32) -> Rect {
    Rect { left, top, width, height }
}

fn scene(framing: Framing, resize: Resize) -> Scene {
    Scene { framing, resize, ..Scene::default() }
}

fn padded(aspect: Option<(u32, u32)>, padding: Padding, resize: Resize) -> Scene {
    let aspect = aspect.map(|(width, height)| Aspect::new(width, height).unwrap());
    scene(Framing::Padded { aspect, padding }, resize)
}

fn cropped(aspect: Option<(u32, u32)>, padding: u32, resize: Resize) -> Scene {
    let aspect = aspect.map(|(width, height)| Aspect::new(width, height).unwrap());
    scene(Framing::Cropped { aspect, padding }, resize)
}

fn expanded(dx: f32, dy: f32, sigma: f32, resize: Resize) -> Scene {
    let shadow = Some(Shadow { color: Color::BLACK, opacity: 0.5, dx, dy, sigma });
    Scene { shadow, ..scene(Framing::Expanded, resize) }
}

fn trimmed(width: f32, padding: u32, resize: Resize) -> Scene {
    let outline = (width > 0.0).then_some(Outline { color: Color::WHITE, width });
    Scene { outline, ..scene(Framing::Trimmed { padding }, resize) }
}

fn anchored(scene: Scene, [left, top, right, bottom]: [u32; 4]) -> Scene {
    Scene { anchor: Anchor::At(BorderContact { left, top, right, bottom }), ..scene }
}

/// Scenes of every framing and size, anchored at no, some and all borders.
fn scenes() -> Vec<Scene> {
    let contacts = [[0, 0, 0, 9], [5, 0, 0, 0], [0, 3, 9, 0], [5, 0, 9, 1], [9, 5, 3, 7]];
    let free = centred_scenes();
    let anchored = free.iter().flat_map(|scene| contacts.map(|contact| anchored(scene.clone(), contact)));
    let anchored: Vec<_> = anchored.collect();
    free.into_iter().chain(anchored).collect()
}

fn centred_scenes() -> Vec<Scene> {
    let sizes =
        [(0, 0, 0), (100, 0, 0), (0, 77, 0), (301, 200, 0), (640, 640, 99), (0, 0, 64), (1, 1, 0), (500, 0, 50)];
    let mut scenes = Vec::new();
    for (width, height, max_dim) in sizes {
        let resize = resize(width, height, max_dim);
        scenes.push(scene(Framing::Whole, resize));
        for aspect in [None, Some((1, 1)), Some((4, 5)), Some((16, 9)), Some((1, 100)), Some((u32::MAX, 1))] {
            for pixels in [0, 1, 48, 5000, u32::MAX] {
                scenes.push(padded(aspect, Padding::Pixels(pixels), resize));
                scenes.push(cropped(aspect, pixels, resize));
            }
            for share in [0.0, 0.1, 0.33, 0.499_999, 0.5, 7.0, f32::NAN] {
                scenes.push(padded(aspect, Padding::Share(share), resize));
            }
        }
        for (dx, dy, sigma) in [(0.0, 0.0, 0.0), (12.5, -3.0, 10.0), (-9000.0, 1e30, 50.0), (f32::NAN, 0.0, f32::NAN)] {
            scenes.push(expanded(dx, dy, sigma, resize));
        }
        for (width, padding) in [(0.0, 0), (16.0, 32), (0.3, 0), (1e30, 1), (100.0, u32::MAX)] {
            scenes.push(trimmed(width, padding, resize));
        }
        for head in [Head::anywhere(PORTRAIT), Head { bottom: 9e9, face: f64::NAN, ..HEAD }, HEAD] {
            for aspect in [None, Aspect::new(4, 5), Aspect::new(1, 100), Aspect::new(u32::MAX, 1)] {
                scenes.push(scene(Framing::Portrait { aspect, head }, resize));
            }
        }
    }
    scenes
}

#[test]
fn every_rectangle_lies_inside_its_picture_or_canvas() {
    let mut layouts = 0;
    for source in [PORTRAIT, LANDSCAPE, SQUARE, NARROW, NARROW.transposed(), Size::new(1, 1), Size::new(37, 91)] {
        let (w, h) = (source.width, source.height);
        let subjects = [
            Rect::whole(source),
            rect(0, 0, 1, 1),
            rect(w - 1, h - 1, 1, 1),
            rect(w / 3, h / 3, (w / 4).max(1), (h / 2).max(1)),
            // Invalid rectangles must not panic.
            rect(w, h, 0, 0),
            rect(9999, 9999, u32::MAX, u32::MAX),
        ];
        for (scene, subject) in scenes().iter().flat_map(|scene| subjects.map(|subject| (scene, subject))) {
            let Ok(layout) = scene.layout(source, subject) else { continue };
            layouts += 1;
            let within = |part: Rect, of: Size| {
                part.width > 0
                    && part.height > 0
                    && part.left + part.width <= of.width
                    && part.top + part.height <= of.height
            };
            let context = || format!("{scene:?} of {subject} in {source}: {layout:?}");
            assert!(within(layout.from, source) && within(layout.place, layout.canvas), "{}", context());
            assert!(layout.canvas.longest() <= MAX_SIDE, "{}", context());
            assert!(layout.scale.is_finite() && layout.scale >= 0.0, "{}", context());
            let Resize { width, height, max_dim } = scene.resize;
            if max_dim.is_none() {
                assert!(width.is_none_or(|width| layout.canvas.width == width), "{}", context());
                assert!(height.is_none_or(|height| layout.canvas.height == height), "{}", context());
            }
            assert!(max_dim.is_none_or(|max| layout.canvas.longest() <= max), "{}", context());
            assert!(scene.largest_canvas(source) >= layout.canvas.area(), "{}", context());
        }
    }
    assert!(layouts > 5000, "{layouts}");
}

#[test]
fn one_side_and_an_aspect_give_the_other_side_exactly() {
    // 10×12.5 rounds to 10×13; 13/10 of 1000 would be 1300.
    for subject in [rect(0, 0, 10, 12), rect(0, 0, 7, 3), rect(5, 5, 33, 90)] {
        for (framed, name) in [
            (padded(Some((4, 5)), Padding::Pixels(0), resize(1000, 0, 0)), "padded"),
            (cropped(Some((4, 5)), 0, resize(1000, 0, 0)), "cropped"),
        ] {
            let canvas = framed.layout(PORTRAIT, subject).unwrap().canvas;
            assert_eq!(canvas, Size::new(1000, 1250), "{name}");
        }
        let canvas = cropped(Some((16, 9)), 0, resize(0, 720, 0)).layout(PORTRAIT, subject).unwrap().canvas;
        assert_eq!(canvas, Size::new(1280, 720));
    }
}

#[test]
fn a_crop_is_clamped_at_the_picture() {
    let crop = |padding, subject| cropped(None, padding, Resize::default()).layout(LANDSCAPE, subject).unwrap();
    let layout = crop(10, rect(100, 50, 40, 30));
    assert_eq!((layout.from, layout.canvas), (rect(90, 40, 60, 50), Size::new(60, 50)));
    assert_eq!(layout.place, Rect::whole(layout.canvas));
    assert_eq!(crop(10, rect(2, 0, 40, 30)).from, rect(0, 0, 52, 40));
    assert_eq!(crop(10, rect(270, 180, 30, 20)).from, rect(260, 170, 40, 30));
    assert_eq!(crop(u32::MAX, rect(270, 180, 30, 20)), Layout::unchanged(LANDSCAPE));
    assert_eq!(crop(0, rect(299, 199, 1, 1)).from, rect(299, 199, 1, 1));
}

#[test]
fn a_crop_of_an_aspect_is_centred_on_the_subject_and_may_extend_beyond_the_picture() {
    let square =
        |padding, subject| cropped(Some((1, 1)), padding, Resize::default()).layout(LANDSCAPE, subject).unwrap();
    let layout = square(5, rect(100, 50, 50, 30));
    assert_eq!((layout.from, layout.place), (rect(95, 35, 60, 60), rect(0, 0, 60, 60)));
    // Beyond the upper and the right border of the picture.
    let layout = square(5, rect(100, 0, 50, 10));
    assert_eq!((layout.from, layout.place), (rect(95, 0, 60, 35), rect(0, 25, 60, 35)));
    let layout = square(0, rect(280, 50, 20, 80));
    assert_eq!((layout.from, layout.place), (rect(250, 50, 50, 80), rect(0, 0, 50, 80)));
    // Higher than the picture: beyond both borders.
    let layout = square(0, rect(20, 50, 251, 30));
    assert_eq!(layout.canvas, Size::new(251, 251));
    assert_eq!((layout.from, layout.place), (rect(20, 0, 251, 190), rect(0, 61, 251, 190)));
    // Padding clamped by one border is kept at the other; clamped by both, it is reduced.
    let layout = square(5, rect(2, 60, 50, 50));
    assert_eq!((layout.canvas, layout.from), (Size::new(60, 60), rect(0, 55, 57, 60)));
    assert_eq!(square(5000, rect(20, 0, 260, 200)).canvas, Size::new(300, 300));
}

#[test]
fn every_crop_contains_the_padded_subject() {
    for subject in [rect(0, 0, 30, 40), rect(2, 190, 50, 10), rect(120, 60, 61, 33), rect(299, 0, 1, 200)] {
        for (padding, aspect) in
            [0, 7, 60, 500].into_iter().flat_map(|p| [(1, 1), (4, 5), (16, 9), (9, 31)].map(|a| (p, a)))
        {
            let Layout { from, .. } =
                cropped(Some(aspect), padding, Resize::default()).layout(LANDSCAPE, subject).unwrap();
            let right = (subject.left + subject.width + padding).min(300);
            let bottom = (subject.top + subject.height + padding).min(200);
            assert!(from.left <= subject.left.saturating_sub(padding) && from.left + from.width >= right, "{from}");
            assert!(from.top <= subject.top.saturating_sub(padding) && from.top + from.height >= bottom, "{from}");
        }
    }
}

#[test]
fn a_resized_letterbox_keeps_its_bars_in_proportion() {
    let layout = cropped(Some((1, 1)), 0, resize(500, 0, 0)).layout(LANDSCAPE, Rect::whole(LANDSCAPE)).unwrap();
    assert_eq!((layout.canvas, layout.place), (Size::new(500, 500), rect(0, 83, 500, 333)));
    // A box with another aspect than the crop.
    let layout = cropped(Some((1, 1)), 0, resize(600, 300, 0)).layout(LANDSCAPE, Rect::whole(LANDSCAPE)).unwrap();
    assert_eq!((layout.canvas, layout.place), (Size::new(600, 300), rect(150, 50, 300, 200)));
    // A box without an aspect takes the crop's: no bars if the picture is large enough.
    let layout = cropped(None, 0, resize(60, 30, 0)).layout(LANDSCAPE, rect(100, 100, 10, 10)).unwrap();
    assert_eq!((layout.from, layout.place), (rect(95, 100, 20, 10), rect(0, 0, 60, 30)));
}

#[test]
fn only_a_shadow_beyond_the_canvas_expands_it() {
    let reach = shadow::reach(4.0) as u32;
    assert!(reach >= 12, "three standard deviations at least");
    let layout = expanded(10.0, 0.0, 4.0, Resize::default()).layout(LANDSCAPE, rect(250, 100, 50, 100)).unwrap();
    assert_eq!(layout.canvas, Size::new(300 + 10 + reach, 200 + reach));
    assert_eq!((layout.from, layout.place), (Rect::whole(LANDSCAPE), Rect::whole(LANDSCAPE)));
    let layout = expanded(-20.0, -30.5, 4.0, Resize::default()).layout(LANDSCAPE, rect(0, 0, 50, 100)).unwrap();
    assert_eq!(layout.canvas, Size::new(300 + 20 + reach, 200 + 31 + reach));
    assert_eq!(layout.place, rect(20 + reach, 31 + reach, 300, 200));
    let inside = expanded(10.0, 10.0, 4.0, Resize::default()).layout(LANDSCAPE, rect(100, 100, 10, 10)).unwrap();
    assert_eq!(inside, Layout::unchanged(LANDSCAPE));
    let bare = scene(Framing::Expanded, Resize::default()).layout(LANDSCAPE, rect(0, 0, 1, 1)).unwrap();
    assert_eq!(bare, Layout::unchanged(LANDSCAPE));
}

#[test]
fn an_expanded_canvas_is_resized_as_a_whole() {
    let (dx, sigma) = (100.0, 0.0);
    let layout = expanded(dx, 0.0, sigma, resize(200, 0, 0)).layout(LANDSCAPE, rect(200, 0, 100, 10)).unwrap();
    assert_eq!((layout.canvas, layout.place, layout.scale), (Size::new(200, 100), rect(0, 0, 150, 100), 0.5));
    let layout = expanded(-dx, 0.0, sigma, resize(100, 100, 0)).layout(LANDSCAPE, rect(0, 0, 100, 10)).unwrap();
    assert_eq!((layout.place, layout.scale), (rect(25, 25, 75, 50), 0.25));
    let far = expanded(9000.0, 0.0, 0.0, Resize::default()).layout(LANDSCAPE, rect(0, 0, 100, 10));
    assert_eq!(far.unwrap_err().size, Size::new(9100, 200));
}

#[test]
fn a_trimmed_canvas_has_outline_and_padding_on_every_side() {
    let subject = rect(0, 20, 31, 64);
    let layout = trimmed(16.5, 32, Resize::default()).layout(PORTRAIT, subject).unwrap();
    assert_eq!(layout.canvas, Size::new(31 + 2 * 49, 64 + 2 * 49));
    assert_eq!((layout.from, layout.place, layout.scale), (subject, rect(49, 49, 31, 64), 1.0));
    let bare = trimmed(0.0, 0, Resize::default()).layout(PORTRAIT, subject).unwrap();
    assert_eq!((bare.canvas, bare.place), (subject.size(), Rect::whole(subject.size())));
    // 100 columns of subject, twice 50 of outline: a quarter of the canvas on each side.
    let layout = trimmed(50.0, 0, resize(100, 0, 0)).layout(PORTRAIT, rect(50, 50, 100, 100)).unwrap();
    assert_eq!((layout.place, layout.scale), (rect(25, 25, 50, 50), 0.5));
}

#[test]
fn a_padded_subject_is_centred_or_touches_the_borders_that_it_is_anchored_at() {
    let (share, pixels) = (Padding::Share(0.1), Padding::Pixels(48));
    let free = Resize::default();
    // Aspect, padding, size, subject, contacts; canvas and place.
    type Case = (Option<(u32, u32)>, Padding, Resize, (u32, u32), [u32; 4], (u32, u32), (u32, u32, u32, u32));
    let cases: [Case; 24] = [
        // Unanchored at its scale. The side is 151 and twice 48.
        (None, pixels, free, (101, 151), [0; 4], (247, 247), (73, 48, 101, 151)),
        // 200 is 80 % of 250, with ten per cent on each side; also 4:5 at an equal height.
        (None, share, free, (100, 200), [0; 4], (250, 250), (75, 25, 100, 200)),
        (Some((4, 5)), share, free, (100, 200), [0; 4], (200, 250), (50, 25, 100, 200)),
        // The width limits.
        (Some((4, 5)), Padding::Pixels(0), free, (200, 20), [0; 4], (200, 250), (0, 115, 200, 20)),
        // With requested sizes. Without an aspect the box defines it.
        (None, share, resize(1000, 1000, 0), (100, 200), [0; 4], (1000, 1000), (300, 100, 400, 800)),
        (None, share, resize(500, 2000, 0), (100, 200), [0; 4], (500, 2000), (50, 600, 400, 800)),
        (None, share, resize(0, 0, 100), (100, 200), [0; 4], (100, 100), (30, 10, 40, 80)),
        (None, pixels, resize(400, 0, 0), (100, 200), [0; 4], (400, 400), (124, 48, 152, 304)),
        // At its natural size: nothing is resampled.
        (None, share, resize(250, 250, 0), (100, 200), [0; 4], (250, 250), (75, 25, 100, 200)),
        // A canvas of 400×200 in the middle of a box; half of its height.
        (Some((2, 1)), Padding::Share(0.25), resize(400, 400, 0), (10, 10), [0; 4], (400, 400), (150, 150, 100, 100)),
        // Anchored below: 90 % of the height, at the canvas's end; centred horizontally.
        (None, share, free, (90, 180), [0, 0, 0, 80], (200, 200), (55, 20, 90, 180)),
        (None, share, free, (90, 180), [0, 80, 0, 0], (200, 200), (55, 0, 90, 180)),
        (None, share, free, (180, 90), [80, 0, 0, 0], (200, 200), (0, 55, 180, 90)),
        (None, share, free, (180, 90), [0, 0, 80, 0], (200, 200), (20, 55, 180, 90)),
        (None, Padding::Pixels(20), free, (90, 180), [0, 0, 0, 80], (200, 200), (55, 20, 90, 180)),
        // Anchored in a corner.
        (None, share, free, (90, 180), [40, 0, 0, 80], (200, 200), (0, 20, 90, 180)),
        // The unanchored width limits: 80 % of it.
        (None, share, free, (160, 90), [0, 0, 0, 80], (200, 200), (20, 110, 160, 90)),
        // Both sides of a wide subject: the whole width.
        (None, share, free, (200, 90), [30, 0, 40, 0], (200, 200), (0, 55, 200, 90)),
        (Some((2, 1)), share, free, (200, 90), [30, 0, 40, 50], (200, 100), (0, 10, 200, 90)),
        // The aspect excludes both sides: the longer contact, with padding at the other side.
        (None, share, free, (90, 180), [30, 0, 40, 0], (225, 225), (135, 22, 90, 180)),
        (None, share, free, (90, 180), [40, 0, 30, 0], (225, 225), (0, 22, 90, 180)),
        // All four, with another aspect than the subject: both sides of one axis.
        (None, share, free, (90, 180), [9, 3, 2, 7], (180, 180), (0, 0, 90, 180)),
        // With requested sizes.
        (None, share, resize(400, 0, 0), (90, 180), [0, 0, 0, 80], (400, 400), (110, 40, 180, 360)),
        (None, share, resize(400, 200, 0), (200, 90), [30, 0, 40, 50], (400, 200), (0, 20, 400, 180)),
    ];
    for (aspect, padding, resize, (width, height), contact, canvas, place) in cases {
        let scene = anchored(padded(aspect, padding, resize), contact);
        let subject = rect(0, 0, width, height);
        let layout = scene.layout(PORTRAIT, subject).unwrap();
        let (left, top, width, height) = place;
        let expected = Layout {
            canvas: Size::new(canvas.0, canvas.1),
            from: subject,
            place: rect(left, top, width, height),
            scale: 1.0,
        };
        assert_eq!(layout, expected, "{subject} anchored by {contact:?}");
    }
}

#[test]
fn without_a_contact_every_layout_is_the_centred_one() {
    let mut layouts = 0;
    for (scene, subject) in centred_scenes()
        .into_iter()
        .flat_map(|scene| [rect(0, 0, 200, 300), rect(50, 100, 77, 130)].map(|subject| (scene.clone(), subject)))
    {
        let middle = scene.layout(PORTRAIT, subject);
        for anchor in [Anchor::Auto, Anchor::At(BorderContact::default())] {
            assert_eq!(Scene { anchor, ..scene.clone() }.layout(PORTRAIT, subject), middle, "{scene:?}");
        }
        layouts += usize::from(middle.is_ok());
    }
    assert!(layouts > 500, "{layouts}");
}

#[test]
fn an_anchored_canvas_is_not_expanded_beyond_the_border_of_the_picture() {
    let reach = shadow::reach(4.0) as u32;
    let subject = rect(100, 50, 200, 150);
    let shadow =
        |resize, contact| anchored(expanded(10.0, 12.0, 4.0, resize), contact).layout(LANDSCAPE, subject).unwrap();
    let layout = shadow(Resize::default(), [0, 0, 0, 90]);
    assert_eq!((layout.canvas, layout.place), (Size::new(310 + reach, 200), Rect::whole(LANDSCAPE)));
    assert_eq!(shadow(Resize::default(), [0, 0, 90, 90]), Layout::unchanged(LANDSCAPE));
    // The spare room of a box is at the other side.
    let layout = shadow(resize(300, 400, 0), [0, 0, 90, 90]);
    assert_eq!((layout.canvas, layout.place), (Size::new(300, 400), rect(0, 200, 300, 200)));
    let layout = shadow(resize(600, 200, 0), [9, 0, 0, 90]);
    assert_eq!((layout.place.left, layout.place.top + layout.place.height), (0, 200));
}

#[test]
fn an_anchored_sticker_has_neither_outline_nor_padding_at_its_border() {
    let subject = rect(0, 20, 31, 64);
    let sticker = |resize, contact| anchored(trimmed(16.5, 32, resize), contact).layout(PORTRAIT, subject).unwrap();
    let layout = sticker(Resize::default(), [0, 0, 0, 20]);
    assert_eq!((layout.canvas, layout.place), (Size::new(31 + 2 * 49, 64 + 49), rect(49, 49, 31, 64)));
    let layout = sticker(Resize::default(), [20, 20, 0, 0]);
    assert_eq!((layout.canvas, layout.place), (Size::new(31 + 49, 64 + 49), rect(0, 0, 31, 64)));
    // At half the size the outline is half as wide: only sides with padding count.
    let layout = sticker(resize(40, 0, 0), [20, 20, 0, 0]);
    assert!((layout.scale - 0.5).abs() < 0.02, "{layout:?}");
    // A box too wide for both sides: the longer contact, with an outline at the other side.
    let layout = sticker(resize(452, 226, 0), [10, 0, 20, 0]);
    assert_eq!(layout.place.left + layout.place.width, 452);
    assert!(layout.place.left > 49 && layout.scale > 1.0, "{layout:?}");
}

#[test]
fn rounding_never_clips_an_outline() {
    for side in 1..200 {
        let layout = trimmed(7.0, 0, resize(side, 0, 0)).layout(PORTRAIT, rect(3, 9, 101, 211)).unwrap();
        let Layout { canvas, place, scale, .. } = layout;
        let room = place
            .left
            .min(place.top)
            .min(canvas.width - place.left - place.width)
            .min(canvas.height - place.top - place.height);
        assert!(7.0 * scale <= room as f32 + 1e-3, "{layout:?}");
    }
}

#[test]
fn a_portrait_has_the_requested_size_and_aspect() {
    let portrait = |aspect, head, resize| {
        let aspect = Option::map(aspect, |(width, height)| Aspect::new(width, height).unwrap());
        scene(Framing::Portrait { aspect, head }, resize).layout(PORTRAIT, Rect::whole(PORTRAIT)).unwrap()
    };
    // 2.9 face heights a side; a third of that is above the eyes, and the face is centred.
    let layout = portrait(None, HEAD, Resize::default());
    assert_eq!((layout.canvas, layout.from), (Size::new(116, 116), rect(32, 41, 116, 116)));
    assert_eq!(layout.place, Rect::whole(layout.canvas));
    for (aspect, resize, expected) in [
        (Some((4, 5)), resize(800, 0, 0), (800, 1000)),
        (None, resize(300, 400, 0), (300, 400)),
        (Some((1, 1)), resize(300, 400, 0), (300, 400)),
        (None, resize(0, 0, 64), (64, 64)),
    ] {
        let canvas = portrait(aspect, HEAD, resize).canvas;
        assert_eq!((canvas.width, canvas.height), expected);
    }
    // Background fills the window beyond the picture; the result is clamped to the picture's longest side.
    let at_the_border = Head { middle: 10.0, left: 0.0, right: 30.0, ..HEAD };
    let layout = portrait(None, at_the_border, Resize::default());
    assert_eq!((layout.from.left, layout.place.left), (0, 48));
    let large = portrait(Some((1, 9)), HEAD, Resize::default());
    assert_eq!(large.canvas.height, 300);
}

#[test]
fn a_part_of_the_source_is_mapped_to_the_canvas() {
    let layout = cropped(None, 0, resize(50, 0, 0)).layout(LANDSCAPE, rect(100, 50, 100, 100)).unwrap();
    assert_eq!(layout.placed(rect(110, 60, 20, 40)), Some(rect(5, 5, 10, 20)));
    assert_eq!(layout.placed(rect(0, 0, 101, 51)), Some(rect(0, 0, 1, 1)), "clipped, and outwards");
    assert_eq!(layout.placed(rect(200, 50, 20, 20)), None);
}

#[test]
fn an_unchanged_picture_needs_no_memory() {
    assert_eq!(Scene::default().most_pixels(PORTRAIT), 0);
    let light = Light { shadow_angle: 0.0, shadow_length: 0.5, softness: 0.5, strength: 0.5, tint: [1.0; 3] };
    let grounding = Some(Grounding { light, horizon: None });
    assert_eq!(Scene { grounding, ..Scene::default() }.most_pixels(PORTRAIT), ground_shadow::MAX_PIXELS);
    assert_eq!(scene(Framing::Whole, resize(20, 0, 0)).most_pixels(PORTRAIT), 20 * 30);
    // The subject may be one column wide.
    assert_eq!(trimmed(0.0, 0, resize(20, 0, 0)).most_pixels(PORTRAIT), 20 * 8192);
    assert_eq!(trimmed(0.0, 0, resize(20, 0, 50)).most_pixels(PORTRAIT), 50 * 50);
}

#[test]
fn only_a_stretched_background_needs_memory_for_its_strips() {
    let needed = |fit| {
        let background = Background::Picture { fit, behind: Color::WHITE };
        let scene = Scene { background, ..scene(Framing::Whole, resize(400, 10, 0)) };
        scene.most_background_pixels(PORTRAIT, Size::new(100, 1000))
    };
    assert_eq!([Fit::Cover, Fit::Contain].map(needed), [0; 2]);
    // One row of the canvas is a hundred rows of the background, with three hundred above and below.
    assert_eq!(needed(Fit::Stretch), 2 * 400 * (100 + 600 + 4));
}
