//! Reading a prompt.
//!
//! The text is cut into words; phrases are looked up before words, the longest first, each word also in the singular. What
//! is found is read as English puts it: adjectives belong to the noun that follows ("dark green velvet"), "on" and "over"
//! say what the ground is, "against", "before" and "behind" what is behind, a negation takes away the next noun with its
//! adjectives. Words that are not known are passed over.

use super::palette::{Rgb, saturated, srgb};
use super::scene::{Hour, Place, Weather};
use super::surface::{Finish, Material};
use super::vocabulary::{Entry, Lighting, Mood, Says, Shade, Side, Slot, Stand, Tone, concept, longest_phrase};

/// Words of a prompt that are looked at; far more than 500 characters hold.
const MOST_WORDS: usize = 4096;

/// What a prompt says, before anything is decided that it leaves open.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) ground: Option<Noun>,
    pub(super) wall: Option<Noun>,
    /// Seamless paper, and its colour.
    pub(super) sweep: bool,
    pub(super) gradient: bool,
    pub(super) place: Option<Place>,
    /// Clouds of the sky, if that was spoken of.
    pub(super) sky: Option<f32>,
    pub(super) hour: Option<Hour>,
    /// Colours of the place, or of nothing in particular.
    pub(super) colors: Vec<Rgb>,
    pub(super) lights: Vec<Lighting>,
    /// Colours of the light.
    pub(super) light_colors: Vec<Rgb>,
    pub(super) from: Option<Side>,
    pub(super) tones: Vec<Tone>,
    pub(super) finish: Option<Finish>,
    pub(super) moods: Vec<Mood>,
    pub(super) weather: Vec<Weather>,
    pub(super) prop: Option<(Stand, Noun)>,
    pub(super) shade: Option<Shade>,
    pub(super) no_shadow: bool,
    pub(super) no_ground: bool,
    pub(super) focus: Option<f32>,
    pub(super) vignette: Option<bool>,
    /// Words that were used, in their order.
    pub(super) understood: Vec<String>,
}

/// A material with its adjectives.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Noun {
    pub(super) material: Option<Material>,
    pub(super) colors: Vec<Rgb>,
    pub(super) tone: Option<Tone>,
    pub(super) finish: Option<Finish>,
}

