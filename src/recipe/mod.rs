//! What the caller asked for: `Fields → groups of options → Recipe`, three steps before any work.
//!
//! 1. [`Fields`]: names and values as they were sent, repeated and unknown ones refused.
//! 2. Groups, one struct for each set of fields that belong together, each field an `Option` of a type that cannot hold
//!    a bad value. Declared once with `fields!`, which also makes the table that the documentation page and the
//!    contract test read.
//! 3. [`Recipe`]: no options left, defaults filled. Its [`Work`] says whether something is cut out at all.
//!
//! [`ENDPOINTS`] lists them; a new one is one file here and one entry there.

mod drop_in;
mod endpoint;
mod face_restore;
mod fields;
mod headshot;
mod kind;
mod params;
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

pub use drop_in::{DROP_IN, DROP_IN_BACKGROUND, Region};
pub use endpoint::{BG_FILE, ENDPOINTS, Endpoint, Input, MAX_BATCH};
pub use fields::{FieldError, Fields};
pub use kind::{Form, Kind};
pub use params::{Field, Origin};
pub use replace_bg_ai::{BACKDROP_PATH, ModelId, Prompt, PromptRequest, UNKNOWN_GROUNDING, WantedModel};
pub use values::{
    AlphaOnly, Blur, CropFormat, CutEngine, CutoutFormat, DespillFlag, DespillPercent, DespillStrength, Detect, Flag,
    InferenceMode, Lift, Line, MaxDim, PresetRef, RgbaOnly, Room, Scale, ScaleOrNone, Side, Unit, Value, Whole,
};
pub use video::{VIDEO_ABOUT, VIDEO_FIELDS, VIDEO_PATH, VideoFormat, VideoRecipe, webhook_url};

use crate::image::SourceUrl;
use crate::model::Factor;
use crate::model::weights::BuiltIn;
use crate::{codec, compose, matting};

/// Everything the pipeline needs to know about one job; nothing is left open.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// What is done with the source before it is put into the scene.
    pub work: Work,
    /// What surrounds it.
    pub scene: compose::Scene,
    /// The file that comes back.
    pub encode: codec::EncodeOptions,
    /// Pictures that are needed beside the source.
    pub inputs: RequiredInputs,
}

impl Default for Recipe {
    /// What `/remove` does without fields.
    fn default() -> Self {
        remove::upload(&Fields::default()).expect("no field, no mistake")
    }
}

impl Recipe {
    /// How the subject is cut out, where it is.
    #[must_use]
    pub const fn cut(&self) -> Option<&Cut> {
        match &self.work {
            Work::Cut { cut, .. } => Some(cut),
            Work::Retouch(_) => None,
        }
    }

    /// The same, to be changed.
    pub const fn cut_mut(&mut self) -> Option<&mut Cut> {
        match &mut self.work {
            Work::Cut { cut, .. } => Some(cut),
            Work::Retouch(_) => None,
        }
    }

    /// Has the subject cut out by `model`, where one is cut out.
    pub const fn cut_out_by(&mut self, model: InferenceMode) {
        if let Some(cut) = self.cut_mut() {
            cut.model = model;
        }
    }

    /// The same for a source within `limits`: the result may be as large as the largest source, where that is larger than
    /// [`compose::MAX_SIDE`] and a file of its format can be.
    #[must_use]
    pub fn within(&self, limits: &codec::Limits) -> Self {
        let side = limits.max_side.max(compose::MAX_SIDE).min(codec::longest_side(self.encode.format));
        let mut recipe = self.clone();
        recipe.scene.limit = compose::CanvasLimit(side);
        recipe
    }

