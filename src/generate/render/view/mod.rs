//! Paints the out-of-focus view behind the ground: dispatches each place to its painter, then blurs the plate.

mod city;
mod fluid;
mod interior;
mod sky;
mod vegetation;

use super::illumination::scatter_random;
use super::plate::Plate;
use super::sprite::{Sprite, SpriteShape};
use crate::generate::linear_rgb::{Rgb, srgb};
use crate::generate::scene::{Hour, Place, View};

/// Parameters of a view's painter.
pub(super) struct ViewContext<'a> {
    pub(super) view: &'a View,
    pub(super) aspect: f32,
    /// v of the ground's far edge.
    pub(super) edge: f32,
    /// v of the horizon.
    pub(super) horizon: f32,
    pub(super) seed: u32,
    /// Horizontal position of the sun or key light, -1 to 1.
    pub(super) side: f32,
    /// Standard deviation of the blur, in picture heights.
    pub(super) blur: f32,
}

impl ViewContext<'_> {
    fn seed(&self, index: u32) -> u32 {
        self.seed.wrapping_add(index.wrapping_mul(0x85EB_CA6B))
    }

    /// Random number 0..1 of element `index`, stream `which`.
    fn random(&self, index: usize, which: u32) -> f32 {
        scatter_random(index, which, self.seed)
    }

    /// Random u of element `index`.
    fn random_u(&self, index: usize, which: u32) -> f32 {
        (self.random(index, which) - 0.5) * (self.aspect + 0.1)
    }

    /// Number of elements at `density` per picture height of width, 1 to 400.
    fn count(&self, density: f32) -> usize {
        ((density * self.aspect).ceil() as usize).clamp(1, 400)
    }

    /// The colours of the prompt, or `default`.
    fn colors_or(&self, default: &[u32]) -> Vec<Rgb> {
        if self.view.colors.is_empty() {
            default.iter().map(|code| srgb(*code)).collect()
        } else {
            self.view.colors.clone()
        }
    }

    /// Whether lamps are lit.
    fn is_dark(&self) -> bool {
        matches!(self.view.hour, Hour::Dusk | Hour::Night)
    }
}

/// Bokeh discs: `density` per picture height of width, between `top` and `bottom`, with these colours and radii.
fn bokeh(
    context: &ViewContext<'_>,
    density: f32,
    [top, bottom]: [f32; 2],
    [small, large]: [f32; 2],
    colors: &[Rgb],
    share: f32,
) -> Vec<Sprite> {
    (0..context.count(density))
        .map(|index| {
            let number = |which: u32| context.random(index, 60 + which);
            // More discs near the middle of the band, and more small than large ones.
            let height = 0.5 * (number(0) + number(1));
            let radius = small + (large - small) * number(2).powi(2);
            let color = super::illumination::pick_color(colors, number(3));
            Sprite {
                at: [context.random_u(index, 65), top + (bottom - top) * height],
                half_size: [radius; 2],
                rotation: [0.0, 1.0],
                color,
                share: share * (0.25 + 0.75 * number(4)),
                soft: 0.1 * radius + 0.002,
                shape: SpriteShape::Bokeh,
                behind_ground: true,
            }
        })
        .collect()
}

/// The painted and blurred view, and its sprites, which are drawn at full resolution.
pub(super) fn paint(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let (mut plate, sprites) = match context.view.place {
        Place::Sky => sky::open(context),
        Place::Space => sky::space(context),
        Place::Sea | Place::Beach | Place::Lake => sky::sea(context),
        Place::Mountains => sky::mountains(context),
        Place::Desert | Place::Snowfield => sky::dunes(context),
        Place::Meadow | Place::Flowers | Place::Field => vegetation::open(context),
        Place::Forest | Place::Jungle | Place::Autumn => vegetation::forest(context),
        Place::Garden | Place::Blossom => vegetation::garden(context),
        Place::City => city::skyline(context),
        Place::Street => city::street(context),
        Place::Bokeh => city::bokeh(context),
        Place::Neon => city::neon(context),
        Place::Stage => city::stage(context),
        Place::Kitchen => interior::kitchen(context),
        Place::Bathroom => interior::bathroom(context),
        Place::LivingRoom => interior::living_room(context),
        Place::Bedroom => interior::bedroom(context),
        Place::Office => interior::office(context),
        Place::Cafe => interior::cafe(context),
        Place::Library => interior::library(context),
        Place::Shop => interior::shop(context),
        Place::Loft => interior::loft(context),
        Place::Gym => interior::gym(context),
        Place::Underwater => fluid::underwater(context),
        Place::Smoke => fluid::smoke(context),
        Place::Fire => fluid::fire(context),
    };
    plate.blur(context.blur);
    (plate, sprites)
}