impl Noun {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A piece of a prompt.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Known(&'static Entry),
    /// "on", "over".
    On,
    /// "against", "before", "behind".
    Against,
    /// "in", "at".
    In,
    Not,
    /// "or", "nor": a negation goes on.
    Or,
    And,
    Break,
    Unknown,
}

/// Reads `prompt`.
pub(super) fn read(prompt: &str) -> Reading {
    let words = words(prompt);
    let mut reader = Reader::default();
    let mut at = 0;
    while at < words.len() {
        let (piece, length) = piece(&words[at..]);
        let text = words[at..at + length].join(" ");
        reader.take(piece, &text);
        at += length;
    }
    reader.take(Piece::Break, "");
    reader.reading
}

/// The prompt in normal form: what a scene's seed comes from.
pub(super) fn normalised(prompt: &str) -> String {
    words(prompt).join(" ")
}

/// Lower-case words without accents; `,` where the text has a break.
fn words(prompt: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let end = |word: &mut String, words: &mut Vec<String>| {
        if !word.is_empty() {
            words.push(std::mem::take(word));
        }
    };
    for c in prompt.chars().flat_map(char::to_lowercase) {
        if words.len() >= MOST_WORDS {
            break;
        }
        match unaccented(c) {
            // "artist's" is one word; a combining accent is part of its letter.
            '\'' | '’' | '\u{300}'..='\u{36F}' => {}
            c if c.is_alphanumeric() => word.push(c),
            ',' | '.' | ';' | ':' | '!' | '?' | '/' | '|' | '(' | ')' | '\n' | '、' | '。' | '،' => {
                end(&mut word, &mut words);
                if words.last().is_some_and(|last| last != ",") {
                    words.push(",".to_owned());
                }
            }
            _ => end(&mut word, &mut words),
        }
    }
    end(&mut word, &mut words);
    words
}

fn unaccented(c: char) -> char {
    match c {
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => 'a',
        'ç' => 'c',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'ì' | 'í' | 'î' | 'ï' => 'i',
        'ñ' => 'n',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' => 'o',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        other => other,
    }
}

/// The first piece of `words`, and how many of them it takes.
fn piece(words: &[String]) -> (Piece, usize) {
    for length in (1..=longest_phrase().min(words.len())).rev() {
        if let Some(entry) = known(&words[..length]) {
            return (Piece::Known(entry), length);
        }
    }
    let two = words.get(1).map_or("", String::as_str);
    match (words[0].as_str(), two) {
        ("in" | "standing" | "set", "front") | ("free", "of" | "from") | ("next", "to") => {
            let of = usize::from(words.get(2).is_some_and(|word| word == "of"));
            if words[0] == "free" { (Piece::Not, 2) } else { (Piece::Against, 2 + of) }
        }
        ("on" | "onto" | "over" | "atop" | "upon" | "top", _) => (Piece::On, 1),
        ("against" | "before" | "behind" | "beside" | "near" | "overlooking", _) => (Piece::Against, 1),
        ("in" | "at" | "inside" | "within" | "by", _) => (Piece::In, 1),
        ("no" | "not" | "without" | "never" | "avoid" | "exclude" | "excluding" | "minus" | "dont", _) => {
            (Piece::Not, 1)
        }
        ("or" | "nor", _) => (Piece::Or, 1),
        ("and" | "to" | "into", _) => (Piece::And, 1),
        ("," | "with" | "but" | "under" | "featuring", _) => (Piece::Break, 1),
        _ => (Piece::Unknown, 1),
    }
}

/// The concept of a phrase: as it stands, or its last word in the singular.
fn known(words: &[String]) -> Option<&'static Entry> {
    let (last, first) = words.split_last()?;
    let phrase = |last: &str| {
        let mut phrase = first.join(" ");
        if !first.is_empty() {
            phrase.push(' ');
        }
        phrase + last
    };
    if let Some(entry) = concept(&phrase(last)) {
        return Some(entry);
    }
    let singulars = [("ies", "y"), ("ves", "f"), ("ves", "fe"), ("es", ""), ("s", "")];
    singulars.into_iter().find_map(|(plural, singular)| {
        let stem = last.strip_suffix(plural).filter(|stem| stem.len() >= 2)?;
        concept(&phrase(&format!("{stem}{singular}")))
    })
}

/// Where the next noun belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Where {
    #[default]
    Anywhere,
    Ground,
    Behind,
}

#[derive(Debug, Default)]
struct Reader {
    reading: Reading,
    /// Adjectives, and a material, whose noun may follow.
    pending: Noun,
    /// A place that the last colour may belong to.
    place: Where,
    negated: bool,
    /// That the last piece was negated, so that "or" goes on with it.
    was_negated: bool,
}

impl Reader {
    fn take(&mut self, piece: Piece, text: &str) {
        match piece {
            Piece::Known(entry) => self.concept(entry, text),
            Piece::On => self.turn_to(Where::Ground),
            Piece::Against => self.turn_to(Where::Behind),
            Piece::In => self.flush(),
            Piece::Not => {
                self.flush();
                self.negated = true;
            }
            Piece::Or => self.negated |= self.was_negated,
            Piece::And => {
                if self.pending.material.is_some() {
                    self.flush();
                }
            }
            Piece::Break => {
                self.flush();
                (self.place, self.negated, self.was_negated) = (Where::Anywhere, false, false);
            }
            Piece::Unknown => self.unknown(text),
        }
    }

    fn turn_to(&mut self, place: Where) {
        self.flush();
        (self.place, self.negated, self.was_negated) = (place, false, false);
    }

    /// "shadowless", "shadow free": a known word, negated.
    fn unknown(&mut self, text: &str) {
        let stem = text.strip_suffix("less").filter(|stem| !stem.is_empty());
        if let Some(entry) = stem.and_then(|stem| known(&[stem.to_owned()])) {
            self.flush();
            self.without(entry, text);
        }
    }

