//! Small drawn pictures whose finished form is known.

use super::{
    Anchor, Aspect, Background, CanvasLimit, Enhance, Fit, Flattened, Framing, Grounding, Light, Materials, Outline,
    Padding, Resize, SUBJECT_ALPHA, Scene, Shadow, flatten,
};
use crate::image::color::{Color, encoded8_of_linear16, linear_of_encoded};
use crate::image::{Buffer, Frame, Rect, Size, Subject};

const RED: [u8; 3] = [255, 0, 0];
const BLUE: [u8; 3] = [0, 0, 255];
const WHITE: [u8; 3] = [255; 3];

fn drawn(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Frame {
    let pixel = &pixel;
    let bytes: Vec<u8> = (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y))).collect();
    Frame::new(Size::new(width, height), Buffer::from(bytes))
}

fn with([red, green, blue]: [u8; 3], alpha: u8) -> [u8; 4] {
    if alpha == 0 { [0; 4] } else { [red, green, blue, alpha] }
}

/// How much of a pixel a disc covers whose edge is `soft` pixels wide.
fn disc(x: u32, y: u32, (cx, cy): (f32, f32), radius: f32, soft: f32) -> u8 {
    let distance = (x as f32 + 0.5 - cx).hypot(y as f32 + 0.5 - cy);
    (((radius - distance) / soft + 0.5).clamp(0.0, 1.0) * 255.0).round() as u8
}

fn rect(left: u32, top: u32, width: u32, height: u32) -> Rect {
    Rect { left, top, width, height }
}

fn finished_with(picture: Frame, scene: &Scene, materials: Materials) -> Flattened {
    let subject = picture.covered(SUBJECT_ALPHA).expect("a subject");
    let scene = scene.anchored(&picture);
    let layout = scene.layout(picture.size(), subject).expect("a layout");
    let finished = flatten(Subject::Source(picture), subject, &layout, &scene, materials);
    assert_eq!(finished.composite.frame().size(), layout.canvas);
    finished
}

fn finished(picture: Frame, scene: &Scene) -> Frame {
    finished_with(picture, scene, Materials::default()).composite.into_frame()
}

fn on(background: Background) -> Scene {
    Scene { background, ..Scene::default() }
}

fn color([red, green, blue]: [u8; 3]) -> Background {
    Background::Color(Color([red, green, blue, 255]))
}

fn shadow(dx: f32, dy: f32, sigma: f32, opacity: f32) -> Option<Shadow> {
    Some(Shadow { color: Color::BLACK, opacity, dx, dy, sigma })
}

/// The largest difference of any channel.
fn largest_difference(a: &Frame, b: &Frame) -> u8 {
    assert_eq!(a.size(), b.size());
    a.pixels().iter().zip(b.pixels()).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
}

/// How far the light of a pixel is from a mixture of `first` and `second`, as a share of white.
fn off_mixture(pixel: [u8; 4], first: [u8; 3], second: [u8; 3]) -> f32 {
    let light = |encoded: u8| linear_of_encoded(f32::from(encoded) / 255.0);
    let of = |color: [u8; 3]| color.map(light);
    let (pixel, first, second) = (of([pixel[0], pixel[1], pixel[2]]), of(first), of(second));
    let along: [f32; 3] = std::array::from_fn(|channel| second[channel] - first[channel]);
    let squared: f32 = along.iter().map(|value| value * value).sum();
    let share = (0..3).map(|c| (pixel[c] - first[c]) * along[c]).sum::<f32>() / squared;
    let nearest = share.clamp(0.0, 1.0);
    (0..3).map(|c| (first[c] + nearest * along[c] - pixel[c]).abs()).fold(0.0, f32::max)
}

fn worst_mixture(frame: &Frame, first: [u8; 3], second: [u8; 3]) -> f32 {
    frame.pixels().as_chunks::<4>().0.iter().map(|&pixel| off_mixture(pixel, first, second)).fold(0.0, f32::max)
}

