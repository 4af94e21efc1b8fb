//! Parser: assigns adjectives, materials and places to the ground, the wall and the view.

use super::parsed::{NounPhrase, ParsedPrompt};
use super::tokens::{Token, find_concept};
use crate::generate::linear_rgb::srgb;
use crate::generate::scene::Place;
use crate::generate::surface::{Material, Species};
use crate::generate::vocabulary::{CONCEPTS, Concept, Meaning, Slot};

/// The surface of the next noun, set by a preposition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Target {
    #[default]
    Anywhere,
    Ground,
    Background,
}

#[derive(Debug, Default)]
pub(super) struct Parser {
    parsed: ParsedPrompt,
    /// Adjectives and a material that may precede a noun.
    pending: NounPhrase,
    target: Target,
    negated: bool,
    /// Whether the last token was negated; "or" then continues the negation.
    was_negated: bool,
    /// Whether the last token was a negated material, whose noun may follow: "no wooden table".
    negated_material: bool,
}

impl Parser {
    /// The parsed prompt, after [`Token::Break`].
    pub(super) fn finish(mut self) -> ParsedPrompt {
        self.push(Token::Break, "");
        self.parsed
    }

    /// Adds a token with the words `text`.
    pub(super) fn push(&mut self, token: Token, text: &str) {
        let after_negated_material = std::mem::take(&mut self.negated_material);
        match token {
            Token::Known(entry) => self.concept(entry, text, after_negated_material),
            Token::On => self.set_target(Target::Ground),
            Token::Against => self.set_target(Target::Background),
            Token::In => self.flush(),
            Token::Not => {
                self.flush();
                self.negated = true;
            }
            Token::Or => self.negated |= self.was_negated,
            Token::And => {
                if self.pending.material.is_some() {
                    self.flush();
                }
            }
            Token::Break => {
                self.flush();
                (self.target, self.negated, self.was_negated) = (Target::Anywhere, false, false);
            }
            Token::Unknown => self.negated_by_suffix(text),
        }
    }

    fn set_target(&mut self, target: Target) {
        self.flush();
        (self.target, self.negated, self.was_negated) = (target, false, false);
    }

    /// Words such as "shadowless": the suffix negates a concept.
    fn negated_by_suffix(&mut self, text: &str) {
        let stem = text.strip_suffix("less").filter(|stem| !stem.is_empty());
        if let Some(entry) = stem.and_then(|stem| find_concept(&[stem.to_owned()])) {
            self.flush();
            self.exclude(entry, text);
        }
    }

    fn concept(&mut self, entry: &'static Concept, text: &str, after_negated_material: bool) {
        let is_material = matches!(entry.meaning, Meaning::Material(..));
        let is_noun = is_material || matches!(entry.meaning, Meaning::Slot(_) | Meaning::Prop(_));
        if after_negated_material && is_noun {
            // "no marble tile floor": the noun belongs to the negation. Only surfaces of the material are excluded: a
            // beach without a wooden floor keeps its sand.
            self.negated_material = is_material;
            return;
        }
        if self.negated {
            // Adjectives are dropped together with their noun.
            let is_adjective = matches!(entry.meaning, Meaning::Color(_) | Meaning::Tone(_) | Meaning::Finish(_));
            if !is_adjective {
                (self.negated, self.was_negated, self.negated_material) = (false, true, is_material);
                self.exclude(entry, &format!("no {text}"));
            }
            return;
        }
        self.was_negated = false;
        self.parsed.understood.push(text.to_owned());
        match entry.meaning {
            Meaning::Color(code) => {
                if self.pending.material.is_some() {
                    self.flush();
                }
                let color = self.pending.tone.take().map_or_else(|| srgb(code), |tone| tone.applied_to(srgb(code)));
                self.pending.colors.push(color);
            }
            Meaning::Tone(tone) => {
                if self.pending.material.is_some() {
                    self.flush();
                }
                self.pending.tone = Some(tone);
            }
            Meaning::Finish(finish) => self.pending.finish = Some(finish),
            Meaning::Material(material, _) => {
                // "marble oak": two materials; the earlier one is a separate noun.
                if self.pending.material.is_some() {
                    self.flush();
                }
                self.pending.material = Some(material);
            }
            Meaning::Slot(slot) => self.slot(slot),
            Meaning::Prop(stand) => {
                let noun = std::mem::take(&mut self.pending);
                self.parsed.prop = Some((stand, noun));
                self.target = Target::Anywhere;
            }
            Meaning::Place(place) => {
                self.assign_colors_to_place();
                // "meadow with wildflowers": a more specific place replaces the meadow.
                if self.parsed.place.is_none_or(|given| given == Place::Meadow) {
                    self.parsed.place = Some(place);
                }
            }
            Meaning::Sky(clouds) => {
                self.assign_colors_to_place();
                let sky = self.parsed.sky.get_or_insert(clouds);
                // In "cloudy sky" the adjective overrides the default of "sky".
                if (clouds - 0.35).abs() > 0.01 {
                    *sky = clouds;
                }
            }
            Meaning::Gradient => {
                self.assign_colors_to_place();
                self.parsed.gradient = true;
            }
            Meaning::Sweep => {
                self.assign_colors_to_place();
                self.parsed.sweep = true;
            }
            Meaning::Light(light) => {
                let colors = std::mem::take(&mut self.pending.colors);
                self.parsed.light_colors.extend(colors);
                self.flush();
                self.parsed.lights.push(light);
            }
            Meaning::Hour(hour) => self.parsed.hour = Some(hour),
            Meaning::LightFrom(side) => self.parsed.light_from = Some(side),
            Meaning::Mood(mood) => self.parsed.moods.push(mood),
            Meaning::Air(effect) => {
                self.assign_colors_to_place();
                if !self.parsed.air.contains(&effect) {
                    self.parsed.air.push(effect);
                }
            }
            Meaning::Shadow(shade) => self.parsed.shadow = Some(shade),
            Meaning::Focus(blur) => self.parsed.focus = Some(blur),
            Meaning::Vignette => self.parsed.vignette = Some(true),
        }
    }