    fn concept(&mut self, entry: &'static Entry, text: &str) {
        if self.negated {
            // Adjectives are taken away together with their noun.
            let is_adjective = matches!(entry.says, Says::Color(_) | Says::Tone(_) | Says::Finish(_));
            if !is_adjective {
                (self.negated, self.was_negated) = (false, true);
                self.without(entry, &format!("no {text}"));
            }
            return;
        }
        self.was_negated = false;
        self.reading.understood.push(text.to_owned());
        match entry.says {
            Says::Color(code) => {
                if self.pending.material.is_some() {
                    self.flush();
                }
                let color = self.pending.tone.take().map_or_else(|| srgb(code), |tone| recolored(srgb(code), tone));
                self.pending.colors.push(color);
            }
            Says::Tone(tone) => {
                if self.pending.material.is_some() {
                    self.flush();
                }
                self.pending.tone = Some(tone);
            }
            Says::Finish(finish) => self.pending.finish = Some(finish),
            Says::Material(material, _) => {
                // "rattan table" and "marble oak": the later one wins, the earlier one is a thing of its own.
                if self.pending.material.is_some() {
                    self.flush();
                }
                self.pending.material = Some(material);
            }
            Says::Slot(slot) => self.slot(slot),
            Says::Prop(stand) => {
                let noun = std::mem::take(&mut self.pending);
                self.reading.prop = Some((stand, noun));
                self.place = Where::Anywhere;
            }
            Says::Place(place) => {
                self.hand_colors_to_view();
                // "meadow with wildflowers": what is more than grass is what was meant.
                if self.reading.place.is_none_or(|given| given == Place::Meadow) {
                    self.reading.place = Some(place);
                }
            }
            Says::Sky(clouds) => {
                self.hand_colors_to_view();
                let sky = self.reading.sky.get_or_insert(clouds);
                // "cloudy sky" is cloudy.
                if (clouds - 0.35).abs() > 0.01 {
                    *sky = clouds;
                }
            }
            Says::Gradient => {
                self.hand_colors_to_view();
                self.reading.gradient = true;
            }
            Says::Sweep => {
                self.hand_colors_to_view();
                self.reading.sweep = true;
            }
            Says::Light(light) => {
                let colors = std::mem::take(&mut self.pending.colors);
                self.reading.light_colors.extend(colors);
                self.flush();
                self.reading.lights.push(light);
            }
            Says::Hour(hour) => self.reading.hour = Some(hour),
            Says::From(side) => self.reading.from = Some(side),
            Says::Mood(mood) => self.reading.moods.push(mood),
            Says::Weather(weather) => {
                self.hand_colors_to_view();
                if !self.reading.weather.contains(&weather) {
                    self.reading.weather.push(weather);
                }
            }
            Says::Shadow(shade) => self.reading.shade = Some(shade),
            Says::Focus(blur) => self.reading.focus = Some(blur),
            Says::Vignette => self.reading.vignette = Some(true),
        }
    }

    /// Something that shall not be there.
    fn without(&mut self, entry: &'static Entry, text: &str) {
        let reading = &mut self.reading;
        let says = entry.says;
        let used = match says {
            Says::Shadow(_) => {
                reading.no_shadow = true;
                true
            }
            Says::Slot(Slot::Ground | Slot::Table) => {
                reading.no_ground = true;
                true
            }
            Says::Focus(blur) => {
                reading.focus = Some(1.0 - blur);
                true
            }
            Says::Vignette => {
                reading.vignette = Some(false);
                true
            }
            Says::Sky(clouds) if clouds > 0.5 => {
                reading.sky = Some(0.0);
                true
            }
            Says::Place(place) if reading.place == Some(place) => {
                reading.place = None;
                true
            }
            Says::Weather(weather) => {
                let before = reading.weather.len();
                reading.weather.retain(|given| *given != weather);
                before != reading.weather.len()
            }
            Says::Light(light) => {
                let before = reading.lights.len();
                reading.lights.retain(|given| *given != light);
                before != reading.lights.len()
            }
            Says::Material(material, _) => {
                let of = |noun: &Option<Noun>| noun.as_ref().is_some_and(|noun| noun.material == Some(material));
                let (ground, wall) = (of(&reading.ground), of(&reading.wall));
                if ground {
                    reading.ground = None;
                }
                if wall {
                    reading.wall = None;
                }
                ground || wall
            }
            Says::Slot(Slot::Wall | Slot::Backdrop)
            | Says::Sky(_)
            | Says::Place(_)
            | Says::Hour(_)
            | Says::From(_)
            | Says::Color(_)
            | Says::Tone(_)
            | Says::Finish(_)
            | Says::Mood(_)
            | Says::Prop(_)
            | Says::Sweep
            | Says::Gradient => false,
        };
        if used {
            reading.understood.push(text.to_owned());
        }
    }

