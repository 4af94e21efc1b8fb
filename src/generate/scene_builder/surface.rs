//! Converts noun phrases of a prompt to surfaces (material, colour, tone) and neon colours.

use crate::generate::linear_rgb::{Rgb, mix, saturated, srgb};
use crate::generate::prompt::{NounPhrase, ParsedPrompt};
use crate::generate::scene::Background;
use crate::generate::surface::{Material, Surface};
use crate::generate::vocabulary::Tone;

/// The surface of a noun phrase; `own` is the material if neither material nor colour is named.
pub(super) fn surface(noun: &NounPhrase, own: Material, seed: u32) -> Surface {
    let material = noun.material.unwrap_or(if noun.colors.is_empty() { own } else { Material::Plain });
    let tone = match noun.tone {
        Some(Tone::Dark) => -0.7,
        Some(Tone::Light) => 0.6,
        Some(Tone::Pastel | Tone::Vivid | Tone::Muted) | None => 0.0,
    };
    let mut color = noun.colors.first().copied();
    if let (Some(Tone::Pastel | Tone::Vivid | Tone::Muted), Some(given)) = (noun.tone, color) {
        color = noun.tone.map(|tone| tone.applied_to(given));
    }
    Surface { material, color, tone, finish: noun.finish, seed }
}

/// The surface of a podium or shelf; by default painted to match the background.
pub(super) fn prop_surface(noun: &NounPhrase, background: &Background, seed: u32) -> Surface {
    let own = match background {
        Background::Sweep(color) => mix(*color, [0.92; 3], 0.2),
        Background::Gradient(colors) => mix(colors.first().copied().unwrap_or([0.8; 3]), [0.9; 3], 0.4),
        Background::Wall(wall) => mix(wall.color.unwrap_or([0.75; 3]), [0.9; 3], 0.4),
        Background::View(_) => srgb(0xE6_E2_DA),
    };
    if noun.material.is_none() && noun.colors.is_empty() {
        Surface::painted(own, seed)
    } else {
        surface(noun, Material::Plain, seed)
    }
}

/// Neon colours: of the light, else of the scene, else magenta and cyan.
pub(super) fn neon_colors(parsed: &ParsedPrompt) -> Vec<Rgb> {
    let named: Vec<Rgb> = parsed.light_colors.iter().chain(&parsed.colors).copied().collect();
    match named[..] {
        [] => [0xFF_2E_9A, 0x22_C8_FF].map(srgb).to_vec(),
        [one] => vec![saturated(one, 1.3), mix(saturated(one, 1.3), srgb(0x4A_5A_FF), 0.5)],
        _ => named.into_iter().map(|color| saturated(color, 1.25)).collect(),
    }
}
