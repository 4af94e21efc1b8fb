//! A scene: all that the renderer draws, with every choice made.

use super::palette::Rgb;
use super::surface::Surface;

/// A backdrop, a ground before it, light on both.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scene {
    pub(super) seed: u32,
    pub(super) behind: Behind,
    pub(super) ground: Option<Surface>,
    /// Where the ground ends, as a share of the height from the top.
    pub(super) edge: f32,
    /// Where it would end if it went on for ever; above the edge.
    pub(super) vanish: f32,
    pub(super) prop: Option<Prop>,
    pub(super) lamp: Lamp,
    /// How shallow the depth of field is: 0 (all is sharp) to 1.
    pub(super) blur: f32,
    pub(super) weather: Vec<Weather>,
    pub(super) grade: Grade,
}

/// What is behind the ground.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Behind {
    /// Paper that bends smoothly into the floor.
    Sweep(Rgb),
    /// Colours that run into each other, from the top.
    Gradient(Vec<Rgb>),
    Wall(Surface),
    View(View),
}

/// A place, out of focus.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub(super) place: Place,
    pub(super) hour: Hour,
    /// Named with it: of its lamps, flowers, walls.
    pub(super) colors: Vec<Rgb>,
    /// 0 (blue sky) to 1 (overcast).
    pub(super) clouds: f32,
}

/// What can be seen behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Sky,
    Space,
    Sea,
    Beach,
    Lake,
    Mountains,
    Desert,
    Snowfield,
    Meadow,
    Flowers,
    Field,
    Forest,
    Jungle,
    Garden,
    Autumn,
    Blossom,
    City,
    Street,
    Bokeh,
    Neon,
    Kitchen,
    Bathroom,
    LivingRoom,
    Bedroom,
    Office,
    Cafe,
    Library,
    Shop,
    Loft,
    Gym,
    Stage,
    Underwater,
    Smoke,
    Fire,
}

/// The time of day, as far as light goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Hour {
    Dawn,
    Day,
    Golden,
    Sunset,
    Dusk,
    Night,
}

/// Something for the subject to stand on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Prop {
    /// A low cylinder.
    Podium(Surface),
    /// A board on the wall.
    Shelf(Surface),
}

/// The light of a scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lamp {
    /// The main light.
    pub(super) key: Rgb,
    /// What comes from everywhere.
    pub(super) ambient: Rgb,
    /// Where the main light is: -1 (left) to 1 (right).
    pub(super) side: f32,
    /// 0 (at the horizon) to 1 (overhead).
    pub(super) height: f32,
    /// Behind the subject.
    pub(super) behind: bool,
    /// 0 (hard) to 1 (soft).
    pub(super) softness: f32,
    /// How much it is gathered in a pool: 0 (even) to 1 (a spot).
    pub(super) pool: f32,
    pub(super) gobo: Option<Gobo>,
    /// Coloured lights from the left and from the right.
    pub(super) neon: Option<[Rgb; 2]>,
    /// Whether things cast shadows that can be seen, and how dark, 0..1.
    pub(super) shadow: f32,
}

/// What stands before the light.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Gobo {
    Window,
    Blinds,
    Leaves,
    Ripples,
}

/// What is in the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Weather {
    Snowfall,
    Rain,
    Fog,
    Smoke,
    Confetti,
    Petals,
    Bubbles,
    Sparkle,
    Dust,
    Fairylights,
    Balloons,
}

/// The last touch: what a photographer does to the finished picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grade {
    /// 1 leaves the light as it is.
    pub(super) exposure: f32,
    pub(super) contrast: f32,
    pub(super) saturation: f32,
    /// Factors for red, green and blue.
    pub(super) tint: Rgb,
    /// Darkening of the corners, 0..1.
    pub(super) vignette: f32,
    /// Lifted blacks, 0..1.
    pub(super) fade: f32,
}
