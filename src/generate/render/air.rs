//! Atmosphere in front of the scene: fog, smoke, rain and dust per pixel; snow, confetti and other particles as sprites.

use super::illumination::{pick_color, scatter_random};
use super::span::{RgbSpan, SPAN, TexCoords, per_pixel};
use super::sprite::{Sprite, SpriteShape};
use crate::generate::falloff::{exp_falloff, smoothstep};
use crate::generate::linear_rgb::{Rgb, mix, srgb};
use crate::generate::scene::{AirEffect, Scene};

/// Composites fog, smoke, rain and dust over a span; `at` in (u, v).
pub(super) fn haze(scene: &Scene, at: &TexCoords, light: &mut RgbSpan) {
    for effect in &scene.air {
        match effect {
            AirEffect::Fog => {
                let drift = at.fbm([0.9, 2.2], scene.seed ^ 0xF06, 4, 0.5);
                let pale = mix([0.72, 0.75, 0.78], scene.lighting.key, 0.3).map(|value| value.min(0.85));
                light.mix_color(pale, |i| {
                    let low = exp_falloff(((at.y[i] - scene.edge) * 3.2).powi(2));
                    (0.28 + 0.5 * low + 0.22 * drift[i]).clamp(0.0, 0.92)
                });
            }
            AirEffect::Smoke => {
                let drift = at.swirled([1.2; 2], [scene.seed ^ 0x51, scene.seed ^ 0x52], 4, 0.5, 0.42);
                let body = drift.fbm([1.3, 1.1], scene.seed ^ 0x53, 5, 0.5);
                let pale = mix([0.6; 3], scene.lighting.key, 0.4).map(|value| value.min(0.8));
                light.mix_color(pale, |i| 0.62 * smoothstep(0.0, 0.9, body[i] + 0.5 * (at.y[i] - 0.45)));
            }
            AirEffect::Rain => {
                let slant = TexCoords { x: per_pixel(|i| at.x[i] + 0.12 * at.y[i]), ..at.clone() };
                let near = slant.fbm([75.0, 3.2], scene.seed ^ 0x71, 1, 0.5);
                let far = slant.fbm([160.0, 7.0], scene.seed ^ 0x72, 1, 0.5);
                light.add([0.55, 0.6, 0.66], |i| {
                    0.42 * smoothstep(0.42, 0.9, near[i]) + 0.26 * smoothstep(0.42, 0.9, far[i])
                });
            }
            AirEffect::Dust => {
                // Dust shows in shafts of light from the side of the key light.
                let side = if scene.lighting.side > 0.0 { 1.0 } else { -1.0 };
                let shafts = TexCoords {
                    x: per_pixel(|i| at.x[i] * side - 0.7 * at.y[i]),
                    y: [0.3 * at.y[0]; SPAN],
                    footprint: at.footprint,
                };
                let shaft = shafts.fbm([2.6, 0.5], scene.seed ^ 0xD57, 3, 0.5);
                light.add([1.0, 0.9, 0.72], |i| 0.13 * smoothstep(-0.2, 0.7, shaft[i]) * exp_falloff(0.8 * at.y[i]));
            }
            AirEffect::Snowfall
            | AirEffect::Confetti
            | AirEffect::Petals
            | AirEffect::Bubbles
            | AirEffect::Sparkle
            | AirEffect::Fairylights
            | AirEffect::Balloons => {}
        }
    }
}

pub(super) fn sprites(scene: &Scene, aspect: f32) -> Vec<Sprite> {
    scene.air.iter().flat_map(|effect| particles(*effect, scene, aspect)).collect()
}

/// Distribution of an effect's particles.
struct ParticleSpec {
    /// Particles per picture height of width.
    density: f32,
    /// Smallest and largest half width.
    sizes: [f32; 2],
    /// Height to width of the flattest particle.
    squash: f32,
    share: f32,
    soft: f32,
    shape: SpriteShape,
}

