//! Tests of rendered scenes: vocabulary coverage, determinism, scale invariance, grounding, banding, extreme sizes.

use super::vocabulary::CONCEPTS;
use super::{Rendered, render};
use crate::image::tests::on_any_number_of_threads;
use crate::image::{Frame, Size};
use proptest::prelude::*;

const SIZE: Size = Size::new(96, 72);

fn rendered(prompt: &str, size: Size) -> Frame {
    let Rendered { backdrop, .. } = render(prompt, size);
    assert_eq!(backdrop.frame.size(), size);
    assert!(!backdrop.frame.has_transparency());
    backdrop.frame
}

/// Mean absolute difference of a channel, of 255.
fn difference(one: &Frame, other: &Frame) -> f64 {
    let sum: u64 = one.pixels().iter().zip(other.pixels()).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / one.pixels().len() as f64
}

#[test]
fn every_concept_changes_the_picture() {
    // Each word is compared with the room without it. An unknown word measures the change by another seed alone.
    let rooms =
        ["", "oak table", "brick wall, oak table", "black marble floor, white wall, sun from above"].map(|room| {
            let plain = rendered(room, SIZE);
            let noise = difference(&plain, &rendered(&format!("{room}, zorp"), SIZE));
            (room, plain, noise)
        });
    let plain_light = render("", SIZE).backdrop.grounding;
    let mut without: Vec<&str> = Vec::new();
    for entry in CONCEPTS {
        let name = entry.words[0];
        let changes = rooms
            .iter()
            .any(|(room, plain, noise)| difference(plain, &rendered(&format!("{room}, {name}"), SIZE)) > noise + 0.4);
        // Words about the shadow change the grounding instead of the backdrop.
        if !changes && render(name, SIZE).backdrop.grounding == plain_light {
            without.push(name);
        }
    }
    assert_eq!(without, [""; 0], "have no visible effect");
}

#[test]
fn a_prompt_gives_identical_bytes_on_any_number_of_threads() {
    for prompt in ["misty forest at dawn, petals", "marble podium, brick wall, window light"] {
        on_any_number_of_threads(prompt, || rendered(prompt, Size::new(150, 100)).into_pixels());
    }
    let [one, other] = ["marble", "marble and more"].map(|prompt| rendered(prompt, SIZE));
    assert_ne!(one.pixels(), other.pixels(), "another prompt, another seed");
}

/// Halves a picture in encoded values: accurate enough for smooth pictures.
fn halved(frame: &Frame) -> Frame {
    let size = Size::new(frame.size().width / 2, frame.size().height / 2);
    let pixels = (0..size.height).flat_map(|y| {
        (0..size.width).flat_map(move |x| {
            let four = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(dx, dy)| frame.pixel(2 * x + dx, 2 * y + dy));
            [0, 1, 2, 3].map(|channel| (four.iter().map(|pixel| u32::from(pixel[channel])).sum::<u32>() / 4) as u8)
        })
    });
    Frame::new(size, pixels.collect::<Vec<u8>>().into())
}

#[test]
fn every_size_shows_one_scene() {
    for prompt in [
        "walnut table, brick wall, window light",
        "meadow at sunset",
        "kitchen, marble counter",
        "terrazzo podium",
        "city bokeh",
    ] {
        let small = rendered(prompt, Size::new(400, 300));
        let large = rendered(prompt, Size::new(800, 600));
        let error = difference(&small, &halved(&large));
        assert!(error < 3.0, "{prompt}: {error}");
        let other = difference(&small, &rendered("snow", Size::new(400, 300)));
        assert!(other > 10.0 * error.max(0.4), "{prompt}: the measure separates other scenes ({other}, {error})");
    }
}

#[test]
fn unknown_words_give_a_neutral_studio() {
    let Rendered { backdrop, understood } = render("xyzzy plugh", SIZE);
    assert_eq!(understood, [""; 0]);
    assert!(backdrop.grounding.horizon.is_some());
    for pixel in backdrop.frame.pixels().as_chunks::<4>().0 {
        let [red, green, blue, _] = *pixel;
        assert!(red.abs_diff(green) < 6 && green.abs_diff(blue) < 8, "{pixel:?} is not neutral");
        assert!(red > 120, "{pixel:?} is not light");
    }
}

#[test]
fn grounding_follows_the_light_and_horizon() {
    let light = |prompt: &str| render(prompt, Size::new(8, 6)).backdrop.grounding;
    let left = light("marble, light from the left").light.shadow_angle.to_radians();
    let right = light("marble, light from the right").light.shadow_angle.to_radians();
    assert!(left.cos() > 0.5 && right.cos() < -0.5, "shadows fall away from the light");
    assert!(light("marble, backlight").light.shadow_angle.to_radians().sin() > 0.5, "towards the viewer");
    assert!(light("long shadow").light.shadow_length > 2.0 * light("overhead light").light.shadow_length);
    assert!(light("hard shadows").light.softness < light("soft shadows").light.softness);
    assert_eq!(light("no shadow").light.strength, 0.0);
    let warm = light("beach at sunset").light.tint;
    assert!(warm[0] > 1.1 && warm[2] < 0.9, "{warm:?}");
    assert_eq!(light("blue sky").horizon, None);
    assert_eq!(light("sea").horizon, None, "water has no contact horizon");
    assert!(light("podium").horizon > light("kitchen").horizon);
}

#[test]
fn gradients_have_no_steps() {
    let frame = rendered("grey studio", Size::new(64, 1200));
    // The mean of each row, to a fraction of a step.
    let means: Vec<f64> =
        (0..1200).map(|y| (0..64).map(|x| f64::from(frame.pixel(x, y)[1])).sum::<f64>() / 64.0).collect();
    let steepest = means.windows(2).map(|pair| (pair[0] - pair[1]).abs()).fold(0.0, f64::max);
    assert!(steepest < 0.9, "{steepest}");
    assert!(means.iter().any(|mean| (mean - mean.round()).abs() > 0.2), "dithered");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_prompt_renders_at_any_size(
        words in prop::collection::vec(0..CONCEPTS.len(), 0..8),
        (width, height) in prop_oneof![8 => (1_u32..90, 1_u32..90), 1 => Just((1_u32, 700_u32)), 1 => Just((3000, 1))],
    ) {
        let prompt = words.iter().map(|at| CONCEPTS[*at].words[0]).collect::<Vec<_>>().join(" ");
        rendered(&prompt, Size::new(width, height));
    }
}
