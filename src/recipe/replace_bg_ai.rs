//! Fields and recipe of `/replace-bg-ai`: the subject on a backdrop that is generated from a prompt.

use super::params::{Field, Group, fields};
use super::prompt::{ModelChoice, Prompt, PromptRequest};
use super::shared::{Common, Mark, Marked, OwnMarks, composed};
use super::{DespillPercent, FieldError, Fields, Fraction, Recipe, RgbaOnly, Source};
use crate::compose::{Background, Fit, Grounding, Light, Scene};
use crate::image::color::Color;
use crate::image::{OutputFormat, Quality, SourceUrl};

/// Path of the endpoint.
pub const BACKDROP_PATH: &str = "/replace-bg-ai";

pub(super) const DESCRIPTION: &str = "\
Only for accounts that may generate backdrops. The subject is cut out, the backdrop is generated from `prompt`, and the subject is
composed on it; the subject's pixels stay unchanged, and the result has the size of the picture unless a size is sent.
Nothing is billed and no quota is used; a daily limit applies to all accounts together (429 with `retry-after` until
midnight UTC).

`model` names an image API that is configured and open to the account, else 403; an API that fails is a 502, and a
prompt that it refuses a 400. `auto` tries them in order and takes the first that succeeds; where there is none, the
built-in generator composes a scene from the words that it recognizes (materials, places, light, colours). It is not a
diffusion model; `x-service-prompt-words` lists the words that it recognized. Backdrops of image APIs are cached by
prompt, model and aspect ratio.
";

const WEBP_QUALITY: u8 = 80;

/// Grounding in a picture without scene data: soft light from above, the horizon a little below the middle.
pub const UNKNOWN_GROUNDING: Grounding = Grounding {
    light: Light { shadow_angle: 90.0, shadow_length: 0.0, softness: 0.7, strength: 0.3, tint: [1.0; 3] },
    horizon: Some(0.62),
};

fields! {
    struct BackdropFields {
        /// What the backdrop shows, in words. Required, here or in the preset.
        prompt: Prompt = None;
        /// The model that generates the backdrop: `auto` is the first model that is configured for the account, or the built-in generator without one; an id selects exactly that model.
        model: ModelChoice = Some("auto");
        /// Format of the result; it is always opaque.
        format: OutputFormat = Some("jpg");
        /// Always `rgba`: the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

fields! {
    /// Watermark and despill of `/replace-bg-ai`, with other forms and defaults than the shared ones.
    struct BackdropMarks {
        /// How much green and blue spill of the old background is removed from the edge: 0 is off, 100 (or `true`) all of it. The default applies on every plan; sending the field needs the Plus plan.
        despill: DespillPercent = Some("100");
        /// Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
        watermark: SourceUrl = None;
        /// Opacity of the watermark.
        watermark_opacity: Fraction = Some("0.5");
    }
}

impl OwnMarks for BackdropMarks {
    const IS_TEXT: bool = false;

    fn despill(&self) -> f32 {
        self.despill.map_or(1.0, DespillPercent::strength)
    }

    fn opacity(&self) -> f32 {
        self.watermark_opacity.map_or(0.5, |Fraction(opacity)| opacity)
    }

    fn mark(&self) -> Option<Mark> {
        self.watermark.clone().map(Mark::Picture)
    }
}

type Generated = (BackdropFields, Common, Marked<BackdropMarks>);

/// The table of fields; the description of `quality` differs from the shared one.
pub(super) fn table() -> Vec<Field> {
    let quality = "JPEG and WebP quality; the default is 92 for JPEG and 80 for WebP. Ignored by PNG.";
    let described = |field: Field| if field.name == "quality" { Field { about: quality, ..field } } else { field };
    Generated::table().into_iter().map(described).collect()
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
    let ModelChoice(model) = own.model.unwrap_or_default();
    recipe.inputs.background = Some(Source::Generated(PromptRequest { prompt, model }));
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;
    use crate::recipe::{ModelId, Value};

    const PROMPT: (&str, &str) = ("prompt", "a beach");

    fn recipe(pairs: &[(&str, &str)]) -> Recipe {
        generated(&fields(pairs)).expect("valid")
    }

    fn request(pairs: &[(&str, &str)]) -> PromptRequest {
        match recipe(pairs).inputs.background {
            Some(Source::Generated(request)) => request,
            other @ (Some(Source::Attached | Source::Url(_)) | None) => panic!("{other:?}"),
        }
    }

    #[test]
    fn there_are_thirteen_models_and_each_is_known_by_its_id() {
        assert_eq!(ModelId::all().count(), 13);
        for model in ModelId::all() {
            assert_eq!(ModelId::named(model.as_str()), Some(model));
            assert_eq!(request(&[PROMPT, ("model", model.as_str())]).model, Some(model));
        }
        assert_eq!(request(&[PROMPT]).model, None);
        assert_eq!(request(&[PROMPT, ("model", "auto")]).model, None);
        assert_eq!(request(&[PROMPT, ("model", "Auto")]).model, None);
        assert_eq!(request(&[PROMPT, ("model", "FAMA-IMAGE-2")]).model, ModelId::named("famA-image-2"));
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
        assert_eq!(request(&[("prompt", "  an Oak\n table \u{a0} ")]).prompt, "an Oak table");
    }

    #[test]
    fn the_default_quality_depends_on_the_format() {
        let of = |pairs: &[(&str, &str)]| recipe(pairs).encode;
        assert_eq!((of(&[PROMPT]).format, of(&[PROMPT]).quality.get()), (OutputFormat::Jpeg, 92));
        assert_eq!(of(&[PROMPT, ("format", "webp")]).quality.get(), 80);
        assert_eq!(of(&[PROMPT, ("format", "webp"), ("quality", "92")]).quality.get(), 92);
        assert_eq!(of(&[PROMPT, ("format", "png")]).format, OutputFormat::Png);
    }

    #[test]
    fn despill_is_complete_by_default() {
        let strength = |pairs: &[(&str, &str)]| recipe(pairs).cut().expect("it cuts").matting.despill;
        let all = [strength(&[PROMPT]), strength(&[PROMPT, ("despill", "true")])];
        assert!(all.iter().all(|strength| (strength - 1.0).abs() < f32::EPSILON), "{all:?}");
        assert!((strength(&[PROMPT, ("despill", "50")]) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn a_watermark_is_half_opaque_by_default() {
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
