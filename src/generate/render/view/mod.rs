//! Places behind the ground, out of focus.

mod city;
mod fluid;
mod green;
mod room;
mod sky;

use super::light::strewn;
use super::plate::Plate;
use super::sprite::{Form, Sprite};
use crate::generate::palette::{Rgb, srgb};
use crate::generate::scene::{Hour, Place, View};

/// What a painter is told.
pub(super) struct Canvas<'a> {
    pub(super) view: &'a View,
    pub(super) aspect: f32,
    /// Where the ground begins.
    pub(super) edge: f32,
    /// The horizon.
    pub(super) vanish: f32,
    pub(super) seed: u32,
    /// Where the sun or the main light is, -1 to 1.
    pub(super) side: f32,
    /// Standard deviation of the blur, in heights of the picture.
    pub(super) blur: f32,
}

impl Canvas<'_> {
    fn seed(&self, index: u32) -> u32 {
        self.seed.wrapping_add(index.wrapping_mul(0x85EB_CA6B))
    }

    /// 0..1: the `which`th number of the `index`th thing.
    fn number(&self, index: usize, which: u32) -> f32 {
        strewn(index, which, self.seed)
    }

    /// A place across the picture for the `index`th thing.
    fn across(&self, index: usize, which: u32) -> f32 {
        (self.number(index, which) - 0.5) * (self.aspect + 0.1)
    }

    /// As many as `each` a height of the picture, within reason.
    fn count(&self, each: f32) -> usize {
        ((each * self.aspect).ceil() as usize).clamp(1, 400)
    }

    /// The colours that were named, or else these.
    fn colors_or(&self, own: &[u32]) -> Vec<Rgb> {
        if self.view.colors.is_empty() {
            own.iter().map(|code| srgb(*code)).collect()
        } else {
            self.view.colors.clone()
        }
    }

    /// Whether lamps are lit.
    fn is_dark(&self) -> bool {
        matches!(self.view.hour, Hour::Dusk | Hour::Night)
    }
}

/// Lights out of focus: `each` a height of the picture, between `top` and `bottom`, with these colours and radii.
fn bokeh(
    canvas: &Canvas<'_>,
    each: f32,
    [top, bottom]: [f32; 2],
    [small, large]: [f32; 2],
    colors: &[Rgb],
    share: f32,
) -> Vec<Sprite> {
    (0..canvas.count(each))
        .map(|index| {
            let number = |which: u32| canvas.number(index, 60 + which);
            // Towards the middle of the band, and more small ones than large ones.
            let height = 0.5 * (number(0) + number(1));
            let radius = small + (large - small) * number(2).powi(2);
            let color = super::light::chosen(colors, number(3));
            Sprite {
                at: [canvas.across(index, 65), top + (bottom - top) * height],
                half: [radius; 2],
                turn: [0.0, 1.0],
                color,
                share: share * (0.25 + 0.75 * number(4)),
                soft: 0.1 * radius + 0.002,
                form: Form::Bokeh,
                behind: true,
            }
        })
        .collect()
}

/// A view, painted and blurred, and the lights in it that are drawn in full.
pub(super) fn paint(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let (mut plate, sprites) = match canvas.view.place {
        Place::Sky => sky::open(canvas),
        Place::Space => sky::space(canvas),
        Place::Sea | Place::Beach | Place::Lake => sky::sea(canvas),
        Place::Mountains => sky::mountains(canvas),
        Place::Desert | Place::Snowfield => sky::dunes(canvas),
        Place::Meadow | Place::Flowers | Place::Field => green::open(canvas),
        Place::Forest | Place::Jungle | Place::Autumn => green::forest(canvas),
        Place::Garden | Place::Blossom => green::garden(canvas),
        Place::City => city::skyline(canvas),
        Place::Street => city::street(canvas),
        Place::Bokeh => city::bokeh(canvas),
        Place::Neon => city::neon(canvas),
        Place::Stage => city::stage(canvas),
        Place::Kitchen => room::kitchen(canvas),
        Place::Bathroom => room::bathroom(canvas),
        Place::LivingRoom => room::living_room(canvas),
        Place::Bedroom => room::bedroom(canvas),
        Place::Office => room::office(canvas),
        Place::Cafe => room::cafe(canvas),
        Place::Library => room::library(canvas),
        Place::Shop => room::shop(canvas),
        Place::Loft => room::loft(canvas),
        Place::Gym => room::gym(canvas),
        Place::Underwater => fluid::underwater(canvas),
        Place::Smoke => fluid::smoke(canvas),
        Place::Fire => fluid::fire(canvas),
    };
    plate.blur(canvas.blur);
    (plate, sprites)
}
