//! Meanings of vocabulary words: materials, places, light, moods, colours.

use crate::generate::linear_rgb::{Rgb, mix, saturated, scaled};
use crate::generate::scene::{AirEffect, Gobo, Hour, Place};
use crate::generate::surface::{Finish, Material};

#[derive(Debug)]
pub(in crate::generate) struct Concept {
    /// Synonyms, words or phrases; the first is the concept's name.
    pub(in crate::generate) words: &'static [&'static str],
    pub(in crate::generate) meaning: Meaning,
}

/// Contribution of a concept to a scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::generate) enum Meaning {
    /// Material of the ground or the wall; `true`: of the wall unless the prompt specifies otherwise.
    Material(Material, bool),
    /// The surface that a material is for, as in "marble floor".
    Slot(Slot),
    Place(Place),
    /// A sky with this cloud cover, 0 to 1.
    Sky(f32),
    Hour(Hour),
    Light(LightStyle),
    LightFrom(LightDirection),
    Color(u32),
    Tone(Tone),
    Finish(Finish),
    Mood(Mood),
    Air(AirEffect),
    Prop(PropKind),
    Shadow(ShadowStyle),
    /// Background blur, 0 (everything sharp) to 1 (shallow depth of field).
    Focus(f32),
    Sweep,
    Gradient,
    Vignette,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::generate) enum Slot {
    Ground,
    /// A table top; wood by default.
    Table,
    Wall,
    /// The background: a wall, or paper of a colour.
    Backdrop,
}

/// Object under the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::generate) enum PropKind {
    Podium,
    Shelf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::generate) enum LightStyle {
    Soft,
    Hard,
    Spot,
    Neon,
    Back,
    Sun,
    Candle,
    Flash,
    HighKey,
    LowKey,
    Through(Gobo),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::generate) enum LightDirection {
    Left,
    Right,
    Above,
    Behind,
    Front,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::generate) enum Tone {
    Dark,
    Light,
    Pastel,
    Vivid,
    Muted,
}

/// A mood: shifts paper, light, air and grading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::generate) enum Mood {
    Warm,
    Cool,
    Moody,
    Airy,
    Luxury,
    Minimal,
    Rustic,
    Romantic,
    Dramatic,
    Cozy,
    Vintage,
    Futuristic,
    Festive,
    Calm,
    Dreamy,
    Industrial,
    Tropical,
    Nordic,
    Monochrome,
    Spring,
    Summer,
    Winter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::generate) enum ShadowStyle {
    Visible,
    Long,
    Hard,
    Soft,
}

impl Tone {
    /// `color` with this adjective, as in "dark green".
    pub(in crate::generate) fn applied_to(self, color: Rgb) -> Rgb {
        match self {
            Self::Dark => scaled(color, 0.3),
            Self::Light => mix(color, [0.86; 3], 0.55),
            Self::Pastel => mix(saturated(color, 0.9), [0.88; 3], 0.62),
            Self::Vivid => saturated(color, 1.3).map(|value| value.min(1.0)),
            Self::Muted => scaled(saturated(color, 0.5), 0.92),
        }
    }
}
