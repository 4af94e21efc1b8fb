//! Selects the lighting: key and ambient light, direction, softness, gobos, neon.

use super::has_mood;
use super::surface::neon_colors;
use crate::generate::linear_rgb::{Rgb, as_tint, mix, product, scaled, srgb};
use crate::generate::prompt::ParsedPrompt;
use crate::generate::scene::{Background, Gobo, Hour, Lighting, Place, View};
use crate::generate::vocabulary::{LightDirection, LightStyle, Mood, ShadowStyle};

/// Lighting of a scene: the background's default, then light styles, moods, direction and shadows of the prompt.
pub(super) fn lighting(parsed: &ParsedPrompt, background: &Background) -> Lighting {
    let mut lighting = Lighting {
        key: [0.74; 3],
        ambient: [0.3; 3],
        side: -0.35,
        height: 0.72,
        backlit: false,
        softness: 0.6,
        pool: 0.5,
        gobo: None,
        neon: None,
        shadow: 0.56,
    };
    if let Background::View(view) = background {
        view_lighting(&mut lighting, view);
    }
    if !matches!(background, Background::View(_)) && parsed.hour == Some(Hour::Day) {
        (lighting.ambient, lighting.pool) = ([0.46, 0.5, 0.55], 0.3);
    }
    if let (false, Some(hour)) = (matches!(background, Background::View(_)), parsed.hour) {
        lighting.key = product(lighting.key, hour_tint(hour));
    }
    for light in &parsed.lights {
        match light {
            LightStyle::Soft => {
                (lighting.softness, lighting.pool, lighting.shadow) =
                    (0.95, lighting.pool * 0.5, lighting.shadow * 0.75);
                lighting.ambient = lighting.ambient.map(|value| value + 0.1);
            }
            LightStyle::Hard => {
                (lighting.softness, lighting.shadow, lighting.height) = (0.08, 0.62, 0.55);
                (lighting.key, lighting.ambient) = (scaled(lighting.key, 1.16), scaled(lighting.ambient, 0.7));
                lighting.pool = 0.7;
            }
            LightStyle::Spot => {
                (lighting.pool, lighting.height, lighting.softness, lighting.shadow) = (1.0, 0.92, 0.2, 0.6);
                (lighting.key, lighting.ambient) = (scaled(lighting.key, 1.25), scaled(lighting.ambient, 0.16));
            }
            LightStyle::Neon => {
                let colors = neon_colors(parsed);
                lighting.neon = Some([scaled(colors[0], 0.62), scaled(colors[1 % colors.len()], 0.62)]);
                (lighting.key, lighting.ambient, lighting.shadow) =
                    (scaled(lighting.key, 0.16), scaled(lighting.ambient, 0.3), 0.4);
            }
            LightStyle::Back => {
                (lighting.backlit, lighting.height, lighting.shadow) = (true, 0.45, lighting.shadow.max(0.45));
                (lighting.key, lighting.ambient) = (scaled(lighting.key, 1.15), scaled(lighting.ambient, 0.75));
            }
            LightStyle::Sun => {
                (lighting.softness, lighting.height, lighting.shadow) = (0.15, 0.5, 0.58);
                lighting.key = product(lighting.key, [1.3, 1.2, 1.02]);
                if !matches!(background, Background::View(_)) && lighting.gobo.is_none() {
                    lighting.pool = 0.68;
                }
            }
            LightStyle::Candle => {
                (lighting.key, lighting.ambient) =
                    (product(lighting.key, [1.25, 0.78, 0.38]), product(lighting.ambient, [0.5, 0.34, 0.22]));
                (lighting.pool, lighting.height, lighting.softness) = (0.74, 0.3, 0.5);
            }
            LightStyle::Flash => {
                (lighting.side, lighting.pool, lighting.softness, lighting.height) = (0.0, 0.74, 0.35, 0.6);
                lighting.key = scaled(lighting.key, 1.2);
            }
            LightStyle::HighKey => {
                (lighting.key, lighting.ambient) = (scaled(lighting.key, 0.95), [0.72; 3]);
                (lighting.pool, lighting.shadow) = (0.2, lighting.shadow * 0.5);
            }
            LightStyle::LowKey => {
                (lighting.key, lighting.ambient) = (scaled(lighting.key, 0.62), scaled(lighting.ambient, 0.22));
                (lighting.pool, lighting.shadow) = (0.74, 0.6);
            }
            LightStyle::Through(gobo) => {
                lighting.gobo = Some(*gobo);
                lighting.key = match gobo {
                    Gobo::Window | Gobo::Blinds => product(lighting.key, [1.24, 1.12, 0.96]),
                    Gobo::Leaves => product(lighting.key, [1.22, 1.14, 1.0]),
                    Gobo::Ripples => product(lighting.key, [1.05, 1.15, 1.18]),
                };
                (lighting.pool, lighting.softness, lighting.height) = (0.35, lighting.softness.min(0.35), 0.5);
                (lighting.ambient, lighting.side) = (
                    product(lighting.ambient, [1.0, 1.04, 1.12]),
                    if lighting.side == 0.0 { -0.6 } else { lighting.side * 1.8 },
                );
            }
        }
    }
    if let (Some(color), None) = (parsed.light_colors.first(), lighting.neon) {
        let tint = mix([1.0; 3], as_tint(*color), 0.8);
        (lighting.key, lighting.ambient) =
            (product(lighting.key, tint), product(lighting.ambient, mix([1.0; 3], tint, 0.4)));
    }
    if has_mood(parsed, Mood::Futuristic) && lighting.neon.is_none() {
        lighting.neon = Some([scaled(srgb(0x3A_6A_FF), 0.4), scaled(srgb(0x9A_4A_FF), 0.4)]);
    }
    if has_mood(parsed, Mood::Dramatic) || has_mood(parsed, Mood::Moody) || has_mood(parsed, Mood::Luxury) {
        (lighting.pool, lighting.ambient) = (lighting.pool.max(0.74), scaled(lighting.ambient, 0.5));
    }
    if has_mood(parsed, Mood::Airy) || has_mood(parsed, Mood::Minimal) || has_mood(parsed, Mood::Nordic) {
        (lighting.pool, lighting.softness) = (lighting.pool * 0.6, lighting.softness.max(0.8));
        lighting.ambient = lighting.ambient.map(|value| value + 0.14);
    }
    if has_mood(parsed, Mood::Tropical) && lighting.gobo.is_none() && !matches!(background, Background::View(_)) {
        lighting.gobo = Some(Gobo::Leaves);
    }
    match parsed.light_from {
        Some(LightDirection::Left) => lighting.side = -0.8,
        Some(LightDirection::Right) => lighting.side = 0.8,
        Some(LightDirection::Above) => (lighting.side, lighting.height) = (0.0, 0.95),
        Some(LightDirection::Behind) => (lighting.backlit, lighting.height, lighting.side) = (true, 0.45, 0.15),
        Some(LightDirection::Front) => {
            (lighting.backlit, lighting.side, lighting.height, lighting.pool) = (false, 0.0, 0.6, lighting.pool * 0.7)
        }
        None => {}
    }
    match parsed.shadow {
        Some(ShadowStyle::Long) => {
            (lighting.height, lighting.softness, lighting.shadow) =
                (0.16, lighting.softness.min(0.25), lighting.shadow.max(0.55))
        }
        Some(ShadowStyle::Hard) => (lighting.softness, lighting.shadow) = (0.06, lighting.shadow.max(0.65)),
        Some(ShadowStyle::Soft) => (lighting.softness, lighting.shadow) = (0.95, lighting.shadow.min(0.4)),
        Some(ShadowStyle::Visible) => lighting.shadow = lighting.shadow.max(0.55),
        None => {}
    }
    if parsed.no_shadow {
        lighting.shadow = 0.0;
    }
    lighting
}

