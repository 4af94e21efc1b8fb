//! The parsed form of a prompt.

use crate::generate::linear_rgb::Rgb;
use crate::generate::scene::{AirEffect, Hour, Place};
use crate::generate::surface::{Finish, Material};
use crate::generate::vocabulary::{LightDirection, LightStyle, Mood, PropKind, ShadowStyle, Tone};

/// The contents of a prompt; unmentioned parts are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::generate) struct ParsedPrompt {
    pub(in crate::generate) ground: Option<NounPhrase>,
    pub(in crate::generate) wall: Option<NounPhrase>,
    /// Whether seamless paper is mentioned.
    pub(in crate::generate) sweep: bool,
    pub(in crate::generate) gradient: bool,
    pub(in crate::generate) place: Option<Place>,
    /// Cloud cover of the sky, if mentioned.
    pub(in crate::generate) sky: Option<f32>,
    pub(in crate::generate) hour: Option<Hour>,
    /// Colours of the place, or without a noun.
    pub(in crate::generate) colors: Vec<Rgb>,
    pub(in crate::generate) lights: Vec<LightStyle>,
    pub(in crate::generate) light_colors: Vec<Rgb>,
    pub(in crate::generate) light_from: Option<LightDirection>,
    pub(in crate::generate) tones: Vec<Tone>,
    pub(in crate::generate) finish: Option<Finish>,
    pub(in crate::generate) moods: Vec<Mood>,
    pub(in crate::generate) air: Vec<AirEffect>,
    pub(in crate::generate) prop: Option<(PropKind, NounPhrase)>,
    pub(in crate::generate) shadow: Option<ShadowStyle>,
    pub(in crate::generate) no_shadow: bool,
    pub(in crate::generate) no_ground: bool,
    pub(in crate::generate) focus: Option<f32>,
    pub(in crate::generate) vignette: Option<bool>,
    /// Recognized words and phrases, in the prompt's order.
    pub(in crate::generate) understood: Vec<String>,
}

/// A material with its adjectives, as in "dark green velvet".
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::generate) struct NounPhrase {
    pub(in crate::generate) material: Option<Material>,
    pub(in crate::generate) colors: Vec<Rgb>,
    pub(in crate::generate) tone: Option<Tone>,
    pub(in crate::generate) finish: Option<Finish>,
}

impl NounPhrase {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