    fn exclude(&mut self, entry: &'static Concept, text: &str) {
        let parsed = &mut self.parsed;
        let meaning = entry.meaning;
        let used = match meaning {
            Meaning::Shadow(_) => {
                parsed.no_shadow = true;
                true
            }
            Meaning::Slot(Slot::Ground | Slot::Table) => {
                parsed.no_ground = true;
                true
            }
            Meaning::Focus(blur) => {
                parsed.focus = Some(1.0 - blur);
                true
            }
            Meaning::Vignette => {
                parsed.vignette = Some(false);
                true
            }
            Meaning::Sky(clouds) if clouds > 0.5 => {
                parsed.sky = Some(0.0);
                true
            }
            Meaning::Place(place) if parsed.place == Some(place) => {
                parsed.place = None;
                true
            }
            Meaning::Air(effect) => {
                let before = parsed.air.len();
                parsed.air.retain(|given| *given != effect);
                before != parsed.air.len()
            }
            Meaning::Light(light) => {
                let before = parsed.lights.len();
                parsed.lights.retain(|given| *given != light);
                before != parsed.lights.len()
            }
            Meaning::Material(material, _) => {
                let of = |noun: &Option<NounPhrase>| noun.as_ref().is_some_and(|noun| noun.material == Some(material));
                let (ground, wall) = (of(&parsed.ground), of(&parsed.wall));
                if ground {
                    parsed.ground = None;
                }
                if wall {
                    parsed.wall = None;
                }
                ground || wall
            }
            Meaning::Slot(Slot::Wall | Slot::Backdrop)
            | Meaning::Sky(_)
            | Meaning::Place(_)
            | Meaning::Hour(_)
            | Meaning::LightFrom(_)
            | Meaning::Color(_)
            | Meaning::Tone(_)
            | Meaning::Finish(_)
            | Meaning::Mood(_)
            | Meaning::Prop(_)
            | Meaning::Sweep
            | Meaning::Gradient => false,
        };
        if used {
            parsed.understood.push(text.to_owned());
        }
    }

    /// Completes a noun phrase such as "brick wall", "oak table" or "green background".
    fn slot(&mut self, slot: Slot) {
        let mut noun = std::mem::take(&mut self.pending);
        match slot {
            Slot::Ground => self.parsed.ground = Some(noun),
            Slot::Table => {
                noun.material = noun.material.or(Some(Material::Wood(Species::Oak)));
                self.parsed.ground = Some(noun);
            }
            Slot::Wall => self.parsed.wall = Some(noun),
            // A "background" with a colour alone is paper.
            Slot::Backdrop if noun.material.is_none() => {
                self.parsed.colors.extend(noun.colors);
                self.parsed.sweep |= self.parsed.place.is_none() && self.parsed.sky.is_none();
            }
            Slot::Backdrop => self.parsed.wall = Some(noun),
        }
        self.target = Target::Anywhere;
    }

    fn assign_colors_to_place(&mut self) {
        let colors = std::mem::take(&mut self.pending.colors);
        if self.pending.material.is_some() {
            self.flush();
        }
        self.parsed.colors.extend(colors);
    }

    /// Assigns the pending noun phrase to the ground or the wall.
    fn flush(&mut self) {
        let noun = std::mem::take(&mut self.pending);
        if noun.is_empty() {
            return;
        }
        let Some(material) = noun.material else {
            return self.flush_adjectives(noun);
        };
        let upright =
            CONCEPTS.iter().any(|entry| matches!(entry.meaning, Meaning::Material(own, true) if own == material));
        let (first, second) = match self.target {
            Target::Ground => (true, true),
            Target::Background => (false, false),
            Target::Anywhere => (!upright, upright),
        };
        let [ground, wall] = [&mut self.parsed.ground, &mut self.parsed.wall];
        if first && ground.is_none() {
            *ground = Some(noun);
        } else if !first && wall.is_none() {
            *wall = Some(noun);
        } else if second && ground.is_none() {
            *ground = Some(noun);
        } else if wall.is_none() {
            *wall = Some(noun);
        }
        self.target = Target::Anywhere;
    }

    /// Assigns adjectives without a noun: "against dark green", "marble, white".
    fn flush_adjectives(&mut self, noun: NounPhrase) {
        self.parsed.finish = self.parsed.finish.or(noun.finish);
        self.parsed.tones.extend(noun.tone);
        if noun.colors.is_empty() {
            return;
        }
        let painted = NounPhrase { material: Some(Material::Plain), ..noun };
        match self.target {
            Target::Ground if self.parsed.ground.is_none() => self.parsed.ground = Some(painted),
            Target::Background if self.parsed.wall.is_none() => self.parsed.wall = Some(painted),
            Target::Ground | Target::Background | Target::Anywhere => self.parsed.colors.extend(painted.colors),
        }
    }
}
