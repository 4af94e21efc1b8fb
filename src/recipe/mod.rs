//! What the caller asked for: `Fields → groups of options → Recipe`, three steps before any work.
//!
//! 1. [`Fields`]: names and values as they were sent, repeated and unknown ones refused.
//! 2. Groups, one struct for each set of fields that belong together, each field an `Option` of a type that cannot hold
//!    a bad value. Declared once with `fields!`, which also makes the table that the documentation page and the
//!    contract test read.
//! 3. [`Recipe`]: no options left, defaults filled.
//!
//! [`ENDPOINTS`] lists them; a new one is one file here and one entry there.

mod endpoint;
mod fields;
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
mod values;
mod video;

pub use endpoint::{BG_FILE, ENDPOINTS, Endpoint, Input, MAX_BATCH};
pub use fields::{FieldError, Fields};
pub use kind::{Form, Kind};
pub use params::{Field, Origin};
pub use replace_bg_ai::{BACKDROP_PATH, ModelId, Prompt, UNKNOWN_GROUNDING, WantedModel, Wish};
pub use values::{
    AlphaOnly, Blur, CutEngine, CutoutFormat, DespillFlag, DespillPercent, DespillStrength, Detect, Flag, Lift, Line,
    PresetRef, RgbaOnly, Room, Side, Unit, Value, Whole,
};
pub use video::{VIDEO_ABOUT, VIDEO_FIELDS, VIDEO_PATH, VideoFormat, VideoRecipe, webhook_url};

use crate::image::SourceUrl;
use crate::{codec, compose, matting};

/// Everything the pipeline needs to know about one job; nothing is left open.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// How the subject is cut out.
    pub cut: Cut,
    /// What of the source is put into the scene.
    pub picture: Picture,
    /// What surrounds it.
    pub scene: compose::Scene,
    /// The file that comes back.
    pub encode: codec::EncodeOptions,
    /// Pictures that are needed beside the source.
    pub wants: Wants,
}

impl Default for Recipe {
    /// What `/remove` does without fields.
    fn default() -> Self {
        remove::upload(&Fields::default()).expect("no field, no mistake")
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
}

/// What of the source is put into the scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// The subject alone.
    Cutout,
    /// The source as it is; the subject only says where to look.
    Source,
}

/// Pictures that are needed beside the source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wants {
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
    Generated(Wish),
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Fields;

    /// Fields as a caller sends them.
    pub(crate) fn fields(pairs: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in pairs {
            fields.push(name, value).expect("each once");
        }
        fields
    }
}