fn particles(effect: AirEffect, scene: &Scene, aspect: f32) -> Vec<Sprite> {
    use SpriteShape::{Bokeh, Ring, Round, Square};
    let party = || [0xE8_4A_5F, 0xF7_C5_46, 0x3F_B6_C9, 0x8A_5C_C8, 0x5F_B8_6A, 0xF7_8C_B2].map(srgb).to_vec();
    let of = |density, sizes, squash, share, soft, shape, colors: Vec<Rgb>| {
        (ParticleSpec { density, sizes, squash, share, soft, shape }, colors)
    };
    let (spec, colors) = match effect {
        AirEffect::Snowfall => of(120.0, [0.0018, 0.014], 0.9, 0.85, 0.7, Round, vec![[0.92, 0.95, 1.0]]),
        AirEffect::Confetti => of(70.0, [0.008, 0.034], 0.35, 0.95, 0.12, Square, party()),
        AirEffect::Petals => {
            of(34.0, [0.009, 0.022], 0.5, 0.9, 0.4, Round, [0xF6_B8_C8, 0xFB_DA_E2, 0xEE_96_AE].map(srgb).to_vec())
        }
        AirEffect::Bubbles => of(26.0, [0.012, 0.06], 1.0, 0.5, 0.06, Ring, vec![[0.85, 0.95, 1.0], [1.0, 0.85, 0.95]]),
        AirEffect::Sparkle => {
            of(150.0, [0.002, 0.013], 1.0, 0.7, 0.4, Bokeh, [0xFF_E2_A6, 0xFF_C8_6A, 0xFF_F4_DC].map(srgb).to_vec())
        }
        AirEffect::Dust => of(120.0, [0.0012, 0.009], 1.0, 0.4, 0.8, Bokeh, vec![[1.0, 0.92, 0.78]]),
        AirEffect::Fairylights => {
            of(42.0, [0.014, 0.045], 1.0, 0.6, 0.12, Bokeh, [0xFF_CE_7E, 0xFF_B4_5C, 0xFF_E6_B8].map(srgb).to_vec())
        }
        AirEffect::Balloons => of(7.0, [0.055, 0.085], 0.84, 0.96, 0.1, Round, party()),
        AirEffect::Fog | AirEffect::Smoke | AirEffect::Rain => return Vec::new(),
    };
    let seed = scene.seed.wrapping_add(effect as u32 * 7919);
    let count = ((spec.density * aspect).ceil() as usize).clamp(1, 400);
    let balloon = effect == AirEffect::Balloons;
    let lights = effect == AirEffect::Fairylights;
    // Lowest v.
    let bottom = if balloon {
        0.5
    } else if lights {
        scene.edge
    } else {
        1.0
    };
    let mut sprites = Vec::new();
    for index in 0..count {
        let number = |which: u32| scatter_random(index, which, seed);
        let depth = number(0).powi(if balloon { 1 } else { 3 });
        let size = spec.sizes[0] + (spec.sizes[1] - spec.sizes[0]) * depth;
        let squash = spec.squash + (1.0 - spec.squash) * number(1);
        let turns = if balloon { 0.25 } else { number(2) };
        let at = [(number(3) - 0.5) * (aspect + 0.1), bottom * (number(4) * 1.1 - 0.05)];
        let color = pick_color(&colors, number(5));
        let sprite = Sprite {
            at,
            half_size: [size, size * squash],
            rotation: [super::span::sin_turns(turns), super::span::sin_turns(turns + 0.25)],
            color,
            // Particles near the lens are large and faint.
            share: spec.share * (1.0 - 0.45 * depth),
            soft: (spec.soft * size).max(0.0008),
            shape: spec.shape,
            behind_ground: lights,
        };
        sprites.push(sprite);
        if balloon {
            let highlight = [at[0] - 0.28 * size, at[1] - 0.36 * size];
            let light = Sprite {
                at: highlight,
                half_size: [0.5 * size; 2],
                color: [0.55; 3],
                share: 0.7,
                shape: SpriteShape::Glow,
                ..sprite
            };
            sprites.push(light);
        }
    }
    sprites
}
