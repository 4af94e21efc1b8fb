//! Selects the background: a view, a wall, a gradient or seamless paper.

#![expect(clippy::wildcard_enum_match_arm, reason = "the vocabulary grows; what has no rule of its own gets the usual")]

use super::has_mood;
use super::surface::{neon_colors, surface};
use crate::generate::linear_rgb::{Rgb, luminance, mix, saturated, scaled, srgb};
use crate::generate::prompt::{NounPhrase, ParsedPrompt};
use crate::generate::scene::{AirEffect, Background, Hour, Place, View};
use crate::generate::surface::{Material, Species, Surface};
use crate::generate::vocabulary::{LightStyle, Mood, Tone};

/// Paper of the neutral studio.
const PAPER: u32 = 0xE6_E5_E2;

/// Paper colours by mood; of several moods the first in this list applies.
const MOOD_PAPERS: [(Mood, u32); 13] = [
    (Mood::Luxury, 0x2A_26_24),
    (Mood::Moody, 0x4A_4C_50),
    (Mood::Dramatic, 0x4A_4C_50),
    (Mood::Futuristic, 0x3A_42_5A),
    (Mood::Romantic, 0xF0_D4_D0),
    (Mood::Spring, 0xDD_EA_CB),
    (Mood::Summer, 0xF6_DD_A0),
    (Mood::Winter, 0xDC_E8_F2),
    (Mood::Calm, 0xD2_DB_D8),
    (Mood::Dreamy, 0xE2_D6_EE),
    (Mood::Festive, 0x7A_22_2C),
    (Mood::Minimal, 0xF2_F1_EE),
    (Mood::Vintage, 0xD8_C4_A0),
];

/// Colour of seamless paper: the first named colour, or the colour of mood and tone.
fn paper(parsed: &ParsedPrompt) -> Rgb {
    let own = MOOD_PAPERS.iter().find(|(mood, _)| has_mood(parsed, *mood)).map_or(PAPER, |(_, paper)| *paper);
    let mut color = parsed.colors.first().copied().unwrap_or(srgb(own));
    for tone in &parsed.tones {
        color = match tone {
            Tone::Dark => scaled(color, 0.16),
            Tone::Light | Tone::Pastel | Tone::Muted if parsed.colors.is_empty() => match tone {
                Tone::Pastel => srgb(0xF2_DC_E2),
                Tone::Muted => srgb(0xC4_BE_B2),
                Tone::Dark | Tone::Light | Tone::Vivid => srgb(0xF8_F8_F7),
            },
            Tone::Vivid if parsed.colors.is_empty() => srgb(0xF2_6A_3A),
            Tone::Light | Tone::Pastel | Tone::Muted | Tone::Vivid => tone.applied_to(color),
        };
    }
    color
}

