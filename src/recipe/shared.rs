//! Groups of fields shared by endpoints (sizes, cutout, despill, watermark), and the parts of a recipe made from them.

use super::params::{Field, Group, fields};
use super::{
    Area, Cut, CutEngine, DespillFlag, DespillStrength, Detect, FieldError, Fields, Flag, Fraction, Guidance,
    MASK_FILE, MASK_URL, MaskMode, MaskSource, MaxDim, ModelRef, Network, Picture, Points, PresetRef, Recipe,
    RequiredInputs, Retouch, Side, Value, WatermarkText, Work,
};
use crate::codec::{Channels, EncodeOptions, PngEffort};
use crate::compose::{self, Background, Resize, Scene, Watermark};
use crate::image::color::Color;
use crate::image::{OutputFormat, Quality, SourceUrl};
use crate::matting;

fields! {
    /// Fields of every endpoint.
    struct Common {
        /// Try `high_recall` if faint parts are missing.
        detect: Detect = Some("standard");
        /// Removes background that was kept near the edge, by the picture's own colours. Helps least where subject and background are alike, as white on white, and may remove dark undersides of thick products.
        decontaminate: Flag = Some("false");
        /// `product-v1` is for flat, opaque products: it segments the subject and its edge again at a higher resolution, closes holes that do not show background, and makes the edge hard, whatever `edge` is. Slower, and unsuitable for hair, fur and glass. Without it the default pipeline runs.
        engine: CutEngine = None;
        /// The model that cuts out, by a name of `GET /models`, with or without its version. The header `x-service-model` is an alternative. Without either the account's model cuts out.
        segmentation_model: ModelRef = None;
        /// JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG.
        quality: Quality = Some("92");
        /// Effort spent on a smaller PNG; the pixels do not change: `fast`, `default`, or `best`, which takes several times the CPU time of `default`; photos get up to a tenth smaller, pictures with repeated patterns several times. Ignored by JPEG and WebP.
        compression: PngEffort = Some("default");
        /// Shrinks to this size, in pixels of the longest side. To enlarge, set `width`.
        max_dim: MaxDim = None;
        /// Exact width in pixels; alone it keeps the aspect ratio, with `height` it makes an exact box.
        width: Side = None;
        /// Exact height in pixels; alone it keeps the aspect ratio.
        height: Side = None;
        /// A saved preset, by its id or name; fields that are sent override stored ones.
        preset: PresetRef = None;
        /// Keeps the alpha of an input that already has real transparency (alpha below 128 in a 200th of its pixels) as its matte; with `false` the input is put on white and cut out anew.
        keep_alpha: Flag = Some("true");
        /// Public https address of a mask, instead of the part `mask_file`. A mask has the size of the upright picture, and is one of JPEG, PNG, WebP or HEIC.
        mask_url: SourceUrl = None;
        /// How the mask is used. `replace` (the default): used instead of the network's mask, grey from background (black) to subject (white), or its alpha channel where it has real transparency; matting refines its edge. `trimap`: black is background, white is subject, and matting solves everything between. `hint`: white strokes keep, black ones remove, and grey or transparent leaves it to the network.
        mask_mode: MaskMode = None;
        /// Box around the subject, as left, top, right and bottom in pixels or percent of the upright picture. The network segments this part alone, and everything outside is background.
        area as "box": Area = None;
        /// A pixel of the subject, as `x,y` in pixels or percent of the upright picture; may be repeated. It adds the object at that point to the subject.
        point: Points = None;
        /// A pixel of the background, written like `point`. It removes the object at that point and keeps the subject.
        not_point: Points = None;
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

pub(super) trait Marks {
    /// Strength of despill, 0 to 1.
    fn despill(&self) -> f32;
    /// The watermark, and the address of its picture.
    fn watermark(&self) -> (Option<Watermark>, Option<SourceUrl>);
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mark {
    Text(WatermarkText),
    /// A picture with this address.
    Picture(SourceUrl),
}

impl Mark {
    /// The watermark of a preset, parsed alike at every endpoint: a valid address is a picture. Text that contains
    /// `://` but is no valid address is accepted only if the endpoint's field is text (`is_text`).
    fn stored(text: &str, is_text: bool) -> Option<Self> {
        match SourceUrl::parse(text) {
            Ok(address) => Some(Self::Picture(address)),
            Err(_) if is_text || !text.contains("://") => WatermarkText::parse(text).map(Self::Text),
            Err(_) => None,
        }
    }
}

pub(super) trait OwnMarks: Group {
    /// Whether `watermark` is text instead of an address.
    const IS_TEXT: bool;
    /// Strength of despill, 0 to 1.
    fn despill(&self) -> f32;
    /// Opacity of the watermark, 0 to 1.
    fn opacity(&self) -> f32;
    fn mark(&self) -> Option<Mark>;
}

/// Fields `M` of a request, and the watermark of a preset, used if none was sent.
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
            Some(Mark::Text(WatermarkText(text))) => {
                (Some(Watermark { mark: compose::Mark::Text(text), opacity }), None)
            }
            Some(Mark::Picture(url)) => (Some(Watermark { mark: compose::Mark::Picture, opacity }), Some(url)),
            None => (None, None),
        }
    }
}

