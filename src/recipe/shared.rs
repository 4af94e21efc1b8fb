//! Groups of fields that several endpoints take.

use super::params::{Field, Group, fields};
use super::{
    Cut, CutEngine, DespillFlag, DespillStrength, Detect, FieldError, Fields, Flag, InferenceMode, Line, MaxDim,
    Picture, PresetRef, Recipe, RequiredInputs, Retouch, Side, Unit, Value, Work,
};
use crate::codec::{Channels, EncodeOptions, PngEffort};
use crate::compose::{self, Resize, Scene, Watermark};
use crate::image::{OutputFormat, Quality, SourceUrl};
use crate::matting;

fields! {
    /// What every endpoint takes.
    struct Common {
        /// `standard`, or `high_recall`, which also looks at a copy with more contrast and only adds to the mask.
        detect: Detect = Some("standard");
        /// Removes background that was kept near the edge, by the picture's own colours; helps least where they are alike, as white on white, and may take dark undersides of thick products with it.
        decontaminate: Flag = Some("false");
        /// `product-v1` is for flat, opaque products: looks again at the subject and along its edge, closes holes that do not show background, and cuts hard, whatever `edge` says. Cuts hard through hair, fur and glass; slower. Without it the default.
        engine: CutEngine = None;
        /// JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG.
        quality: Quality = Some("92");
        /// Longest side of the result in pixels; never enlarges, so a larger number than the largest means that.
        max_dim: MaxDim = None;
        /// Exact width in pixels; alone it keeps the aspect, with `height` it makes an exact box.
        width: Side = None;
        /// Exact height in pixels; alone it keeps the aspect.
        height: Side = None;
        /// A saved preset, by its id or name; fields that are sent win over stored ones.
        preset: PresetRef = None;
        /// An input that already has real transparency keeps it as its matte; with `false` it is cut out anew, as it looks on white.
        keep_alpha: Flag = Some("true");
    }
}

impl Common {
    pub(super) fn resize(&self) -> Resize {
        Resize {
            width: self.width.map(Side::get),
            height: self.height.map(Side::get),
            max_dim: self.max_dim.map(MaxDim::get),
        }
    }
}

/// Marks and despill, in the forms that an endpoint takes them in.
pub(super) trait Marks {
    /// Strength of despill, 0 to 1.
    fn despill(&self) -> f32;
    /// The watermark, and where its picture comes from.
    fn watermark(&self) -> (Option<Watermark>, Option<SourceUrl>);
}

/// What a watermark is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mark {
    /// Written.
    Text(Line),
    /// A picture with this address.
    Picture(SourceUrl),
}

impl Mark {
    /// The watermark of a preset, which is the same at every endpoint: an address stands for its picture. What resembles an
    /// address and is none is text only where `is_text` says that the field itself is.
    fn stored(text: &str, is_text: bool) -> Option<Self> {
        match SourceUrl::parse(text) {
            Ok(address) => Some(Self::Picture(address)),
            Err(_) if is_text || !text.contains("://") => Line::parse(text).map(Self::Text),
            Err(_) => None,
        }
    }
}

/// Marks and despill as a request's own fields have them.
pub(super) trait OwnMarks: Group {
    /// Whether `watermark` is text, and not an address.
    const IS_TEXT: bool;
    /// Strength of despill, 0 to 1.
    fn despill(&self) -> f32;
    /// How much of the watermark shows, 0 to 1.
    fn opacity(&self) -> f32;
    /// The watermark.
    fn mark(&self) -> Option<Mark>;
}

/// `M`, and the watermark of a preset beside it.
#[derive(Clone, Debug, Default)]
pub(super) struct Marked<M> {
    own: M,
    stored: Option<Mark>,
}

impl<M: OwnMarks> Group for Marked<M> {
    fn table() -> Vec<Field> {
        M::table()
    }

    fn set(&mut self, name: &str, text: &str) -> Option<Result<(), FieldError>> {
        self.own.set(name, text)
    }

    fn set_stored(&mut self, name: &str, text: &str) -> Option<Result<(), FieldError>> {
        if name != "watermark" {
            return self.own.set_stored(name, text);
        }
        self.stored = Mark::stored(text, M::IS_TEXT);
        let refuse = || FieldError::invalid(name, text, "a public https URL, or text of 1 to 200 characters");
        Some(self.stored.is_some().then_some(()).ok_or_else(refuse))
    }
}

impl<M: OwnMarks> Marks for Marked<M> {
    fn despill(&self) -> f32 {
        self.own.despill()
    }

    fn watermark(&self) -> (Option<Watermark>, Option<SourceUrl>) {
        let opacity = self.own.opacity();
        match self.stored.clone().or_else(|| self.own.mark()) {
            Some(Mark::Text(Line(text))) => (Some(Watermark { mark: compose::Mark::Text(text), opacity }), None),
            Some(Mark::Picture(url)) => (Some(Watermark { mark: compose::Mark::Picture, opacity }), Some(url)),
            None => (None, None),
        }
    }
}

