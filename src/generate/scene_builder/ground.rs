//! Selects the ground and its extent.

#![expect(clippy::wildcard_enum_match_arm, reason = "the vocabulary grows; what has no rule of its own gets the usual")]

use super::background::outdoors;
use super::has_mood;
use super::surface::surface;
use crate::generate::linear_rgb::{mix, srgb};
use crate::generate::prompt::ParsedPrompt;
use crate::generate::scene::{Background, Place};
use crate::generate::surface::{Finish, Material, Species, Surface};
use crate::generate::vocabulary::Mood;

/// The ground named by the prompt, or the background's usual ground.
pub(super) fn ground(parsed: &ParsedPrompt, background: &Background, seed: u32) -> Option<Surface> {
    if parsed.no_ground {
        return None;
    }
    let seed = seed ^ 0x6607;
    if let Some(noun) = &parsed.ground {
        let mut ground = surface(noun, Material::Concrete, seed);
        if let (Background::Sweep(color), None, None) = (background, noun.material, ground.color) {
            ground = Surface::painted(*color, seed);
        }
        ground.finish = ground.finish.or(parsed.finish);
        return Some(ground);
    }
    let of = |material| Some(Surface::new(material, seed));
    let mut own = match background {
        Background::Sweep(color) => Some(Surface::painted(*color, seed)),
        Background::Gradient(colors) => {
            Some(Surface::painted(colors.last().map_or([0.7; 3], |color| mix(*color, [0.9; 3], 0.12)), seed))
        }
        Background::Wall(wall) => match wall.material {
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
        Background::View(view) => match view.place {
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
        ground.finish = ground.finish.or(parsed.finish);
        if has_mood(parsed, Mood::Luxury) && parsed.colors.is_empty() && matches!(background, Background::Sweep(_)) {
            *ground = Surface { color: Some(srgb(0x1C_1B_1C)), ..Surface::new(Material::Marble, seed) };
        }
        if has_mood(parsed, Mood::Nordic) {
            *ground = Surface::new(Material::Wood(Species::Birch), seed);
        }
    }
    own
}

/// Rows of the far edge of the ground and of the horizon.
pub(super) fn ground_extent(background: &Background, ground: Option<&Surface>) -> (f32, f32) {
    match background {
        Background::Sweep(_) | Background::Gradient(_) => (0.64, 0.36),
        Background::Wall(_) => (0.66, 0.32),
        Background::View(view) => match view.place {
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
                // A table outdoors ends before the open ground.
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
