//! From what a prompt says to a scene: deciding what it leaves open.

#![expect(clippy::wildcard_enum_match_arm, reason = "the vocabulary grows; what has no rule of its own gets the usual")]

use super::palette::{Rgb, as_tint, luminance, mix, product, saturated, scaled, srgb};
use super::prompt::{Noun, Reading, recolored};
use super::render::{PODIUM_TOP, SHELF_BACK};
use super::scene::{Behind, Gobo, Grade, Hour, Lamp, Place, Prop, Scene, View, Weather};
use super::surface::{Finish, Material, Species, Surface};
use super::vocabulary::{Lighting, Mood, Shade, Side, Stand, Tone};
use crate::compose::{Grounding, Light};

/// The neutral studio's paper.
const PAPER: u32 = 0xE6_E5_E2;

/// The paper of a mood; of several moods the first here has it.
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

/// The scene for `reading`, all its choices drawn from `seed`.
pub(super) fn scene(reading: &Reading, seed: u32) -> Scene {
    let behind = behind(reading, seed);
    let ground = ground(reading, &behind, seed);
    let (edge, vanish) = horizon(&behind, ground.as_ref());
    let prop = reading.prop.as_ref().map(|(stand, noun)| {
        let surface = prop_surface(noun, &behind, seed ^ 0x0B0A);
        match stand {
            Stand::Podium => Prop::Podium(surface),
            Stand::Shelf => Prop::Shelf(surface),
        }
    });
    // A board hangs on a wall that goes on below it.
    let ground = if matches!(prop, Some(Prop::Shelf(_))) { None } else { ground };
    let blur = reading.focus.unwrap_or(match behind {
        Behind::View(_) => 0.6,
        Behind::Wall(_) => 0.3,
        Behind::Sweep(_) | Behind::Gradient(_) => 0.15,
    });
    let mut weather = reading.weather.clone();
    if reading.moods.contains(&Mood::Festive) && !weather.contains(&Weather::Confetti) {
        weather.push(Weather::Fairylights);
    }
    if reading.moods.contains(&Mood::Winter) && !weather.contains(&Weather::Snowfall) {
        weather.push(Weather::Snowfall);
    }
    if reading.moods.contains(&Mood::Romantic) && weather.is_empty() {
        weather.push(Weather::Petals);
    }
    if reading.moods.contains(&Mood::Dreamy) && weather.is_empty() {
        weather.push(Weather::Sparkle);
    }
    let lamp = lamp(reading, &behind);
    Scene { seed, behind, ground, edge, vanish, prop, lamp, blur, weather, grade: grade(reading) }
}

/// How a subject stands in `scene`.
pub(super) fn grounding(scene: &Scene) -> Grounding {
    let lamp = &scene.lamp;
    let light: Rgb = std::array::from_fn(|c| 0.8 * lamp.key[c] + lamp.ambient[c]);
    let light = match lamp.neon {
        Some([left, right]) => std::array::from_fn(|c| light[c] + 0.3 * (left[c] + right[c])),
        None => light,
    };
    let tint = mix([1.0; 3], as_tint(product(light, scene.grade.tint)), 0.85).map(|value| value.clamp(0.3, 2.5));
    let away: f32 = if lamp.behind { 1.0 } else { -0.55 };
    // A light from the left throws to the right; one from the front throws away from the viewer.
    let angle = away.atan2(-lamp.side).to_degrees().rem_euclid(360.0);
    let length = ((1.0 - lamp.height) * 0.95).clamp(0.05, 0.9)
        * (0.45 + 0.55 * lamp.side.abs().max(if lamp.behind { 0.8 } else { 0.0 }));
    let horizon = match (&scene.prop, &scene.ground, &scene.behind) {
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
            softness: lamp.softness,
            strength: lamp.shadow,
            tint,
        },
        horizon,
    }
}

fn surface(noun: &Noun, own: Material, seed: u32) -> Surface {
    let material = noun.material.unwrap_or(if noun.colors.is_empty() { own } else { Material::Plain });
    let tone = match noun.tone {
        Some(Tone::Dark) => -0.7,
        Some(Tone::Light) => 0.6,
        Some(Tone::Pastel | Tone::Vivid | Tone::Muted) | None => 0.0,
    };
    let mut color = noun.colors.first().copied();
    if let (Some(Tone::Pastel | Tone::Vivid | Tone::Muted), Some(given)) = (noun.tone, color) {
        color = noun.tone.map(|tone| recolored(given, tone));
    }
    Surface { material, color, tone, finish: noun.finish, seed }
}

