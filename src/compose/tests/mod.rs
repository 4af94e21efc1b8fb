//! Composites of small drawn pictures, compared with their analytic results.

mod anchor;
mod blurred_background;
mod crop;
mod fitted_background;
mod outline;
mod shadow;
mod subject_edge;

use super::{
    Anchor, Aspect, Background, Enhance, Fit, Flattened, Framing, Grounding, Light, Materials, Outline, Padding,
    Resize, SUBJECT_ALPHA, Scene, Shadow, flatten,
};
use crate::image::color::{Color, encoded8_of_linear16, linear_of_encoded};
use crate::image::tests::{drawn, noise};
use crate::image::{Frame, Rect, Size, Subject};

const RED: [u8; 3] = [255, 0, 0];
const BLUE: [u8; 3] = [0, 0, 255];
const WHITE: [u8; 3] = [255; 3];

fn with([red, green, blue]: [u8; 3], alpha: u8) -> [u8; 4] {
    if alpha == 0 { [0; 4] } else { [red, green, blue, alpha] }
}

/// Coverage of a pixel by a disc whose edge is `soft` pixels wide.
fn disc(x: u32, y: u32, (cx, cy): (f32, f32), radius: f32, soft: f32) -> u8 {
    let distance = (x as f32 + 0.5 - cx).hypot(y as f32 + 0.5 - cy);
    (((radius - distance) / soft + 0.5).clamp(0.0, 1.0) * 255.0).round() as u8
}

fn rect(left: u32, top: u32, width: u32, height: u32) -> Rect {
    Rect { left, top, width, height }
}

pub(in crate::compose) fn flattened_with(picture: Frame, scene: &Scene, materials: Materials) -> Flattened {
    let subject = picture.covered(SUBJECT_ALPHA).expect("a subject");
    let scene = scene.anchored(&picture);
    composed(picture, subject, &scene, materials)
}

/// Flattens `picture`, with its subject in `subject`, in `scene`.
fn composed(picture: Frame, subject: Rect, scene: &Scene, materials: Materials) -> Flattened {
    let layout = scene.layout(picture.size(), subject).expect("a layout");
    let flattened = flatten(Subject::Source(picture), subject, &layout, scene, materials);
    assert_eq!(flattened.composite.frame().size(), layout.canvas);
    flattened
}

pub(in crate::compose) fn flattened(picture: Frame, scene: &Scene) -> Frame {
    flattened_with(picture, scene, Materials::default()).composite.into_frame()
}

fn on(background: Background) -> Scene {
    Scene { background, ..Scene::default() }
}

fn color([red, green, blue]: [u8; 3]) -> Background {
    Background::Color(Color([red, green, blue, 255]))
}

fn blurred(intensity: u8) -> Background {
    Background::Blurred { intensity, behind: Color([1, 2, 3, 255]) }
}

fn shadow(dx: f32, dy: f32, sigma: f32, opacity: f32) -> Option<Shadow> {
    Some(Shadow { color: Color::BLACK, opacity, dx, dy, sigma })
}

pub(in crate::compose) fn largest_difference(a: &Frame, b: &Frame) -> u8 {
    assert_eq!(a.size(), b.size());
    a.pixels().iter().zip(b.pixels()).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
}

/// Distance of a pixel's light from the mixtures of `first` and `second`, as a share of white.
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
fn the_comparison_detects_a_dark_fringe_and_a_gap() {
    assert!(off_mixture([255, 0, 0, 255], RED, BLUE) < 1e-6);
    assert!(off_mixture([188, 0, 188, 255], RED, BLUE) < 0.01);
    // A mixture of encoded values instead of linear light.
    assert!(off_mixture([128, 0, 128, 255], RED, BLUE) > 0.2);
    assert!(off_mixture([188, 10, 188, 255], RED, BLUE) > 0.002);
    assert!(off_mixture([250, 255, 255, 255], RED, WHITE) > 0.02, "blue between red and white");
}

#[test]
fn only_the_subject_is_enhanced() {
    let scene = Scene {
        framing: Framing::Padded { aspect: None, padding: Padding::Pixels(6) },
        enhance: Some(Enhance(0.3)),
        ..on(color([120, 110, 100]))
    };
    let after = flattened(drawn(10, 10, |_, _| [120, 110, 100, 255]), &scene);
    assert_eq!(after.pixel(0, 0), [120, 110, 100, 255]);
    let [red, green, blue, _] = after.pixel(10, 10);
    assert!(red > 120 && red - blue > 20 && green > 110, "{:?}", after.pixel(10, 10));
}

#[test]
fn every_scene_composes_at_every_odd_size() {
    let framings = [
        Framing::Whole,
        Framing::Padded { aspect: Aspect::new(4, 5), padding: Padding::Pixels(3) },
        Framing::Padded { aspect: None, padding: Padding::Share(0.45) },
        Framing::Cropped { aspect: Aspect::new(16, 9), padding: 2 },
        Framing::Expanded,
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
                        background,
                        shadow: shadow(3.3, -2.0, 9.0, 0.5),
                        grounding: Some(Grounding { light, horizon: Some(0.4) }),
                        outline: Some(Outline { color: Color::WHITE, width: 2.5 }),
                        enhance: Some(Enhance(0.2)),
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