/// The background that the prompt names or implies.
pub(super) fn background(parsed: &ParsedPrompt, seed: u32) -> Background {
    let night = matches!(parsed.hour, Some(Hour::Night | Hour::Dusk));
    let view = |place: Place, hour: Hour, clouds: f32| {
        Background::View(View { place, hour, colors: parsed.colors.clone(), clouds })
    };
    if let Some(place) = parsed.place {
        let own = match place {
            Place::Space => Hour::Night,
            Place::Forest | Place::Autumn if parsed.hour.is_none() => Hour::Golden,
            Place::City if parsed.hour.is_none() => Hour::Dusk,
            _ => Hour::Day,
        };
        // A strongly blurred city at night shows only its lights.
        let place = if place == Place::City && night && parsed.focus == Some(1.0) { Place::Bokeh } else { place };
        return view(place, parsed.hour.unwrap_or(own), parsed.sky.unwrap_or(0.4));
    }
    if parsed.wall.is_none()
        && (parsed.sky.is_some() || parsed.hour.is_some_and(|hour| hour != Hour::Day))
        && !parsed.sweep
        && !parsed.gradient
    {
        let clouds = parsed.sky.unwrap_or(0.45);
        return view(Place::Sky, parsed.hour.unwrap_or(Hour::Day), clouds);
    }
    if parsed.gradient {
        let mut colors = parsed.colors.clone();
        if let [one] = colors[..] {
            colors = vec![mix(one, [0.95; 3], 0.35), scaled(one, 0.55)];
        }
        if colors.is_empty() {
            colors = [0xF6_C9_D6, 0xC9_B4_F0, 0xA8_C8_F4].map(srgb).to_vec();
        }
        return Background::Gradient(colors);
    }
    if let Some(noun) = &parsed.wall {
        let mut wall = surface(noun, Material::Plain, seed ^ 0x3A11);
        // "a wall, blue": a colour not assigned elsewhere.
        wall.color = wall.color.or(parsed.colors.first().copied());
        wall.finish = wall.finish.or(parsed.finish);
        return Background::Wall(wall);
    }
    if parsed.lights.contains(&LightStyle::Neon) && parsed.ground.is_none() && !parsed.sweep {
        return Background::View(View {
            place: Place::Neon,
            hour: Hour::Night,
            colors: neon_colors(parsed),
            clouds: 0.0,
        });
    }
    if parsed.air.contains(&AirEffect::Snowfall) && parsed.ground.is_none() && parsed.colors.is_empty() {
        return view(Place::Snowfield, Hour::Day, 0.8);
    }
    if parsed.sweep {
        return Background::Sweep(paper(parsed));
    }
    let wall_of = |material, color| Background::Wall(Surface { color, ..Surface::new(material, seed ^ 0x3A11) });
    for mood in &parsed.moods {
        match mood {
            Mood::Rustic => return wall_of(Material::Wood(Species::Barn), None),
            Mood::Industrial => return wall_of(Material::Concrete, Some(srgb(0x80_80_80))),
            Mood::Nordic => return wall_of(Material::Plaster, Some(srgb(0xEE_EC_E8))),
            Mood::Cozy => return view(Place::LivingRoom, Hour::Golden, 0.3),
            Mood::Tropical => return view(Place::Jungle, Hour::Day, 0.2),
            Mood::Festive => return Background::Sweep(paper(parsed)),
            Mood::Warm
            | Mood::Cool
            | Mood::Moody
            | Mood::Airy
            | Mood::Luxury
            | Mood::Minimal
            | Mood::Romantic
            | Mood::Dramatic
            | Mood::Vintage
            | Mood::Futuristic
            | Mood::Calm
            | Mood::Dreamy
            | Mood::Monochrome
            | Mood::Spring
            | Mood::Summer
            | Mood::Winter => {}
        }
    }
    // A ground alone: a plain wall of a matching colour, far behind it.
    match &parsed.ground {
        Some(noun) => match outdoors(noun.material) {
            Some(place) if parsed.colors.is_empty() => view(place, Hour::Day, 0.4),
            _ if parsed.colors.is_empty() && matches!(noun.material, Some(Material::Velvet | Material::Silk)) => {
                let drape = surface(noun, Material::Curtain, seed ^ 0x3A11);
                let own = if noun.material == Some(Material::Velvet) { 0x5A_1F_2E } else { 0xE4_D3_C0 };
                Background::Wall(Surface {
                    material: Material::Curtain,
                    color: Some(drape.color.unwrap_or_else(|| srgb(own))),
                    ..drape
                })
            }
            _ if noun.material.is_none() && parsed.colors.is_empty() && noun.colors.is_empty() => {
                Background::Sweep(paper(parsed))
            }
            _ => {
                let own = matching_wall(noun);
                let color = if parsed.colors.is_empty() && parsed.tones.is_empty() && parsed.moods.is_empty() {
                    own
                } else {
                    paper(parsed)
                };
                Background::Wall(Surface { color: Some(color), ..Surface::new(Material::Plaster, seed ^ 0x3A11) })
            }
        },
        None => Background::Sweep(paper(parsed)),
    }
}

/// The place whose ground has this material.
pub(super) fn outdoors(material: Option<Material>) -> Option<Place> {
    match material? {
        Material::Sand => Some(Place::Beach),
        Material::Snow | Material::Ice => Some(Place::Snowfield),
        Material::Grass => Some(Place::Meadow),
        Material::Moss | Material::Soil => Some(Place::Forest),
        Material::Leaves => Some(Place::Autumn),
        Material::Water => Some(Place::Sea),
        Material::Asphalt | Material::Cobbles => Some(Place::Street),
        Material::Pebbles => Some(Place::Lake),
        _ => None,
    }
}

/// Wall colour that matches a ground: warm greys behind wood, darker behind dark materials.
fn matching_wall(noun: &NounPhrase) -> Rgb {
    let dark = noun.tone == Some(Tone::Dark) || noun.colors.first().is_some_and(|color| luminance(*color) < 0.08);
    let own = match noun.material {
        Some(Material::Wood(Species::Walnut | Species::Ebony | Species::Mahogany)) => srgb(0xA9_A0_94),
        Some(Material::Wood(_) | Material::Rattan | Material::Cork | Material::Kraft | Material::Burlap) => {
            srgb(0xCF_C8_BC)
        }
        Some(Material::Velvet | Material::Leather | Material::Denim) => srgb(0x8A_84_80),
        Some(Material::Slate | Material::Steel | Material::Granite | Material::Asphalt) => srgb(0x9A_9E_A2),
        _ => srgb(0xDA_D8_D4),
    };
    let own = if dark { scaled(own, 0.22) } else { own };
    match noun.colors.first() {
        Some(color) if !dark && luminance(*color) < 0.5 => mix(own, saturated(*color, 0.5), 0.22),
        _ => own,
    }
}