fn has(reading: &Reading, mood: Mood) -> bool {
    reading.moods.contains(&mood)
}

/// Paper's colour: the first that was named, or what moods and tones say.
fn paper(reading: &Reading) -> Rgb {
    let own = MOOD_PAPERS.iter().find(|(mood, _)| has(reading, *mood)).map_or(PAPER, |(_, paper)| *paper);
    let mut color = reading.colors.first().copied().unwrap_or(srgb(own));
    for tone in &reading.tones {
        color = match tone {
            Tone::Dark => scaled(color, 0.16),
            Tone::Light | Tone::Pastel | Tone::Muted if reading.colors.is_empty() => match tone {
                Tone::Pastel => srgb(0xF2_DC_E2),
                Tone::Muted => srgb(0xC4_BE_B2),
                Tone::Dark | Tone::Light | Tone::Vivid => srgb(0xF8_F8_F7),
            },
            Tone::Vivid if reading.colors.is_empty() => srgb(0xF2_6A_3A),
            Tone::Light | Tone::Pastel | Tone::Muted | Tone::Vivid => recolored(color, *tone),
        };
    }
    color
}

fn behind(reading: &Reading, seed: u32) -> Behind {
    let night = matches!(reading.hour, Some(Hour::Night | Hour::Dusk));
    let view = |place: Place, hour: Hour, clouds: f32| {
        Behind::View(View { place, hour, colors: reading.colors.clone(), clouds })
    };
    if let Some(place) = reading.place {
        let own = match place {
            Place::Space => Hour::Night,
            Place::Forest | Place::Autumn if reading.hour.is_none() => Hour::Golden,
            Place::City if reading.hour.is_none() => Hour::Dusk,
            _ => Hour::Day,
        };
        // "city at night", seen from far enough: its lights.
        let place = if place == Place::City && night && reading.focus == Some(1.0) { Place::Bokeh } else { place };
        return view(place, reading.hour.unwrap_or(own), reading.sky.unwrap_or(0.4));
    }
    if reading.wall.is_none()
        && (reading.sky.is_some() || reading.hour.is_some_and(|hour| hour != Hour::Day))
        && !reading.sweep
        && !reading.gradient
    {
        let clouds = reading.sky.unwrap_or(0.45);
        return view(Place::Sky, reading.hour.unwrap_or(Hour::Day), clouds);
    }
    if reading.gradient {
        let mut colors = reading.colors.clone();
        if let [one] = colors[..] {
            colors = vec![mix(one, [0.95; 3], 0.35), scaled(one, 0.55)];
        }
        if colors.is_empty() {
            colors = [0xF6_C9_D6, 0xC9_B4_F0, 0xA8_C8_F4].map(srgb).to_vec();
        }
        return Behind::Gradient(colors);
    }
    if let Some(noun) = &reading.wall {
        let mut wall = surface(noun, Material::Plain, seed ^ 0x3A11);
        // "a wall, blue": a colour that no other thing took.
        wall.color = wall.color.or(reading.colors.first().copied());
        wall.finish = wall.finish.or(reading.finish);
        return Behind::Wall(wall);
    }
    if reading.lights.contains(&Lighting::Neon) && reading.ground.is_none() && !reading.sweep {
        return Behind::View(View { place: Place::Neon, hour: Hour::Night, colors: neon_colors(reading), clouds: 0.0 });
    }
    if reading.weather.contains(&Weather::Snowfall) && reading.ground.is_none() && reading.colors.is_empty() {
        return view(Place::Snowfield, Hour::Day, 0.8);
    }
    if reading.sweep {
        return Behind::Sweep(paper(reading));
    }
    let wall_of = |material, color| Behind::Wall(Surface { color, ..Surface::new(material, seed ^ 0x3A11) });
    for mood in &reading.moods {
        match mood {
            Mood::Rustic => return wall_of(Material::Wood(Species::Barn), None),
            Mood::Industrial => return wall_of(Material::Concrete, Some(srgb(0x80_80_80))),
            Mood::Nordic => return wall_of(Material::Plaster, Some(srgb(0xEE_EC_E8))),
            Mood::Cozy => return view(Place::LivingRoom, Hour::Golden, 0.3),
            Mood::Tropical => return view(Place::Jungle, Hour::Day, 0.2),
            Mood::Festive => return Behind::Sweep(paper(reading)),
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
    // A ground alone: a plain wall far behind it whose colour goes with it.
    match &reading.ground {
        Some(noun) => match outdoors(noun.material) {
            Some(place) if reading.colors.is_empty() => view(place, Hour::Day, 0.4),
            _ if reading.colors.is_empty() && matches!(noun.material, Some(Material::Velvet | Material::Silk)) => {
                let drape = surface(noun, Material::Curtain, seed ^ 0x3A11);
                let own = if noun.material == Some(Material::Velvet) { 0x5A_1F_2E } else { 0xE4_D3_C0 };
                Behind::Wall(Surface {
                    material: Material::Curtain,
                    color: Some(drape.color.unwrap_or_else(|| srgb(own))),
                    ..drape
                })
            }
            _ if noun.material.is_none() && reading.colors.is_empty() && noun.colors.is_empty() => {
                Behind::Sweep(paper(reading))
            }
            _ => {
                let own = companion(noun);
                let color = if reading.colors.is_empty() && reading.tones.is_empty() && reading.moods.is_empty() {
                    own
                } else {
                    paper(reading)
                };
                Behind::Wall(Surface { color: Some(color), ..Surface::new(Material::Plaster, seed ^ 0x3A11) })
            }
        },
        None => Behind::Sweep(paper(reading)),
    }
}

/// Where a ground is found outdoors.
fn outdoors(material: Option<Material>) -> Option<Place> {
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

/// A quiet wall for a ground: warm greys behind wood, darker ones behind dark things.
fn companion(noun: &Noun) -> Rgb {
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

fn ground(reading: &Reading, behind: &Behind, seed: u32) -> Option<Surface> {
    if reading.no_ground {
        return None;
    }
    let seed = seed ^ 0x6607;
    if let Some(noun) = &reading.ground {
        let mut ground = surface(noun, Material::Concrete, seed);
        if let (Behind::Sweep(color), None, None) = (behind, noun.material, ground.color) {
            ground = Surface::painted(*color, seed);
        }
        ground.finish = ground.finish.or(reading.finish);
        return Some(ground);
    }
    let of = |material| Some(Surface::new(material, seed));
    let mut own = match behind {
        Behind::Sweep(color) => Some(Surface::painted(*color, seed)),
        Behind::Gradient(colors) => {
            Some(Surface::painted(colors.last().map_or([0.7; 3], |color| mix(*color, [0.9; 3], 0.12)), seed))
        }
        Behind::Wall(wall) => match wall.material {
            Material::Brick | Material::Wood(_) | Material::Stripes | Material::Dots | Material::Chalkboard => {
                if wall.material == Material::Wood(Species::Barn) {
                    of(Material::Wood(Species::Barn))
                } else {
                    of(Material::Wood(Species::Oak))
                }
            }
            Material::Tiles | Material::SubwayTiles | Material::Mosaic => of(Material::Marble),
            Material::Concrete | Material::Rust | Material::Sandstone => of(Material::Concrete),
            Material::Curtain => of(Material::Wood(Species::Walnut)),
            Material::Plain | Material::Plaster if wall.color.is_some() => {
                Some(Surface { material: Material::Plain, ..*wall })
            }
            _ => Some(*wall),
        },
        Behind::View(view) => match view.place {
            Place::Sky | Place::Space | Place::Underwater | Place::Smoke => None,
            Place::Sea => of(Material::Water),
            Place::Beach | Place::Desert => of(Material::Sand),
            Place::Lake => of(Material::Pebbles),
            Place::Mountains | Place::Meadow | Place::Flowers | Place::Field | Place::Blossom => of(Material::Grass),
            Place::Snowfield => of(Material::Snow),
            Place::Forest | Place::Jungle => of(Material::Moss),
            Place::Autumn => of(Material::Leaves),
            Place::Street => of(Material::Cobbles),
            Place::City | Place::Loft => of(Material::Concrete),
            Place::Bokeh | Place::Neon | Place::Stage | Place::Fire => {
                let finish = if view.place == Place::Fire { None } else { Some(Finish::Glossy) };
                Some(Surface { finish, ..Surface::painted(srgb(0x1A_1B_20), seed) })
            }
            Place::Kitchen | Place::Bathroom => of(Material::Marble),
            Place::LivingRoom | Place::Bedroom | Place::Office | Place::Garden => of(Material::Wood(Species::Oak)),
            Place::Cafe | Place::Library => of(Material::Wood(Species::Walnut)),
            Place::Shop => Some(Surface { finish: Some(Finish::Glossy), ..Surface::painted(srgb(0xEE_EC_E8), seed) }),
            Place::Gym => Some(Surface::painted(srgb(0x3C_3E_40), seed)),
        },
    };
    if let Some(ground) = &mut own {
        ground.finish = ground.finish.or(reading.finish);
        if has(reading, Mood::Luxury) && reading.colors.is_empty() && matches!(behind, Behind::Sweep(_)) {
            *ground = Surface { color: Some(srgb(0x1C_1B_1C)), ..Surface::new(Material::Marble, seed) };
        }
        if has(reading, Mood::Nordic) {
            *ground = Surface::new(Material::Wood(Species::Birch), seed);
        }
    }
    own
}

/// Where the ground ends, and where it would without an end.
fn horizon(behind: &Behind, ground: Option<&Surface>) -> (f32, f32) {
    match behind {
        Behind::Sweep(_) | Behind::Gradient(_) => (0.64, 0.36),
        Behind::Wall(_) => (0.66, 0.32),
        Behind::View(view) => match view.place {
            Place::Sea => (0.56, 0.558),
            Place::Beach => (0.62, 0.5),
            Place::Lake => (0.66, 0.53),
            Place::Mountains
            | Place::Desert
            | Place::Snowfield
            | Place::Meadow
            | Place::Flowers
            | Place::Field
            | Place::Forest
            | Place::Jungle
            | Place::Autumn
            | Place::Blossom
            | Place::Street => {
                // A table out there ends before the ground does.
                let open = ground.is_some_and(|ground| outdoors(Some(ground.material)).is_some());
                if open { (0.6, 0.53) } else { (0.7, 0.38) }
            }
            Place::Sky | Place::Space | Place::Underwater | Place::Smoke => {
                if ground.is_some() {
                    (0.7, 0.4)
                } else {
                    (1.05, 0.92)
                }
            }
            Place::City
            | Place::Bokeh
            | Place::Neon
            | Place::Kitchen
            | Place::Bathroom
            | Place::LivingRoom
            | Place::Bedroom
            | Place::Office
            | Place::Cafe
            | Place::Library
            | Place::Shop
            | Place::Loft
            | Place::Gym
            | Place::Stage
            | Place::Garden
            | Place::Fire => (0.69, 0.36),
        },
    }
}

fn prop_surface(noun: &Noun, behind: &Behind, seed: u32) -> Surface {
    let own = match behind {
        Behind::Sweep(color) => mix(*color, [0.92; 3], 0.2),
        Behind::Gradient(colors) => mix(colors.first().copied().unwrap_or([0.8; 3]), [0.9; 3], 0.4),
        Behind::Wall(wall) => mix(wall.color.unwrap_or([0.75; 3]), [0.9; 3], 0.4),
        Behind::View(_) => srgb(0xE6_E2_DA),
    };
    if noun.material.is_none() && noun.colors.is_empty() {
        Surface::painted(own, seed)
    } else {
        surface(noun, Material::Plain, seed)
    }
}

/// Two colours of neon: those of the light, then those of the scene, then magenta and cyan.
fn neon_colors(reading: &Reading) -> Vec<Rgb> {
    let named: Vec<Rgb> = reading.light_colors.iter().chain(&reading.colors).copied().collect();
    match named[..] {
        [] => [0xFF_2E_9A, 0x22_C8_FF].map(srgb).to_vec(),
        [one] => vec![saturated(one, 1.3), mix(saturated(one, 1.3), srgb(0x4A_5A_FF), 0.5)],
        _ => named.into_iter().map(|color| saturated(color, 1.25)).collect(),
    }
}

fn lamp(reading: &Reading, behind: &Behind) -> Lamp {
    let mut lamp = Lamp {
        key: [0.74; 3],
        ambient: [0.3; 3],
        side: -0.35,
        height: 0.72,
        behind: false,
        softness: 0.6,
        pool: 0.5,
        gobo: None,
        neon: None,
        shadow: 0.56,
    };
    if let Behind::View(view) = behind {
        under_sky(&mut lamp, view);
    }
    if !matches!(behind, Behind::View(_)) && reading.hour == Some(Hour::Day) {
        (lamp.ambient, lamp.pool) = ([0.46, 0.5, 0.55], 0.3);
    }
    if let (false, Some(hour)) = (matches!(behind, Behind::View(_)), reading.hour) {
        lamp.key = product(lamp.key, hour_tint(hour));
    }
    for light in &reading.lights {
        match light {
            Lighting::Soft => {
                (lamp.softness, lamp.pool, lamp.shadow) = (0.95, lamp.pool * 0.5, lamp.shadow * 0.75);
                lamp.ambient = lamp.ambient.map(|value| value + 0.1);
            }
            Lighting::Hard => {
                (lamp.softness, lamp.shadow, lamp.height) = (0.08, 0.62, 0.55);
                (lamp.key, lamp.ambient) = (scaled(lamp.key, 1.16), scaled(lamp.ambient, 0.7));
                lamp.pool = 0.7;
            }
            Lighting::Spot => {
                (lamp.pool, lamp.height, lamp.softness, lamp.shadow) = (1.0, 0.92, 0.2, 0.6);
                (lamp.key, lamp.ambient) = (scaled(lamp.key, 1.25), scaled(lamp.ambient, 0.16));
            }
            Lighting::Neon => {
                let colors = neon_colors(reading);
                lamp.neon = Some([scaled(colors[0], 0.62), scaled(colors[1 % colors.len()], 0.62)]);
                (lamp.key, lamp.ambient, lamp.shadow) = (scaled(lamp.key, 0.16), scaled(lamp.ambient, 0.3), 0.4);
            }
            Lighting::Back => {
                (lamp.behind, lamp.height, lamp.shadow) = (true, 0.45, lamp.shadow.max(0.45));
                (lamp.key, lamp.ambient) = (scaled(lamp.key, 1.15), scaled(lamp.ambient, 0.75));
            }
            Lighting::Sun => {
                (lamp.softness, lamp.height, lamp.shadow) = (0.15, 0.5, 0.58);
                lamp.key = product(lamp.key, [1.3, 1.2, 1.02]);
                if !matches!(behind, Behind::View(_)) && lamp.gobo.is_none() {
                    lamp.pool = 0.68;
                }
            }
            Lighting::Candle => {
                (lamp.key, lamp.ambient) =
                    (product(lamp.key, [1.25, 0.78, 0.38]), product(lamp.ambient, [0.5, 0.34, 0.22]));
                (lamp.pool, lamp.height, lamp.softness) = (0.74, 0.3, 0.5);
            }
            Lighting::Flash => {
                (lamp.side, lamp.pool, lamp.softness, lamp.height) = (0.0, 0.74, 0.35, 0.6);
                lamp.key = scaled(lamp.key, 1.2);
            }
            Lighting::HighKey => {
                (lamp.key, lamp.ambient) = (scaled(lamp.key, 0.95), [0.72; 3]);
                (lamp.pool, lamp.shadow) = (0.2, lamp.shadow * 0.5);
            }
            Lighting::LowKey => {
                (lamp.key, lamp.ambient) = (scaled(lamp.key, 0.62), scaled(lamp.ambient, 0.22));
                (lamp.pool, lamp.shadow) = (0.74, 0.6);
            }
            Lighting::Through(gobo) => {
                lamp.gobo = Some(*gobo);
                lamp.key = match gobo {
                    Gobo::Window | Gobo::Blinds => product(lamp.key, [1.24, 1.12, 0.96]),
                    Gobo::Leaves => product(lamp.key, [1.22, 1.14, 1.0]),
                    Gobo::Ripples => product(lamp.key, [1.05, 1.15, 1.18]),
                };
                (lamp.pool, lamp.softness, lamp.height) = (0.35, lamp.softness.min(0.35), 0.5);
                (lamp.ambient, lamp.side) =
                    (product(lamp.ambient, [1.0, 1.04, 1.12]), if lamp.side == 0.0 { -0.6 } else { lamp.side * 1.8 });
            }
        }
    }
    if let (Some(color), None) = (reading.light_colors.first(), lamp.neon) {
        let tint = mix([1.0; 3], as_tint(*color), 0.8);
        (lamp.key, lamp.ambient) = (product(lamp.key, tint), product(lamp.ambient, mix([1.0; 3], tint, 0.4)));
    }
    if has(reading, Mood::Futuristic) && lamp.neon.is_none() {
        lamp.neon = Some([scaled(srgb(0x3A_6A_FF), 0.4), scaled(srgb(0x9A_4A_FF), 0.4)]);
    }
    if has(reading, Mood::Dramatic) || has(reading, Mood::Moody) || has(reading, Mood::Luxury) {
        (lamp.pool, lamp.ambient) = (lamp.pool.max(0.74), scaled(lamp.ambient, 0.5));
    }
    if has(reading, Mood::Airy) || has(reading, Mood::Minimal) || has(reading, Mood::Nordic) {
        (lamp.pool, lamp.softness) = (lamp.pool * 0.6, lamp.softness.max(0.8));
        lamp.ambient = lamp.ambient.map(|value| value + 0.14);
    }
    if has(reading, Mood::Tropical) && lamp.gobo.is_none() && !matches!(behind, Behind::View(_)) {
        lamp.gobo = Some(Gobo::Leaves);
    }
    match reading.from {
        Some(Side::Left) => lamp.side = -0.8,
        Some(Side::Right) => lamp.side = 0.8,
        Some(Side::Above) => (lamp.side, lamp.height) = (0.0, 0.95),
        Some(Side::Behind) => (lamp.behind, lamp.height, lamp.side) = (true, 0.45, 0.15),
        Some(Side::Front) => (lamp.behind, lamp.side, lamp.height, lamp.pool) = (false, 0.0, 0.6, lamp.pool * 0.7),
        None => {}
    }
    match reading.shade {
        Some(Shade::Long) => {
            (lamp.height, lamp.softness, lamp.shadow) = (0.16, lamp.softness.min(0.25), lamp.shadow.max(0.55))
        }
        Some(Shade::Hard) => (lamp.softness, lamp.shadow) = (0.06, lamp.shadow.max(0.65)),
        Some(Shade::Soft) => (lamp.softness, lamp.shadow) = (0.95, lamp.shadow.min(0.4)),
        Some(Shade::Visible) => lamp.shadow = lamp.shadow.max(0.55),
        None => {}
    }
    if reading.no_shadow {
        lamp.shadow = 0.0;
    }
    lamp
}

/// The colour of daylight at an hour.
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

/// Outdoors the sky lights everything; indoors the window or the lamps do.
fn under_sky(lamp: &mut Lamp, view: &View) {
    let tint = hour_tint(view.hour);
    let (height, softness, shadow, behind) = match view.hour {
        Hour::Day => (0.62, 0.3, 0.62, false),
        Hour::Dawn => (0.3, 0.6, 0.36, true),
        Hour::Golden => (0.22, 0.25, 0.58, true),
        Hour::Sunset => (0.14, 0.35, 0.55, true),
        Hour::Dusk | Hour::Night => (0.6, 0.9, 0.3, false),
    };
    let indoors = Lamp {
        key: product([0.7; 3], tint),
        ambient: product([0.32; 3], mix([1.0; 3], tint, 0.5)),
        side: 0.55,
        softness: 0.65,
        ..*lamp
    };
    *lamp = match view.place {
        Place::Kitchen
        | Place::Bathroom
        | Place::LivingRoom
        | Place::Bedroom
        | Place::Office
        | Place::Shop
        | Place::Loft
        | Place::Gym => indoors,
        Place::Cafe | Place::Library => Lamp { key: product([0.56; 3], [1.2, 0.95, 0.7]), ..indoors },
        Place::Bokeh => Lamp { key: [0.42, 0.36, 0.34], ambient: [0.14, 0.13, 0.16], height: 0.8, side: 0.1, ..*lamp },
        Place::Neon => {
            let [first, second] = [0, 1].map(|index| {
                let own = srgb([0xFF_2E_9A, 0x22_C8_FF][index]);
                view.colors.get(index % view.colors.len().max(1)).copied().unwrap_or(own)
            });
            Lamp {
                key: [0.1; 3],
                ambient: [0.1, 0.09, 0.13],
                neon: Some([scaled(first, 0.55), scaled(second, 0.55)]),
                side: 0.0,
                ..*lamp
            }
        }
        Place::Stage => {
            Lamp { key: [0.4, 0.4, 0.5], ambient: [0.08, 0.08, 0.12], behind: true, side: 0.1, height: 0.7, ..*lamp }
        }
        Place::Fire => {
            Lamp { key: [0.8, 0.42, 0.16], ambient: [0.1, 0.06, 0.04], behind: true, height: 0.4, side: 0.1, ..*lamp }
        }
        Place::Space | Place::Smoke => Lamp { key: [0.5; 3], ambient: [0.12, 0.12, 0.16], ..*lamp },
        Place::Underwater => {
            Lamp { key: [0.36, 0.7, 0.74], ambient: [0.1, 0.2, 0.26], gobo: Some(Gobo::Ripples), height: 0.9, ..*lamp }
        }
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
            Lamp {
                key: product([if cloudy { 0.4 } else { 0.66 }; 3], tint),
                ambient: product([0.36, 0.39, 0.44], mix([1.0; 3], tint, 0.75)),
                side: 0.5,
                height,
                behind,
                softness: if cloudy { 1.0 } else { softness },
                pool: 0.1,
                gobo,
                neon: None,
                shadow: if cloudy { 0.22 } else { shadow },
            }
        }
    };
}

fn grade(reading: &Reading) -> Grade {
    let mut grade = Grade { exposure: 1.0, contrast: 1.05, saturation: 1.03, tint: [1.0; 3], vignette: 0.2, fade: 0.0 };
    for mood in &reading.moods {
        match mood {
            Mood::Warm => grade.tint = product(grade.tint, [1.1, 1.0, 0.84]),
            Mood::Cozy => grade.tint = product(grade.tint, [1.07, 0.99, 0.86]),
            Mood::Cool | Mood::Winter => grade.tint = product(grade.tint, [0.88, 0.99, 1.13]),
            Mood::Moody => (grade.exposure, grade.contrast, grade.vignette) = (0.62, 1.14, 0.5),
            Mood::Airy => (grade.exposure, grade.contrast, grade.fade) = (1.16, 0.92, 0.3),
            Mood::Luxury => {
                (grade.contrast, grade.tint, grade.vignette) = (1.15, product(grade.tint, [1.05, 1.0, 0.9]), 0.35)
            }
            Mood::Minimal => (grade.exposure, grade.contrast, grade.vignette) = (1.06, 0.97, 0.06),
            Mood::Rustic => (grade.saturation, grade.tint) = (0.88, product(grade.tint, [1.05, 1.0, 0.92])),
            Mood::Romantic => (grade.fade, grade.tint) = (0.2, product(grade.tint, [1.05, 0.98, 1.0])),
            Mood::Dramatic => (grade.exposure, grade.contrast, grade.vignette) = (0.85, 1.3, 0.55),
            Mood::Vintage => {
                (grade.saturation, grade.fade, grade.tint) = (0.7, 0.6, product(grade.tint, [1.08, 1.0, 0.84]))
            }
            Mood::Futuristic => (grade.tint, grade.contrast) = (product(grade.tint, [0.92, 0.98, 1.12]), 1.1),
            Mood::Festive => grade.saturation = 1.15,
            Mood::Calm => (grade.contrast, grade.saturation) = (0.92, 0.85),
            Mood::Dreamy => (grade.fade, grade.contrast) = (0.45, 0.9),
            Mood::Industrial => (grade.saturation, grade.contrast) = (0.72, 1.12),
            Mood::Tropical | Mood::Summer => (grade.saturation, grade.exposure) = (1.18, 1.06),
            Mood::Nordic => (grade.saturation, grade.exposure) = (0.82, 1.08),
            Mood::Monochrome => grade.saturation = 0.0,
            Mood::Spring => (grade.saturation, grade.exposure) = (1.08, 1.06),
        }
    }
    for tone in &reading.tones {
        match tone {
            Tone::Dark => (grade.exposure, grade.vignette) = (grade.exposure * 0.75, 0.4),
            Tone::Light => grade.exposure *= 1.12,
            Tone::Pastel => (grade.saturation, grade.fade) = (grade.saturation * 0.85, 0.3),
            Tone::Vivid => grade.saturation *= 1.3,
            Tone::Muted => grade.saturation *= 0.65,
        }
    }
    match reading.vignette {
        Some(true) => grade.vignette = 0.65,
        Some(false) => grade.vignette = 0.0,
        None => {}
    }
    grade
}
