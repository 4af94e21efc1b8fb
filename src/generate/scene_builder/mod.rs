//! Builds a scene from a parsed prompt: explicit contents first, then defaults for the rest.

mod background;
mod grade;
mod ground;
mod light;
mod surface;

use super::linear_rgb::{Rgb, as_tint, mix, product};
use super::prompt::ParsedPrompt;
use super::render::{PODIUM_TOP, SHELF_BACK};
use super::scene::{AirEffect, Background, Prop, Scene};
use super::surface::Material;
use super::vocabulary::{Mood, PropKind};
use crate::compose::{Grounding, Light};
use background::background;
use grade::grade;
use ground::{ground, ground_extent};
use light::lighting;
use surface::prop_surface;

/// Builds the scene of a parsed prompt; `seed` determines random choices.
pub(super) fn scene(parsed: &ParsedPrompt, seed: u32) -> Scene {
    let background = background(parsed, seed);
    let ground = ground(parsed, &background, seed);
    let (edge, horizon) = ground_extent(&background, ground.as_ref());
    let prop = parsed.prop.as_ref().map(|(stand, noun)| {
        let surface = prop_surface(noun, &background, seed ^ 0x0B0A);
        match stand {
            PropKind::Podium => Prop::Podium(surface),
            PropKind::Shelf => Prop::Shelf(surface),
        }
    });
    // A shelf hangs on a wall that continues below it.
    let ground = if matches!(prop, Some(Prop::Shelf(_))) { None } else { ground };
    let blur = parsed.focus.unwrap_or(match background {
        Background::View(_) => 0.6,
        Background::Wall(_) => 0.3,
        Background::Sweep(_) | Background::Gradient(_) => 0.15,
    });
    let mut air = parsed.air.clone();
    if has_mood(parsed, Mood::Festive) && !air.contains(&AirEffect::Confetti) {
        air.push(AirEffect::Fairylights);
    }
    if has_mood(parsed, Mood::Winter) && !air.contains(&AirEffect::Snowfall) {
        air.push(AirEffect::Snowfall);
    }
    if has_mood(parsed, Mood::Romantic) && air.is_empty() {
        air.push(AirEffect::Petals);
    }
    if has_mood(parsed, Mood::Dreamy) && air.is_empty() {
        air.push(AirEffect::Sparkle);
    }
    let lighting = lighting(parsed, &background);
    Scene { seed, background, ground, edge, horizon, prop, lighting, blur, air, grade: grade(parsed) }
}

/// Shadow direction, light and ground contact for a subject placed in `scene`.
pub(super) fn grounding(scene: &Scene) -> Grounding {
    let lighting = &scene.lighting;
    let light: Rgb = std::array::from_fn(|c| 0.8 * lighting.key[c] + lighting.ambient[c]);
    let light = match lighting.neon {
        Some([left, right]) => std::array::from_fn(|c| light[c] + 0.3 * (left[c] + right[c])),
        None => light,
    };
    let tint = mix([1.0; 3], as_tint(product(light, scene.grade.tint)), 0.85).map(|value| value.clamp(0.3, 2.5));
    let away: f32 = if lighting.backlit { 1.0 } else { -0.55 };
    // A light from the left casts shadows to the right; a light from the front casts them away from the viewer.
    let angle = away.atan2(-lighting.side).to_degrees().rem_euclid(360.0);
    let length = ((1.0 - lighting.height) * 0.95).clamp(0.05, 0.9)
        * (0.45 + 0.55 * lighting.side.abs().max(if lighting.backlit { 0.8 } else { 0.0 }));
    let horizon = match (&scene.prop, &scene.ground, &scene.background) {
        (Some(Prop::Shelf(_)), _, _) => Some(SHELF_BACK),
        (Some(Prop::Podium(_)), _, _) => Some(PODIUM_TOP - 0.06),
        (None, None, _) => None,
        (None, Some(ground), _) if ground.material == Material::Water => None,
        (None, Some(_), _) => Some(scene.edge),
    };
    Grounding {
        light: Light {
            shadow_angle: angle,
            shadow_length: length,
            softness: lighting.softness,
            strength: lighting.shadow,
            tint,
        },
        horizon,
    }
}

fn has_mood(parsed: &ParsedPrompt, mood: Mood) -> bool {
    parsed.moods.contains(&mood)
}