#[test]
fn the_comparers_see_a_dark_fringe_and_a_gap() {
    assert!(off_mixture([255, 0, 0, 255], RED, BLUE) < 1e-6);
    assert!(off_mixture([188, 0, 188, 255], RED, BLUE) < 0.01);
    // A mixture of encoded values: what it is without linear light.
    assert!(off_mixture([128, 0, 128, 255], RED, BLUE) > 0.2);
    assert!(off_mixture([188, 10, 188, 255], RED, BLUE) > 0.002);
    assert!(off_mixture([250, 255, 255, 255], RED, WHITE) > 0.02, "blue between red and white");
}

#[test]
fn a_white_disc_on_white_cannot_be_seen() {
    for soft in [1.0, 7.0] {
        let white = |x, y| with(WHITE, disc(x, y, (40.0, 31.5), 20.3, soft));
        for size in [(0, 0), (57, 0), (200, 131)] {
            let given = |value| (value > 0).then_some(value);
            let resize = Resize { width: given(size.0), height: given(size.1), max_dim: None };
            let flat = finished(drawn(81, 64, white), &Scene { resize, ..on(color(WHITE)) });
            assert!(flat.pixels().iter().all(|&value| value == 255));
        }
    }
    // The same with an edge that kept a little of a dark background is seen.
    let dark = |x, y| match disc(x, y, (40.0, 31.5), 20.3, 3.0) {
        255 => [255; 4],
        alpha => with([230; 3], alpha),
    };
    assert!(finished(drawn(81, 64, dark), &on(color(WHITE))).pixels().iter().any(|&value| value < 254));
}

#[test]
fn a_red_disc_on_blue_has_only_mixtures_in_linear_light() {
    for soft in [1.0, 9.0] {
        for width in [None, Some(61), Some(203)] {
            let red = drawn(90, 90, |x, y| with(RED, disc(x, y, (44.0, 47.3), 30.0, soft)));
            let resize = Resize { width, ..Resize::default() };
            let after = finished(red, &Scene { resize, ..on(color(BLUE)) });
            let worst = worst_mixture(&after, RED, BLUE);
            assert!(worst < 0.006, "{worst} with an edge of {soft} at {width:?}");
            assert!(!after.has_transparency());
        }
    }
}

#[test]
fn a_hard_shadow_lies_exactly_where_it_is_moved_to() {
    let square = |x: u32, y: u32| (10..30).contains(&x) && (10..25).contains(&y);
    let scene = Scene { framing: Framing::Grown, shadow: shadow(7.0, -13.0, 0.0, 0.4), ..Scene::default() };
    let after = finished(drawn(32, 40, |x, y| if square(x, y) { [9, 200, 30, 255] } else { [0; 4] }), &scene);
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
    assert!(largest_difference(&after, &expected(8, 0)) > 50, "the comparer does not see a shifted shadow");
    assert!(largest_difference(&after, &expected(7, 1)) > 50, "the comparer does not see a shifted shadow");
}

#[test]
fn a_shadow_between_pixels_is_shared_out() {
    let scene = Scene { framing: Framing::Grown, shadow: shadow(20.25, 0.0, 0.0, 1.0), ..Scene::default() };
    let after = finished(drawn(10, 3, |_, _| [255; 4]), &scene);
    assert_eq!(after.size(), Size::new(31, 3));
    let alphas: Vec<u8> = (18..31).map(|x| after.pixel(x, 1)[3]).collect();
    assert_eq!(alphas, [0, 0, 191, 255, 255, 255, 255, 255, 255, 255, 255, 255, 64]);
}

#[test]
fn a_shadow_has_its_opacity_and_its_colour_where_it_is_full() {
    for (opacity, alpha) in [(1.0, 255), (0.35, 89), (0.4, 102), (0.0, 0)] {
        let given = Shadow { color: Color([10, 20, 250, 0]), opacity, dx: 120.0, dy: 0.0, sigma: 10.0 };
        let scene = Scene { framing: Framing::Grown, shadow: Some(given), ..Scene::default() };
        let after = finished(drawn(110, 110, |_, _| [255; 4]), &scene);
        let y = after.size().height / 2;
        let x = after.size().width - 30 - 55;
        assert_eq!(after.pixel(x, y), with([10, 20, 250], alpha), "{opacity}");
    }
}

