//! Parses and validates the fields of a request into a [`Recipe`] for the pipeline, before any work starts.
//!
//! 1. [`Fields`]: names and values as sent; repeated and unknown names are refused.
//! 2. Groups (`params`): one struct for each set of fields, each field an `Option` of a type that cannot hold an
//!    invalid value (`values`). The macro `fields!` declares a group once, for the parser and for the table ([`Field`],
//!    [`Kind`]) that generates `/docs` and the contract.
//! 3. [`Recipe`] (`work`): every default filled in. Its [`Work`] is a cutout or a retouch of the whole picture.
//!
//! [`ENDPOINTS`] lists the endpoints; a new one is a file here, named after its path, and an entry there.

mod drop_in;
mod endpoint;
mod face_restore;
mod fields;
mod guidance;
mod guidance_rules;
mod headshot;
mod inference;
mod kind;
mod network;
mod params;
mod prompt;
mod region;
mod remove;
mod replace_bg;
mod replace_bg_ai;
mod shadow;
mod shared;
mod smart_crop;
mod sticker;
mod studio_shot;
mod upscale;
mod values;
mod video;
mod work;

pub use drop_in::{DROP_IN, DROP_IN_BACKGROUND};
pub use endpoint::{ENDPOINTS, Endpoint, Input, MAX_BATCH};
pub(crate) use fields::nearest;
pub use fields::{BG_FILE, FieldError, Fields};
pub use guidance::{Area, Guidance, Located, MASK_FILE, MASK_URL, MaskMode, MaskSource, OF_ONE_PICTURE, Points};
pub use inference::{InferenceMode, name_of, names};
pub use kind::{Kind, TextSpec};
pub use network::Network;
pub use params::{Field, Origin};
pub use prompt::{ModelChoice, ModelId, Prompt, PromptRequest};
pub use region::Region;
pub use replace_bg_ai::{BACKDROP_PATH, UNKNOWN_GROUNDING};
pub use values::{
    AlphaOnly, Blur, CropFormat, CutEngine, CutoutFormat, DespillFlag, DespillPercent, DespillStrength, Detect,
    EdgeChoice, EnhanceStrength, Flag, Fraction, MaxDim, ModelRef, PaddingPx, PresetRef, RgbaOnly, Scale, ScaleOrNone,
    Side, Value, WatermarkText, Whole,
};
pub use video::{VIDEO_FIELDS, VIDEO_PATH, VideoFormat, VideoRecipe, webhook_url};
pub use work::{Cut, Picture, Portrait, Recipe, RequiredInputs, Retouch, Source, Work};

#[cfg(test)]
pub(crate) mod tests {
    use super::{ENDPOINTS, Fields, Recipe};
    use crate::codec::Limits;
    use crate::compose::{Anchor, CanvasLimit};
    use crate::image::OutputFormat;
    use crate::model::Factor;
    use crate::model::weights::BuiltIn;

    #[test]
    fn a_recipe_names_the_built_in_weights_that_it_needs() {
        let needs = |name: &str, pairs: &[(&str, &str)]| {
            let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.name == name).expect(name);
            endpoint.recipe(&fields(pairs)).expect(name).built_in()
        };
        assert_eq!(needs("remove", &[]), []);
        assert_eq!(needs("headshot", &[]), [BuiltIn::Face, BuiltIn::Restore]);
        assert_eq!(needs("headshot", &[("restore_face", "false")]), [BuiltIn::Face]);
        assert_eq!(needs("face-restore", &[]), [BuiltIn::Face, BuiltIn::Restore]);
        assert_eq!(needs("upscale", &[("scale", "4")]), [BuiltIn::Upscale(Factor::Four)]);
    }

    #[test]
    fn the_anchor_is_the_centre_by_default() {
        let anchored = ENDPOINTS.iter().filter(|endpoint| endpoint.field("anchor").is_some());
        let names: Vec<_> = anchored.clone().map(|endpoint| endpoint.name).collect();
        assert_eq!(names, ["studio-shot", "shadow", "sticker"]);
        for endpoint in anchored {
            let anchor = |pairs: &[(&str, &str)]| endpoint.recipe(&fields(pairs)).map(|recipe| recipe.scene.anchor);
            assert_eq!([anchor(&[]), anchor(&[("anchor", "auto")])], [Ok(Anchor::Center), Ok(Anchor::Auto)]);
            assert_eq!(anchor(&[("anchor", "bottom")]).expect_err("no side").param(), "anchor");
        }
    }

    #[test]
    fn a_result_may_be_as_large_as_the_largest_source() {
        let png = Recipe::default();
        let webp = ENDPOINTS[0].recipe(&fields(&[("format", "webp")])).expect("a format");
        assert_eq!((ENDPOINTS[0].name, webp.encode.format), ("remove", OutputFormat::WebP));
        for (recipe, max_side, expected) in [
            (&png, 16, 8192),
            (&png, 4096, 8192),
            (&png, 8193, 8193),
            (&png, 16_384, 16_384),
            (&webp, 4096, 8192),
            (&webp, 16_384, 16_383),
        ] {
            let CanvasLimit(limit) = recipe.within(&Limits { max_side, ..Limits::default() }).scene.limit;
            assert_eq!(limit, expected, "{:?} from {max_side}", recipe.encode.format);
        }
    }

    /// Fields as a caller sends them.
    pub(crate) fn fields(pairs: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in pairs {
            fields.push(name, value).expect("each once");
        }
        fields
    }
}