pub(super) type UploadMarks = Marked<UploadFields>;
pub(super) type UrlMarks = Marked<UrlFields>;

fields! {
    /// Watermark and despill of endpoints with uploads.
    struct UploadFields {
        /// Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100.
        despill: DespillFlag = Some("false");
        /// Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte has none.
        watermark: SourceUrl = None;
        /// Opacity of the watermark.
        watermark_opacity: Fraction = Some("1.0");
    }
}

impl OwnMarks for UploadFields {
    const IS_TEXT: bool = false;

    fn despill(&self) -> f32 {
        self.despill.map_or(0.0, |DespillFlag(strength)| strength)
    }

    fn opacity(&self) -> f32 {
        self.watermark_opacity.map_or(1.0, |Fraction(opacity)| opacity)
    }

    fn mark(&self) -> Option<Mark> {
        self.watermark.clone().map(Mark::Picture)
    }
}

fields! {
    /// Watermark and despill of endpoints with a JSON body.
    struct UrlFields {
        /// Removes green and blue spill of the old background from the edge: a strength from 0 to 100, `true` or `false`.
        despill: DespillStrength = None;
        /// Text that is drawn in the lower right corner. A matte has none. An address in a preset is the picture's, as at the other endpoints.
        watermark: WatermarkText = None;
        /// Opacity of the watermark.
        watermark_opacity: Fraction = Some("0.5");
    }
}

impl OwnMarks for UrlFields {
    const IS_TEXT: bool = true;

    fn despill(&self) -> f32 {
        self.despill.map_or(0.0, |DespillStrength(strength)| strength)
    }

    fn opacity(&self) -> f32 {
        self.watermark_opacity.map_or(0.5, |Fraction(opacity)| opacity)
    }

    fn mark(&self) -> Option<Mark> {
        self.watermark.clone().map(Mark::Text)
    }
}

pub(super) fn cut(common: &Common, marks: &impl Marks) -> Cut {
    Cut {
        matting: matting::Options {
            despill: marks.despill(),
            decontaminate: common.decontaminate.is_some_and(|Flag(yes)| yes),
            opaque: common.engine == Some(CutEngine::ProductV1),
            ..matting::Options::default()
        },
        edge_by_kind: false,
        keep_alpha: common.keep_alpha.is_none_or(|Flag(yes)| yes),
        detect: common.detect.unwrap_or_default(),
        engine: common.engine,
        named_model: common.segmentation_model.clone(),
        network: Network::default(),
        region: None,
        guidance: Box::new(Guidance {
            mask: common.mask_mode,
            area: common.area.clone(),
            subject: common.point.clone().unwrap_or_default(),
            background: common.not_point.clone().unwrap_or_default(),
        }),
    }
}