    /// The weights of the binary that its work needs, but for those that cut out: a caller's own may be in their place.
    #[must_use]
    pub fn built_in(&self) -> Vec<BuiltIn> {
        let (finds, restores, enlarges) = match self.work {
            Work::Cut { picture: Picture::Cutout | Picture::Source, .. } => (false, false, None),
            Work::Cut { picture: Picture::Classified, .. } => (true, false, None),
            Work::Cut { picture: Picture::Portrait(portrait), .. } => (true, portrait.restore_face, None),
            Work::Retouch(Retouch::Enlarge(factor)) => (false, false, Some(factor)),
            Work::Retouch(Retouch::Faces { enlarge, .. }) => (true, true, enlarge),
        };
        let (face, restore) = (finds.then_some(BuiltIn::Face), restores.then_some(BuiltIn::Restore));
        face.into_iter().chain(restore).chain(enlarges.map(BuiltIn::Upscale)).collect()
    }
}

/// What is done with a source.
#[derive(Clone, Debug)]
pub enum Work {
    /// Its subject is looked for.
    Cut {
        /// How.
        cut: Cut,
        /// What of the source is put into the scene then.
        picture: Picture,
    },
    /// All of it stays, larger or with better faces; nothing is cut out.
    Retouch(Retouch),
}

/// What becomes of a source of which all stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Retouch {
    /// It is enlarged.
    Enlarge(Factor),
    /// The faces in it are restored.
    Faces {
        /// How much larger it becomes before that, if at all.
        enlarge: Option<Factor>,
        /// How much of what restores them is added, 0 to 1.
        strength: f32,
    },
}

impl Retouch {
    /// How much of what restores a face is added where nothing is said.
    pub const STRENGTH: f32 = 0.8;

    /// How much larger the source becomes.
    #[must_use]
    pub const fn factor(self) -> Option<Factor> {
        match self {
            Self::Enlarge(factor) => Some(factor),
            Self::Faces { enlarge, .. } => enlarge,
        }
    }
}

/// How the subject is cut out.
#[derive(Clone, Debug)]
pub struct Cut {
    /// From mask to matte.
    pub matting: matting::Options,
    /// Whether an input that already has real transparency keeps it as its matte.
    pub keep_alpha: bool,
    /// How hard the network looks.
    pub detect: Detect,
    /// Another way to cut out than the default.
    pub engine: Option<CutEngine>,
    /// Which model does it. No field says that: it is the request's header, the account or the configuration.
    pub model: InferenceMode,
    /// Outside of it everything is background.
    pub region: Option<Region>,
}

/// What of the source is put into the scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// The subject alone.
    Cutout,
    /// The same, and whether the subject has a face.
    Classified,
    /// The source as it is; the subject only says where to look.
    Source,
    /// The subject as a portrait, where it has a face; without one the subject alone.
    Portrait(Portrait),
}

/// How a portrait differs from the scene that a subject without a face is put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portrait {
    /// Aspect of the result; without one that of an exact box, else square.
    pub aspect: Option<compose::Aspect>,
    /// Whether the face is restored.
    pub restore_face: bool,
}

impl Portrait {
    /// The scene of a sitter with this head, where one without a face would be put into `scene`: framed by the head, and
    /// without a shadow, which belongs to things that stand before a wall.
    #[must_use]
    pub fn scene(&self, scene: &compose::Scene, head: compose::Head) -> compose::Scene {
        let framing = compose::Framing::Portrait { aspect: self.aspect, head };
        compose::Scene { framing, shadow: None, ..scene.clone() }
    }
}

/// Pictures that are needed beside the source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequiredInputs {
    /// The new background.
    pub background: Option<Source>,
    /// The watermark.
    pub mark: Option<SourceUrl>,
}

/// Where a picture comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It came with the request.
    Attached,
    /// It has to be fetched.
    Url(SourceUrl),
    /// It has to be made from words. Without a file it is drawn by the built-in generator.
    Generated(PromptRequest),
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{ENDPOINTS, Factor, Fields, Recipe};
    use crate::codec::Limits;
    use crate::compose::CanvasLimit;
    use crate::image::OutputFormat;
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