    /// "brick wall", "oak table", "green background": the noun that the adjectives were waiting for.
    fn slot(&mut self, slot: Slot) {
        let mut noun = std::mem::take(&mut self.pending);
        match slot {
            Slot::Ground => self.reading.ground = Some(noun),
            Slot::Table => {
                noun.material = noun.material.or(Some(Material::Wood(super::surface::Species::Oak)));
                self.reading.ground = Some(noun);
            }
            Slot::Wall => self.reading.wall = Some(noun),
            // A "background" of nothing but a colour is paper.
            Slot::Backdrop if noun.material.is_none() => {
                self.reading.colors.extend(noun.colors);
                self.reading.sweep |= self.reading.place.is_none() && self.reading.sky.is_none();
            }
            Slot::Backdrop => self.reading.wall = Some(noun),
        }
        self.place = Where::Anywhere;
    }

    fn hand_colors_to_view(&mut self) {
        let colors = std::mem::take(&mut self.pending.colors);
        if self.pending.material.is_some() {
            self.flush();
        }
        self.reading.colors.extend(colors);
    }

    /// Puts what is pending where it belongs.
    fn flush(&mut self) {
        let noun = std::mem::take(&mut self.pending);
        if noun.is_empty() {
            return;
        }
        let Some(material) = noun.material else {
            return self.flush_adjectives(noun);
        };
        let upright = super::vocabulary::ENTRIES
            .iter()
            .any(|entry| matches!(entry.says, Says::Material(own, true) if own == material));
        let (first, second) = match self.place {
            Where::Ground => (true, true),
            Where::Behind => (false, false),
            Where::Anywhere => (!upright, upright),
        };
        let [ground, wall] = [&mut self.reading.ground, &mut self.reading.wall];
        if first && ground.is_none() {
            *ground = Some(noun);
        } else if !first && wall.is_none() {
            *wall = Some(noun);
        } else if second && ground.is_none() {
            *ground = Some(noun);
        } else if wall.is_none() {
            *wall = Some(noun);
        }
        self.place = Where::Anywhere;
    }

    /// Adjectives whose noun did not come: "against dark green", "marble, white".
    fn flush_adjectives(&mut self, noun: Noun) {
        self.reading.finish = self.reading.finish.or(noun.finish);
        self.reading.tones.extend(noun.tone);
        if noun.colors.is_empty() {
            return;
        }
        let painted = Noun { material: Some(Material::Plain), ..noun };
        match self.place {
            Where::Ground if self.reading.ground.is_none() => self.reading.ground = Some(painted),
            Where::Behind if self.reading.wall.is_none() => self.reading.wall = Some(painted),
            Where::Ground | Where::Behind | Where::Anywhere => self.reading.colors.extend(painted.colors),
        }
    }
}

/// "dark green", "pastel pink".
pub(super) fn recolored(color: Rgb, tone: Tone) -> Rgb {
    use super::palette::{mix, scaled};
    match tone {
        Tone::Dark => scaled(color, 0.3),
        Tone::Light => mix(color, [0.86; 3], 0.55),
        Tone::Pastel => mix(saturated(color, 0.9), [0.88; 3], 0.62),
        Tone::Vivid => saturated(color, 1.3).map(|value| value.min(1.0)),
        Tone::Muted => scaled(saturated(color, 0.5), 0.92),
    }
}

#[cfg(test)]
mod tests;