fn hour_tint(hour: Hour) -> Rgb {
    match hour {
        Hour::Day => [1.0, 1.0, 1.0],
        Hour::Dawn => [1.08, 0.96, 0.92],
        Hour::Golden => [1.25, 0.98, 0.68],
        Hour::Sunset => [1.25, 0.76, 0.5],
        Hour::Dusk => [0.5, 0.58, 0.85],
        Hour::Night => [0.22, 0.28, 0.46],
    }
}

/// Default lighting of a view: sky light outdoors, window or lamps indoors.
fn view_lighting(lighting: &mut Lighting, view: &View) {
    let tint = hour_tint(view.hour);
    let (height, softness, shadow, backlit) = match view.hour {
        Hour::Day => (0.62, 0.3, 0.62, false),
        Hour::Dawn => (0.3, 0.6, 0.36, true),
        Hour::Golden => (0.22, 0.25, 0.58, true),
        Hour::Sunset => (0.14, 0.35, 0.55, true),
        Hour::Dusk | Hour::Night => (0.6, 0.9, 0.3, false),
    };
    let indoors = Lighting {
        key: product([0.7; 3], tint),
        ambient: product([0.32; 3], mix([1.0; 3], tint, 0.5)),
        side: 0.55,
        softness: 0.65,
        ..*lighting
    };
    *lighting = match view.place {
        Place::Kitchen
        | Place::Bathroom
        | Place::LivingRoom
        | Place::Bedroom
        | Place::Office
        | Place::Shop
        | Place::Loft
        | Place::Gym => indoors,
        Place::Cafe | Place::Library => Lighting { key: product([0.56; 3], [1.2, 0.95, 0.7]), ..indoors },
        Place::Bokeh => {
            Lighting { key: [0.42, 0.36, 0.34], ambient: [0.14, 0.13, 0.16], height: 0.8, side: 0.1, ..*lighting }
        }
        Place::Neon => {
            let [first, second] = [0, 1].map(|index| {
                let own = srgb([0xFF_2E_9A, 0x22_C8_FF][index]);
                view.colors.get(index % view.colors.len().max(1)).copied().unwrap_or(own)
            });
            Lighting {
                key: [0.1; 3],
                ambient: [0.1, 0.09, 0.13],
                neon: Some([scaled(first, 0.55), scaled(second, 0.55)]),
                side: 0.0,
                ..*lighting
            }
        }
        Place::Stage => Lighting {
            key: [0.4, 0.4, 0.5],
            ambient: [0.08, 0.08, 0.12],
            backlit: true,
            side: 0.1,
            height: 0.7,
            ..*lighting
        },
        Place::Fire => Lighting {
            key: [0.8, 0.42, 0.16],
            ambient: [0.1, 0.06, 0.04],
            backlit: true,
            height: 0.4,
            side: 0.1,
            ..*lighting
        },
        Place::Space | Place::Smoke => Lighting { key: [0.5; 3], ambient: [0.12, 0.12, 0.16], ..*lighting },
        Place::Underwater => Lighting {
            key: [0.36, 0.7, 0.74],
            ambient: [0.1, 0.2, 0.26],
            gobo: Some(Gobo::Ripples),
            height: 0.9,
            ..*lighting
        },
        Place::Sky
        | Place::Sea
        | Place::Beach
        | Place::Lake
        | Place::Mountains
        | Place::Desert
        | Place::Snowfield
        | Place::Meadow
        | Place::Flowers
        | Place::Field
        | Place::Forest
        | Place::Jungle
        | Place::Garden
        | Place::Autumn
        | Place::Blossom
        | Place::City
        | Place::Street => {
            let cloudy = view.clouds > 0.8;
            let woods = matches!(view.place, Place::Forest | Place::Jungle | Place::Autumn | Place::Garden);
            let gobo = (woods && !cloudy && matches!(view.hour, Hour::Day | Hour::Golden)).then_some(Gobo::Leaves);
            Lighting {
                key: product([if cloudy { 0.4 } else { 0.66 }; 3], tint),
                ambient: product([0.36, 0.39, 0.44], mix([1.0; 3], tint, 0.75)),
                side: 0.5,
                height,
                backlit,
                softness: if cloudy { 1.0 } else { softness },
                pool: 0.1,
                gobo,
                neon: None,
                shadow: if cloudy { 0.22 } else { shadow },
            }
        }
    };
}