/// The recipe of a cutout composed in `scene`, with the shared fields filled in.
pub(super) fn composed(common: &Common, marks: &impl Marks, format: OutputFormat, scene: Scene) -> Recipe {
    let work = Work::Cut { cut: cut(common, marks), picture: Picture::Cutout };
    assemble(work, common, marks, format, scene)
}

/// The recipe of any work, with the shared fields that do not concern cutouts filled in.
pub(super) fn assemble(work: Work, common: &Common, marks: &impl Marks, format: OutputFormat, scene: Scene) -> Recipe {
    let (watermark, mark) = marks.watermark();
    Recipe {
        work,
        scene: Scene { resize: common.resize(), watermark, ..scene },
        encode: EncodeOptions {
            format,
            quality: common.quality.unwrap_or_default(),
            png: common.compression.unwrap_or_default(),
            channels: Channels::Rgba,
        },
        inputs: RequiredInputs { background: None, mark, mask: common.mask_url.clone().map(MaskSource::Url) },
    }
}

/// Sets the output of `recipe` to colours with alpha, or to the matte alone, which has no watermark.
pub(super) fn set_channels(recipe: &mut Recipe, channels: Channels) {
    recipe.encode.channels = channels;
    if channels == Channels::Alpha {
        recipe.scene.watermark = None;
        recipe.inputs.mark = None;
    }
}

/// The restriction of endpoints that keep the whole picture.
pub(super) const KEEPS_PICTURE: &str = "The whole picture is kept: `decontaminate`, `engine`, `segmentation_model`, \
    `detect=high_recall`, `despill` above 0, `keep_alpha=false`, masks, `box` and points, which are about cutting out, are refused.";

/// The recipe of a retouch. Cutout fields with values other than their defaults are refused.
pub(super) fn retouched(
    retouch: Retouch,
    fields: &Fields,
    common: &Common,
    marks: &UploadMarks,
    format: OutputFormat,
) -> Result<Recipe, FieldError> {
    if fields.has_file(MASK_FILE) {
        return Err(FieldError::not_taken(MASK_FILE, "this endpoint keeps the whole picture"));
    }
    let cutout_fields = [
        ("detect", common.detect == Some(Detect::HighRecall), "standard"),
        ("decontaminate", common.decontaminate == Some(Flag(true)), "false"),
        ("engine", common.engine.is_some(), "nothing"),
        ("segmentation_model", common.segmentation_model.is_some(), "nothing"),
        ("despill", marks.despill() > 0.0, "false"),
        ("keep_alpha", common.keep_alpha == Some(Flag(false)), "true"),
        (MASK_URL, common.mask_url.is_some(), "nothing"),
        ("mask_mode", common.mask_mode.is_some(), "nothing"),
        ("box", common.area.is_some(), "nothing"),
        ("point", common.point.is_some(), "nothing"),
        ("not_point", common.not_point.is_some(), "nothing"),
    ];
    if let Some((name, _, usual)) = cutout_fields.into_iter().find(|(_, is_changed, _)| *is_changed) {
        let value = fields.get(name).unwrap_or_default();
        let expected = format!("{usual}, because this endpoint keeps the whole picture");
        return Err(FieldError::invalid(name, value, expected));
    }
    // The free area of an exact size is transparent, or white in a format without alpha.
    let background = if format == OutputFormat::Jpeg { Background::Color(Color::WHITE) } else { Background::Clear };
    Ok(assemble(Work::Retouch(retouch), common, marks, format, Scene { background, ..Scene::default() }))
}

/// `color` over white, mixed in encoded values.
pub(super) fn on_white(Color([red, green, blue, alpha]): Color) -> Color {
    let mixed = |value: u8| {
        let (value, alpha) = (u32::from(value), u32::from(alpha));
        u8::try_from((value * alpha + 255 * (255 - alpha) + 127) / 255).unwrap_or(u8::MAX)
    };
    Color([mixed(red), mixed(green), mixed(blue), 255])
}

/// The refusal of a format without alpha for a result with transparency.
pub(super) fn needs_alpha(format: &str, why: &str) -> FieldError {
    FieldError::invalid("format", format, format!("png or webp, because {why}"))
}