#[test]
fn a_grown_shadow_is_nowhere_clipped() {
    for (dx, dy, sigma) in [(8.49, 8.49, 10.0), (-30.0, 5.0, 3.0), (0.0, -50.0, 50.0), (100.0, 100.0, 2.0)] {
        for width in [None, Some(90)] {
            let resize = Resize { width, ..Resize::default() };
            let scene =
                Scene { framing: Framing::Grown, resize, shadow: shadow(dx, dy, sigma, 1.0), ..Scene::default() };
            let subject = drawn(70, 50, |x, y| with(RED, disc(x, y, (35.0, 25.0), 25.0, 1.0)));
            let after = finished(subject, &scene);
            let Size { width, height } = after.size();
            // No more than the faintest trace touches the canvas' border, outside of the subject.
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
    let after = finished(before.clone(), &scene);
    let subject = before.covered(SUBJECT_ALPHA).unwrap();
    assert_eq!(after.size(), Size::new(subject.width + 80, subject.height + 80));
    for (x, y) in (0..60).flat_map(|y| (0..60).map(move |x| (x, y))) {
        if before.pixel(x, y)[3] == 255 {
            assert_eq!(after.pixel(x + 40 - subject.left, y + 40 - subject.top), before.pixel(x, y));
        }
    }
    // Below and to the right there is shadow, above and to the left there is none.
    let (right, bottom) = (subject.width + 40, subject.height + 40);
    assert!(after.pixel(right, bottom - 12)[0] < 225);
    assert_eq!(after.pixel(5, 5), [244, 244, 245, 255]);
    assert!(!after.has_transparency());
}

#[test]
fn a_shadow_on_a_colour_is_its_transparent_self_on_a_page_of_that_colour() {
    let subject = || drawn(70, 60, |x, y| with([200, 180, 20], disc(x, y, (35.0, 30.0), 22.0, 3.0)));
    for (page, opacity, color) in
        [(WHITE, 0.4, Color::BLACK), (WHITE, 1.0, Color::BLACK), ([30, 90, 200], 0.6, Color([250, 10, 60, 255]))]
    {
        for sigma in [0.0, 4.0, 10.0] {
            let shadow = Some(Shadow { color, opacity, dx: -9.0, dy: 14.0, sigma });
            let scene = Scene { framing: Framing::Grown, shadow, ..Scene::default() };
            let clear = finished(subject(), &scene);
            let filled = finished(
                subject(),
                &Scene { background: Background::Color(Color([page[0], page[1], page[2], 255])), ..scene.clone() },
            );
            // The same without its shadow: where the subject covers nothing.
            let bare =
                finished(subject(), &Scene { shadow: shadow.map(|shadow| Shadow { opacity: 0.0, ..shadow }), ..scene });
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
    // Beside a shadow the edge is what it is without one.
    let subject = || drawn(90, 90, |x, y| with(RED, disc(x, y, (40.0, 40.0), 30.0, 5.0)));
    let scene = on(color(BLUE));
    let far = Scene { shadow: shadow(60.0, 60.0, 0.0, 0.4), ..scene.clone() };
    let (with, without) = (finished(subject(), &far), finished(subject(), &scene));
    let mut edge = 0;
    for (x, y) in (0..90).flat_map(|y| (0..60).map(move |x| (x, y))) {
        assert_eq!(with.pixel(x, y), without.pixel(x, y));
        let [red, _, blue, _] = with.pixel(x, y);
        edge += u32::from(red > 20 && blue > 20);
    }
    assert!(edge > 50, "{edge}");
    assert!(worst_mixture(&without, RED, BLUE) < 0.006);
    // And on a shadow of that very colour the edge is what it is on the colour.
    let same = Some(Shadow { color: Color([0, 0, 255, 255]), opacity: 0.7, dx: 0.0, dy: 0.0, sigma: 3.0 });
    assert!(worst_mixture(&finished(subject(), &Scene { shadow: same, ..scene }), RED, BLUE) < 0.006);
}

/// A column that the lower border cuts, with a soft edge.
fn bust(width: u32, height: u32) -> Frame {
    let middle = width as f32 / 2.0;
    drawn(width, height, |x, y| {
        let across = ((width as f32 / 5.0 - (x as f32 + 0.5 - middle).abs()) / 2.0 + 0.5).clamp(0.0, 1.0);
        let down = ((y as f32 - height as f32 / 4.0) / 2.0).clamp(0.0, 1.0);
        with(RED, (across * down * 255.0).round() as u8)
    })
}

#[test]
fn a_subject_that_is_cut_off_lies_against_that_border_without_room_outline_or_rim() {
    let studio = Framing::Padded { aspect: None, padding: Padding::Share(0.1) };
    let outline = Some(Outline { color: Color::WHITE, width: 7.0 });
    for (framing, outline, width) in [
        (studio, None, None),
        (studio, None, Some(123)),
        (Framing::Grown, None, None),
        (Framing::Grown, None, Some(75)),
        (Framing::Trimmed { padding: 9 }, outline, None),
        (Framing::Trimmed { padding: 9 }, outline, Some(90)),
    ] {
        for (dx, dy, sigma) in [(8.0, 12.0, 10.0), (-6.0, -14.0, 3.0), (0.0, 20.0, 0.0)] {
            let resize = Resize { width, ..Resize::default() };
            let shadow = shadow(dx, dy, sigma, 0.5).filter(|_| outline.is_none());
            let scene = Scene { framing, anchor: Anchor::Auto, resize, shadow, outline, ..on(color([230, 240, 250])) };
            let after = finished(bust(100, 160), &scene);
            let Size { width, height } = after.size();
            // Each of the lowest rows is the one above it: subject, shadow and outline all go on to the border.
            for (x, y) in (height - 20..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                let (here, above) = (after.pixel(x, y), after.pixel(x, y - 1));
                let off = here.iter().zip(above).map(|(a, b)| a.abs_diff(b)).max();
                assert!(off <= Some(2), "{here:?} under {above:?} at {x},{y} of {framing:?} with {dx},{dy},{sigma}");
            }
            let lowest: Vec<_> = (0..width).map(|x| after.pixel(x, height - 1)).collect();
            assert!(lowest.iter().filter(|pixel| pixel[..3] == RED).count() > 20, "{framing:?}");
            // In the middle there is a rim, or room.
            let middle = finished(bust(100, 160), &Scene { anchor: Anchor::Center, ..scene });
            let bottom = middle.size().height - 1;
            assert!(
                (0..middle.size().width).all(|x| middle.pixel(x, bottom)[..3] != RED)
                    || (framing == Framing::Grown && dy < 0.0)
            );
        }
    }
}

#[test]
fn an_anchor_changes_nothing_where_no_border_cuts() {
    for framing in [
        Framing::Padded { aspect: Aspect::new(4, 5), padding: Padding::Share(0.1) },
        Framing::Grown,
        Framing::Trimmed { padding: 5 },
    ] {
        let outline = Some(Outline { color: Color::WHITE, width: 4.0 });
        let subject = || drawn(81, 70, |x, y| with(RED, disc(x, y, (40.0, 35.0), 30.0, 2.0)));
        let scene = Scene { framing, shadow: shadow(9.0, -5.0, 6.0, 0.4), outline, ..Scene::default() };
        let anchored = finished(subject(), &Scene { anchor: Anchor::Auto, ..scene.clone() });
        assert_eq!(largest_difference(&finished(subject(), &scene), &anchored), 0);
    }
}

#[test]
fn an_outline_is_a_ring_of_its_width_around_the_subject() {
    for (width, radius) in [(10.0, 30.0), (2.5, 12.0), (1.0, 20.0), (100.0, 9.0)] {
        let outline = Some(Outline { color: Color([1, 2, 3, 255]), width });
        let scene = Scene { framing: Framing::Trimmed { padding: 5 }, outline, ..Scene::default() };
        let after = finished(drawn(70, 70, |x, y| with(RED, disc(x, y, (35.0, 35.0), radius, 1.0))), &scene);
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
        let after = finished(subject(), &Scene { framing, outline, ..on(color(BLUE)) });
        assert!(inside(&after) < 0.006, "{} with an edge of {soft}", inside(&after));
        // And the whole has no other colours than these three, with nothing of the subject beyond the outline.
        let bare = finished(subject(), &Scene { framing, ..on(color(BLUE)) });
        assert!(inside(&bare) > 0.5, "the comparer does not see a missing outline");
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
    let cut = finished(picture(), &Scene { framing, outline, ..Scene::default() });
    let right = cut.covered(1).map(|bounds| bounds.left + bounds.width);
    assert!(right < Some(40), "{right:?}");
    let kept = finished(picture(), &Scene { framing, ..Scene::default() });
    assert_eq!(kept.pixel(kept.size().width - 1, 10), [0, 0, 9, 60]);
}

#[test]
fn a_translucent_subject_keeps_its_sticker() {
    let veil = drawn(50, 50, |x, y| with(RED, disc(x, y, (25.0, 25.0), 15.0, 1.0) / 4));
    let outline = Some(Outline { color: Color::WHITE, width: 4.0 });
    let after = finished(veil, &Scene { framing: Framing::Trimmed { padding: 0 }, outline, ..Scene::default() });
    let middle = after.size().width / 2;
    assert_eq!(after.pixel(middle, middle)[3], 255);
    assert!(off_mixture(after.pixel(middle, middle), RED, WHITE) < 0.01);
}

/// A photo of a blue disc, and its cutout.
fn photo(width: u32, height: u32, ground: impl Fn(u32, u32) -> [u8; 3] + Copy) -> (Frame, Frame) {
    let at = (width as f32 * 0.55, height as f32 * 0.45);
    let radius = width.min(height) as f32 * 0.3;
    let cutout = drawn(width, height, |x, y| with([20, 60, 240], disc(x, y, at, radius, 3.0)));
    let source = finished_with(
        cutout.clone(),
        &on(Background::Picture { fit: Fit::Stretch, behind: Color::BLACK }),
        Materials { background: Some(drawn(width, height, |x, y| with(ground(x, y), 255))), ..Materials::default() },
    );
    (source.composite.into_frame(), cutout)
}

fn blurred(intensity: u8) -> Background {
    Background::Blurred { intensity, behind: Color([1, 2, 3, 255]) }
}

fn over_blurred(source: &Frame, cutout: Frame, scene: &Scene) -> Frame {
    let materials = Materials { plate: scene.plate(source), ..Materials::default() };
    finished_with(cutout, scene, materials).composite.into_frame()
}

#[test]
fn nothing_of_the_subject_bleeds_into_its_blurred_background() {
    let flat = [200, 30, 40];
    for (width, height) in [(120, 90), (90, 121), (37, 37), (400, 301)] {
        let (source, cutout) = photo(width, height, |_, _| flat);
        for intensity in [2, 10, 37, 100] {
            for framing in [Framing::Whole, Framing::Padded { aspect: None, padding: Padding::Share(0.1) }] {
                let scene = Scene { framing, ..on(blurred(intensity)) };
                let after = over_blurred(&source, cutout.clone(), &scene);
                // As if the disc lay on that very colour.
                let ideal = finished(cutout.clone(), &Scene { framing, ..on(color(flat)) });
                assert_eq!(largest_difference(&after, &ideal), 0, "{intensity} of {width}×{height}");
            }
        }
        // The comparer sees it where it does bleed: a plate that knows of no subject.
        let scene = on(blurred(37));
        let nothing = drawn(width, height, |x, _| if x == 0 { with(flat, 255) } else { [0; 4] });
        let bled = over_blurred(&source, nothing.clone(), &scene);
        assert!(largest_difference(&bled, &finished(nothing, &on(color(flat)))) > 20);
    }
}

#[test]
fn a_blurred_background_stays_where_it_was() {
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
        assert!(far > 10, "the ramp is too flat to tell a mirror from a streak: {far}");
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
fn a_picture_that_is_all_subject_has_the_given_colour_behind_it() {
    let source = drawn(40, 30, |_, _| [90, 90, 90, 255]);
    let cutout = drawn(40, 30, |_, _| [90, 90, 90, 200]);
    let framing = Framing::Padded { aspect: None, padding: Padding::Pixels(10) };
    let after = over_blurred(&source, cutout, &Scene { framing, ..on(blurred(50)) });
    assert_eq!(after.pixel(0, 0), [1, 2, 3, 255]);
    // Nor without a plate.
    let cutout = drawn(40, 30, |x, _| with(RED, if x < 20 { 255 } else { 0 }));
    assert_eq!(finished(cutout, &on(blurred(50))).pixel(30, 0), [1, 2, 3, 255]);
}

/// A picture that tells where each of its pixels was, on a canvas of `size` with next to no subject.
fn fitted(picture: Size, fit: Fit, size: Size) -> Frame {
    let place = |x: u32, y: u32| [x as u8, y as u8, 77, 255];
    let background = Some(drawn(picture.width, picture.height, place));
    let scene = on(Background::Picture { fit, behind: Color([250, 0, 250, 255]) });
    let speck = drawn(size.width, size.height, |x, y| if (x, y) == (0, 0) { [9, 9, 9, 255] } else { [0; 4] });
    finished_with(speck, &scene, Materials { background, ..Materials::default() }).composite.into_frame()
}

#[test]
fn a_background_covers_is_contained_or_stretched() {
    let (wide, high, square) = (Size::new(200, 100), Size::new(100, 200), Size::new(100, 100));
    let near = |pixel: [u8; 4], x: u32, y: u32| {
        let off = pixel[0].abs_diff(x as u8).max(pixel[1].abs_diff(y as u8));
        assert!(off <= 2 && pixel[2..] == [77, 255], "{pixel:?} for {x},{y}");
    };
    // The middle, pixel for pixel: the sides stick out.
    let cover = fitted(wide, Fit::Cover, square);
    assert_eq!(cover.pixel(1, 0), [51, 0, 77, 255]);
    assert_eq!(cover.pixel(99, 99), [149, 99, 77, 255]);
    assert_eq!(fitted(high, Fit::Cover, square).pixel(40, 60), [40, 110, 77, 255]);
    // Half of it in size, with bars.
    let contain = fitted(wide, Fit::Contain, square);
    assert_eq!([contain.pixel(50, 24), contain.pixel(50, 75)], [[250, 0, 250, 255]; 2]);
    near(contain.pixel(50, 50), 100, 50);
    near(contain.pixel(20, 30), 40, 10);
    let contain = fitted(high, Fit::Contain, square);
    assert_eq!([contain.pixel(24, 50), contain.pixel(75, 50)], [[250, 0, 250, 255]; 2]);
    near(contain.pixel(60, 20), 70, 40);
    // Distorted.
    let stretch = fitted(wide, Fit::Stretch, square);
    near(stretch.pixel(20, 30), 40, 30);
    near(stretch.pixel(90, 80), 180, 80);
    // Enlarged, and a fraction of a pixel.
    let cover = fitted(Size::new(50, 40), Fit::Cover, square);
    near(cover.pixel(50, 50), 25, 20);
    near(cover.pixel(90, 10), 41, 4);
    for (fit, size) in [(Fit::Cover, wide), (Fit::Contain, high), (Fit::Stretch, square)] {
        assert_eq!(fitted(size, fit, size).pixel(60, 70), [60, 70, 77, 255], "the very size is copied");
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
fn a_translucent_background_lets_the_colour_behind_through() {
    let speck = || drawn(10, 10, |x, y| if (x, y) == (0, 0) { [9, 9, 9, 255] } else { [0; 4] });
    let veil =
        |size| Materials { background: Some(drawn(size, size, |_, _| [255, 255, 255, 128])), ..Materials::default() };
    for size in [10, 33] {
        let scene = on(Background::Picture { fit: Fit::Cover, behind: Color::BLACK });
        assert_eq!(finished_with(speck(), &scene, veil(size)).composite.frame().pixel(5, 5), [188, 188, 188, 255]);
        let scene = on(Background::Picture { fit: Fit::Cover, behind: Color::TRANSPARENT });
        assert_eq!(finished_with(speck(), &scene, veil(size)).composite.frame().pixel(5, 5), [255, 255, 255, 128]);
    }
    let missing = on(Background::Picture { fit: Fit::Cover, behind: Color::WHITE });
    assert_eq!(finished(speck(), &missing).pixel(5, 5), [255; 4]);
}

/// A crop of `aspect` around `subject`.
fn cropped(source: Frame, subject: Rect, aspect: (u32, u32)) -> Flattened {
    let framing = Framing::Cropped { aspect: Aspect::new(aspect.0, aspect.1), padding: 0 };
    let scene = Scene { framing, ..on(Background::EdgeColor) };
    let layout = scene.layout(source.size(), subject).unwrap();
    flatten(Subject::Source(source), subject, &layout, &scene, Materials::default())
}

#[test]
fn an_opaque_crop_keeps_its_pixels_and_says_where_the_subject_is() {
    let source = drawn(60, 40, |x, y| [x as u8, y as u8, 0, 255]);
    let Flattened { composite, subject } = cropped(source, rect(20, 10, 16, 9), (1, 1));
    assert_eq!(composite.frame().size(), Size::new(16, 16));
    assert_eq!(composite.frame().pixel(0, 0), [20, 6, 0, 255]);
    assert_eq!(composite.frame().pixel(15, 15), [35, 21, 0, 255]);
    assert_eq!(subject, Some(rect(0, 4, 16, 9)));
}

#[test]
fn beyond_its_picture_a_crop_has_the_colour_of_the_nearest_pixel() {
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
    let after = flatten(Subject::Source(source), subject, &layout, &scene, Materials::default()).composite.into_frame();
    assert!(layout.place.left > 0 && !after.has_transparency());
    assert!(
        (0..after.size().height)
            .all(|y| (0..layout.place.left).all(|x| after.pixel(x, y) == after.pixel(layout.place.left, y)))
    );
}

#[test]
fn a_clear_crop_of_a_cutout_finds_its_subject_again() {
    let cutout = drawn(60, 20, |x, y| with(RED, disc(x, y, (30.0, 10.0), 8.0, 1.0)));
    let framing = Framing::Cropped { aspect: Some(Aspect::SQUARE), padding: 20 };
    let after = finished_with(cutout, &Scene { framing, ..Scene::default() }, Materials::default());
    assert_eq!(after.composite.frame().size(), Size::new(56, 56));
    assert_eq!(after.subject, Some(rect(20, 20, 16, 16)));
    assert_eq!(after.composite.frame().pixel(0, 0), [0; 4]);
}

#[test]
fn the_bars_of_a_cutout_are_clear_also_where_it_touches_its_border() {
    let cutout = drawn(60, 20, |x, _| if (10..50).contains(&x) { with(RED, 255) } else { [0; 4] });
    let after = cropped(cutout, rect(10, 0, 40, 20), (1, 1));
    assert_eq!(after.composite.frame().size(), Size::new(40, 40));
    assert_eq!([after.composite.frame().pixel(20, 9), after.composite.frame().pixel(20, 10)], [[0; 4], with(RED, 255)]);
    // Off the middle of its picture it is still in the middle of the crop.
    let cutout = drawn(60, 20, |x, y| if x < 10 && y < 10 { with(RED, 255) } else { [0; 4] });
    let corner = cropped(cutout, rect(0, 0, 10, 10), (2, 1));
    assert_eq!((corner.composite.frame().size(), corner.subject), (Size::new(20, 10), Some(rect(5, 0, 10, 10))));
    assert_eq!(corner.composite.frame().pixel(4, 5), [0; 4]);
    assert_eq!(after.subject, Some(rect(0, 10, 40, 20)));
}

#[test]
fn only_the_subject_is_enhanced() {
    let scene = Scene {
        framing: Framing::Padded { aspect: None, padding: Padding::Pixels(6) },
        enhance: Some(Enhance(0.3)),
        ..on(color([120, 110, 100]))
    };
    let after = finished(drawn(10, 10, |_, _| [120, 110, 100, 255]), &scene);
    assert_eq!(after.pixel(0, 0), [120, 110, 100, 255]);
    let [red, green, blue, _] = after.pixel(10, 10);
    assert!(red > 120 && red - blue > 20 && green > 110, "{:?}", after.pixel(10, 10));
    let same = finished(drawn(10, 10, |_, _| [120, 110, 100, 255]), &Scene { enhance: Some(Enhance(0.0)), ..scene });
    assert_eq!(same.pixel(10, 10), [120, 110, 100, 255]);
}

#[test]
fn every_scene_of_every_odd_size_is_finished() {
    let noise = |x: u32, y: u32| {
        let hash = (x.wrapping_mul(0x9E37_79B9) ^ y.wrapping_mul(0x85EB_CA6B)).wrapping_mul(0xC2B2_AE35);
        (hash ^ (hash >> 15)).to_le_bytes()
    };
    let framings = [
        Framing::Whole,
        Framing::Padded { aspect: Aspect::new(4, 5), padding: Padding::Pixels(3) },
        Framing::Padded { aspect: None, padding: Padding::Share(0.45) },
        Framing::Cropped { aspect: Aspect::new(16, 9), padding: 2 },
        Framing::Grown,
        Framing::Trimmed { padding: 1 },
    ];
    let picture = |fit| Background::Picture { fit, behind: Color::TRANSPARENT };
    let backgrounds = [
        Background::Clear,
        color(BLUE),
        picture(Fit::Cover),
        picture(Fit::Contain),
        blurred(2),
        blurred(100),
        Background::EdgeColor,
    ];
    let resizes = [(None, None), (Some(1), None), (Some(50), Some(9)), (None, Some(61))];
    let light = Light { shadow_angle: 210.0, shadow_length: 0.8, softness: 0.5, strength: 0.5, tint: [1.2, 1.0, 0.8] };
    for (width, height) in [(1, 1), (1, 41), (41, 1), (17, 23), (64, 3)] {
        for framing in framings {
            for background in backgrounds {
                for (to_width, to_height) in resizes {
                    let scene = Scene {
                        framing,
                        anchor: Anchor::Auto,
                        resize: Resize { width: to_width, height: to_height, max_dim: None },
                        limit: CanvasLimit::default(),
                        background,
                        shadow: shadow(3.3, -2.0, 9.0, 0.5),
                        grounding: Some(Grounding { light, horizon: Some(0.4) }),
                        outline: Some(Outline { color: Color::WHITE, width: 2.5 }),
                        enhance: Some(Enhance(0.2)),
                        watermark: None,
                        stamp: None,
                        ..Scene::default()
                    };
                    let source = drawn(width, height, |x, y| if (x, y) == (0, 0) { [255; 4] } else { noise(x, y) });
                    let subject = source.covered(SUBJECT_ALPHA).unwrap();
                    let scene = scene.anchored(&source);
                    let Ok(layout) = scene.layout(source.size(), subject) else { continue };
                    let materials =
                        Materials { background: Some(drawn(13, 7, noise)), plate: scene.plate(&source), mark: None };
                    let after = flatten(Subject::Source(source), subject, &layout, &scene, materials);
                    assert_eq!(after.composite.frame().size(), layout.canvas);
                }
            }
        }
    }
}
