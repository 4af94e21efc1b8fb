//! Description of a scene, the renderer's input: background, ground, prop, lighting, air, depth of field and grading.

use super::linear_rgb::Rgb;
use super::surface::Surface;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scene {
    pub(super) seed: u32,
    pub(super) background: Background,
    pub(super) ground: Option<Surface>,
    /// Row of the far edge of the ground, as a share of the height from the top.
    pub(super) edge: f32,
    /// Row of the horizon, where infinite ground would end; above `edge`.
    pub(super) horizon: f32,
    pub(super) prop: Option<Prop>,
    pub(super) lighting: Lighting,
    /// Background blur: 0 (everything sharp) to 1 (shallow depth of field).
    pub(super) blur: f32,
    pub(super) air: Vec<AirEffect>,
    pub(super) grade: Grade,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Background {
    /// Seamless paper that curves into the floor.
    Sweep(Rgb),
    /// Colours that blend into each other, from the top.
    Gradient(Vec<Rgb>),
    Wall(Surface),
    View(View),
}

/// A distant view, out of focus.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub(super) place: Place,
    pub(super) hour: Hour,
    /// Colours named in the prompt, for lamps, flowers or walls.
    pub(super) colors: Vec<Rgb>,
    /// Cloud cover, 0 (blue sky) to 1 (overcast).
    pub(super) clouds: f32,
}

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

/// Time of day, which sets the colour and direction of daylight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Hour {
    Dawn,
    Day,
    Golden,
    Sunset,
    Dusk,
    Night,
}

/// An object that the subject stands on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Prop {
    /// A low cylinder.
    Podium(Surface),
    /// A board on the wall.
    Shelf(Surface),
}

/// Lighting of a scene: key light, ambient light and modifiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lighting {
    pub(super) key: Rgb,
    pub(super) ambient: Rgb,
    /// Position of the key light: -1 (left) to 1 (right).
    pub(super) side: f32,
    /// Elevation of the key light: 0 (at the horizon) to 1 (overhead).
    pub(super) height: f32,
    /// Whether the key light is behind the subject.
    pub(super) backlit: bool,
    /// Softness of shadows: 0 (hard) to 1 (soft).
    pub(super) softness: f32,
    /// Concentration of the key light: 0 (even) to 1 (a spot).
    pub(super) pool: f32,
    pub(super) gobo: Option<Gobo>,
    /// Coloured lights from the left and from the right.
    pub(super) neon: Option<[Rgb; 2]>,
    /// Darkness of cast shadows, 0..1.
    pub(super) shadow: f32,
}

/// A gobo: an object before the light that casts a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Gobo {
    Window,
    Blinds,
    Leaves,
    Ripples,
}

/// Haze or particles in the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum AirEffect {
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

/// Colour grading of the finished picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grade {
    /// Factor of the light; 1 is neutral.
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