/// As endpoints with uploads take them.
pub(super) type UploadMarks = Marked<UploadFields>;
/// As endpoints with a JSON body take them.
pub(super) type UrlMarks = Marked<UrlFields>;

fields! {
    /// As endpoints with uploads take them.
    struct UploadFields {
        /// Takes green and blue light of the old background off the edge: `true`, `false`, or a strength from 0 to 100.
        despill: DespillFlag = Some("false");
        /// Address of a picture (PNG with alpha) that is put in the lower right corner, a fifth of the width wide.
        watermark: SourceUrl = None;
        /// How much of the watermark shows.
        watermark_opacity: Unit = Some("1.0");
    }
}

impl OwnMarks for UploadFields {
    const IS_TEXT: bool = false;

    fn despill(&self) -> f32 {
        self.despill.map_or(0.0, |DespillFlag(strength)| strength)
    }

    fn opacity(&self) -> f32 {
        self.watermark_opacity.map_or(1.0, |Unit(opacity)| opacity)
    }

    fn mark(&self) -> Option<Mark> {
        self.watermark.clone().map(Mark::Picture)
    }
}

fields! {
    /// As endpoints with a JSON body take them.
    struct UrlFields {
        /// Takes green and blue light of the old background off the edge: a strength from 0 to 100, `true` or `false`.
        despill: DespillStrength = None;
        /// Text that is written into the lower right corner. An address in a preset stands for its picture, as at the other endpoints.
        watermark: Line = None;
        /// How much of the watermark shows.
        watermark_opacity: Unit = Some("0.5");
    }
}

impl OwnMarks for UrlFields {
    const IS_TEXT: bool = true;

    fn despill(&self) -> f32 {
        self.despill.map_or(0.0, |DespillStrength(strength)| strength)
    }

    fn opacity(&self) -> f32 {
        self.watermark_opacity.map_or(0.5, |Unit(opacity)| opacity)
    }

    fn mark(&self) -> Option<Mark> {
        self.watermark.clone().map(Mark::Text)
    }
}

/// How the shared fields have the subject cut out.
pub(super) fn cut(common: &Common, marks: &impl Marks) -> Cut {
    Cut {
        matting: matting::Options {
            despill: marks.despill(),
            decontaminate: common.decontaminate.is_some_and(|Flag(yes)| yes),
            opaque: common.engine == Some(CutEngine::ProductV1),
            ..matting::Options::default()
        },
        keep_alpha: common.keep_alpha.is_none_or(|Flag(yes)| yes),
        detect: common.detect.unwrap_or_default(),
        engine: common.engine,
        model: InferenceMode::default(),
        region: None,
    }
}

/// The recipe of a composition: everything shared filled in, and `scene` around the cutout.
pub(super) fn composed(common: &Common, marks: &impl Marks, format: OutputFormat, scene: Scene) -> Recipe {
    let work = Work::Cut { cut: cut(common, marks), picture: Picture::Cutout };
    finished(work, common, marks, format, scene)
}

/// The recipe of any work: everything shared filled in that is not about cutting out.
pub(super) fn finished(work: Work, common: &Common, marks: &impl Marks, format: OutputFormat, scene: Scene) -> Recipe {
    let (watermark, mark) = marks.watermark();
    Recipe {
        work,
        scene: Scene { resize: common.resize(), watermark, ..scene },
        encode: EncodeOptions {
            format,
            quality: common.quality.unwrap_or_default(),
            png: PngEffort::default(),
            channels: Channels::Rgba,
        },
        inputs: RequiredInputs { background: None, mark },
    }
}

/// What endpoints refuse that keep the whole picture.
pub(super) const KEEPS_PICTURE: &str = "The whole picture is kept: `decontaminate`, `engine`, `detect=high_recall`, \
    `despill` above 0 and `keep_alpha=false`, which are about cutting out, are refused.";

/// The recipe of a picture of which all stays. Fields about cutting out are refused where they ask for something.
pub(super) fn retouched(
    retouch: Retouch,
    fields: &Fields,
    common: &Common,
    marks: &UploadMarks,
    format: OutputFormat,
) -> Result<Recipe, FieldError> {
    let asked = [
        ("detect", common.detect == Some(Detect::HighRecall), "standard"),
        ("decontaminate", common.decontaminate == Some(Flag(true)), "false"),
        ("engine", common.engine.is_some(), "nothing"),
        ("despill", marks.despill() > 0.0, "false"),
        ("keep_alpha", common.keep_alpha == Some(Flag(false)), "true"),
    ];
    if let Some((name, _, usual)) = asked.into_iter().find(|(_, is_asked, _)| *is_asked) {
        let value = fields.get(name).unwrap_or_default();
        let expected = format!("{usual}, because this endpoint keeps the whole picture");
        return Err(FieldError::invalid(name, value, expected));
    }
    Ok(finished(Work::Retouch(retouch), common, marks, format, Scene::default()))
}

/// The refusal of an opaque format for a result that lets something through.
pub(super) fn needs_alpha(format: &str, why: &str) -> FieldError {
    FieldError::invalid("format", format, format!("png or webp, because {why}"))
}
