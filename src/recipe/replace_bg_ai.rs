//! `/replace-bg-ai`: the subject before a backdrop that is made from words.

use super::params::{Field, Group, fields};
use super::shared::{Common, Mark, Marked, OwnMarks, composed};
use super::{DespillPercent, FieldError, Fields, Form, Kind, Recipe, RgbaOnly, Source, Unit, Value};
use crate::compose::{Background, Fit, Grounding, Light, Scene};
use crate::image::color::Color;
use crate::image::{OutputFormat, Quality, SourceUrl};

/// The path of the endpoint.
pub const BACKDROP_PATH: &str = "/replace-bg-ai";

/// What the contract says about it beside its sentence.
pub(super) const DESCRIPTION: &str = "\
For the accounts on its allow-list. The subject is cut out, the backdrop is made from `prompt`, and both are put
together; the subject's own pixels stay as they are, and the result is as large as the picture unless a size is
sent. Nothing is billed, and the quota is not used; a cap of the day holds for all accounts together (429 with
`retry-after` until midnight UTC).

`model` names an image API that is set up here and open to the account, else 403; one that fails is a 502, and a
prompt that it refuses a 400. `auto` takes the first of them that delivers, and where there is none the built-in
generator: it composes a scene from words that it knows (materials, places, light, colours), is no diffusion
model, and says with `x-service-prompt-words` which words it understood. Backdrops of image APIs are kept by prompt,
model and aspect, and used again.
";

/// Quality of a WebP when none is said.
const WEBP_QUALITY: u8 = 80;

/// How a subject stands in a picture of which nothing is known: soft light from above, the ground a little below the
/// middle.
pub const UNKNOWN_GROUNDING: Grounding = Grounding {
    light: Light { shadow_angle: 90.0, shadow_length: 0.0, softness: 0.7, strength: 0.3, tint: [1.0; 3] },
    horizon: Some(0.62),
};

/// A backdrop that a caller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRequest {
    /// What it is to show: without space at its ends, and never more than one between words.
    pub prompt: String,
    /// Who is to make it; nothing leaves the choice to the service.
    pub model: Option<ModelId>,
}

/// The id of a model that makes backdrops, one of [`ModelId::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(&'static str);

/// What `model` takes: the service's choice, and the ids of the specification.
const MODELS: &[&str] = &[
    AUTO,
    "famA-image-2.5-sunburst",
    "famA-image-2.5-flare",
    "famB-image-2.6",
    "famB-image-2.6-flash",
    "famB-image-2.5-pro",
    "famB-image-2.5",
    "famB-image-2.5-flash",
    "famB-image-2e",
    "famA-image-2",
    "famC-2-pro",
    "famC-2-flex",
    "famC-1-kontext-pro",
    "famD-famE",
];

const AUTO: &str = "auto";

impl ModelId {
    /// Every id, in the order of the specification's table: the top models first.
    pub fn all() -> impl Iterator<Item = Self> {
        MODELS[1..].iter().map(|id| Self(id))
    }

    /// The model of that id, if it is one.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        Self::all().find(|model| model.0 == id)
    }

    /// As callers write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl std::fmt::Display for ModelId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.0)
    }
}

/// The value of `model`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedModel(pub Option<ModelId>);

impl Value for WantedModel {
    const KIND: Kind = Kind::Choice(MODELS);

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case(AUTO) {
            return Some(Self(None));
        }
        ModelId::all().find(|model| model.0.eq_ignore_ascii_case(text)).map(|model| Self(Some(model)))
    }
}

/// The text of a prompt, as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt(pub String);

impl Prompt {
    const MOST: u32 = 500;

    /// Without what makes no difference to a reader. Letters keep their case: a sign in the picture may say them.
    fn normalised(&self) -> String {
        self.0.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Value for Prompt {
    const KIND: Kind = Kind::Text(Form {
        expected: "text of 1 to 500 characters",
        pattern: Some(r"\S"),
        max_length: Self::MOST,
        examples: &["a marble counter in soft window light", "Strand bei Sonnenuntergang"],
    });
    const REQUIRED: bool = true;

    fn parse(text: &str) -> Option<Self> {
        let fits = text.chars().count() <= Self::MOST as usize && !text.trim().is_empty();
        // Of the characters that control something, only those that are white space mean anything in a sentence.
        let is_text = !text.chars().any(|c| c.is_control() && !c.is_whitespace());
        (fits && is_text).then(|| Self(text.to_owned()))
    }
}

fields! {
    /// What `/replace-bg-ai` takes beside the shared fields.
    struct BackdropFields {
        /// What the backdrop is to show, in words. Needed here or in the preset.
        prompt: Prompt = None;
        /// Who makes the backdrop: `auto` picks the first model that is set up for the account, and the built-in generator where there is none; an id stands for that model and no other.
        model: WantedModel = Some("auto");
        /// Format of the result; it is always opaque.
        format: OutputFormat = Some("jpg");
        /// Always the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

fields! {
    /// Marks and despill as `/replace-bg-ai` takes them.
    struct BackdropMarks {
        /// How much green and blue light of the old background is taken off the edge: 0 is off, 100 (or `true`) all of it. All of it is taken off on every plan; to send the field needs the Plus tier.
        despill: DespillPercent = Some("100");
        /// Address of a picture (PNG with alpha) that is put in the lower right corner, a fifth of the width wide.
        watermark: SourceUrl = None;
        /// How much of the watermark shows.
        watermark_opacity: Unit = Some("0.5");
    }
}

impl OwnMarks for BackdropMarks {
    const IS_TEXT: bool = false;

    fn despill(&self) -> f32 {
        self.despill.map_or(1.0, DespillPercent::strength)
    }

    fn opacity(&self) -> f32 {
        self.watermark_opacity.map_or(0.5, |Unit(opacity)| opacity)
    }

    fn mark(&self) -> Option<Mark> {
        self.watermark.clone().map(Mark::Picture)
    }
}

/// What `/replace-bg-ai` takes.
type Generated = (BackdropFields, Common, Marked<BackdropMarks>);

/// The table of its fields.
pub(super) fn table() -> Vec<Field> {
    let quality = "JPEG and WebP quality; 92 for JPEG and 80 for WebP when it is not said. Ignored by PNG.";
    let told = |field: Field| if field.name == "quality" { Field { about: quality, ..field } } else { field };
    Generated::table().into_iter().map(told).collect()
}

pub(super) fn generated(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Generated::read(fields)?;
    let format = own.format.unwrap_or(OutputFormat::Jpeg);
    let scene = Scene {
        background: Background::Picture { fit: Fit::Cover, behind: Color::WHITE },
        grounding: Some(UNKNOWN_GROUNDING),
        ..Scene::default()
    };
    let mut recipe = composed(&common, &marks, format, scene);
    if let (None, OutputFormat::WebP, Some(usual)) = (common.quality, format, Quality::new(WEBP_QUALITY)) {
        recipe.encode.quality = usual;
    }
    let prompt = own.prompt.unwrap_or_default().normalised();
    let WantedModel(model) = own.model.unwrap_or_default();
    recipe.inputs.background = Some(Source::Generated(PromptRequest { prompt, model }));
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;

    const PROMPT: (&str, &str) = ("prompt", "a beach");

    fn recipe(pairs: &[(&str, &str)]) -> Recipe {
        generated(&fields(pairs)).expect("valid")
    }

    fn wish(pairs: &[(&str, &str)]) -> PromptRequest {
        match recipe(pairs).inputs.background {
            Some(Source::Generated(wish)) => wish,
            other @ (Some(Source::Attached | Source::Url(_)) | None) => panic!("{other:?}"),
        }
    }

    #[test]
    fn there_are_thirteen_models_and_each_is_known_by_its_id() {
        assert_eq!(ModelId::all().count(), 13);
        for model in ModelId::all() {
            assert_eq!(ModelId::named(model.as_str()), Some(model));
            assert_eq!(wish(&[PROMPT, ("model", model.as_str())]).model, Some(model));
        }
        assert_eq!(wish(&[PROMPT]).model, None);
        assert_eq!(wish(&[PROMPT, ("model", "auto")]).model, None);
        assert_eq!(wish(&[PROMPT, ("model", "Auto")]).model, None);
        assert_eq!(wish(&[PROMPT, ("model", "FAMA-IMAGE-2")]).model, ModelId::named("famA-image-2"));
        for unknown in ["famA-image-3", "famA-image", "procedural"] {
            let refused = generated(&fields(&[PROMPT, ("model", unknown)])).expect_err(unknown);
            assert_eq!(refused.param(), "model");
        }
        assert_eq!(ModelId::named("auto"), None);
    }

    #[test]
    fn a_prompt_has_1_to_500_characters_of_any_script_and_is_more_than_space() {
        let umlauts = "ü".repeat(500);
        for good in ["x", "a\nb", umlauts.as_str()] {
            assert!(Prompt::parse(good).is_some(), "{good}");
        }
        for bad in ["", " ", "\n\t \u{3000}", "a\0b", "a\u{1b}[0m", &"ü".repeat(501), &" ".repeat(501)] {
            assert_eq!(Prompt::parse(bad), None, "{bad:?}");
        }
        assert_eq!(wish(&[("prompt", "  an Oak\n table \u{a0} ")]).prompt, "an Oak table");
    }

    #[test]
    fn the_format_decides_the_quality_that_is_not_said() {
        let of = |pairs: &[(&str, &str)]| recipe(pairs).encode;
        assert_eq!((of(&[PROMPT]).format, of(&[PROMPT]).quality.get()), (OutputFormat::Jpeg, 92));
        assert_eq!(of(&[PROMPT, ("format", "webp")]).quality.get(), 80);
        assert_eq!(of(&[PROMPT, ("format", "webp"), ("quality", "92")]).quality.get(), 92);
        assert_eq!(of(&[PROMPT, ("format", "png")]).format, OutputFormat::Png);
    }

    #[test]
    fn despill_is_in_full_force_unless_something_else_is_said() {
        let strength = |pairs: &[(&str, &str)]| recipe(pairs).cut().expect("it cuts").matting.despill;
        let all = [strength(&[PROMPT]), strength(&[PROMPT, ("despill", "true")])];
        assert!(all.iter().all(|strength| (strength - 1.0).abs() < f32::EPSILON), "{all:?}");
        for (text, expected) in [("0", 0.0), ("false", 0.0), ("1", 0.01), ("50", 0.5), ("100", 1.0)] {
            assert!((strength(&[PROMPT, ("despill", text)]) - expected).abs() < 1e-6, "{text}");
        }
        for text in ["101", "-1", "50.5", "most"] {
            assert!(generated(&fields(&[PROMPT, ("despill", text)])).is_err(), "{text}");
        }
    }

    #[test]
    fn a_watermark_is_half_seen_unless_something_else_is_said() {
        let opacity = |more: &[(&str, &str)]| {
            let sent: Vec<_> =
                [PROMPT, ("watermark", "https://example.org/w.png")].iter().chain(more).copied().collect();
            recipe(&sent).scene.watermark.expect("a watermark").opacity
        };
        assert!((opacity(&[]) - 0.5).abs() < f32::EPSILON);
        assert!((opacity(&[("watermark_opacity", "1")]) - 1.0).abs() < f32::EPSILON);
        assert_eq!(recipe(&[PROMPT, ("watermark_opacity", "1")]).scene.watermark, None);
    }
}
