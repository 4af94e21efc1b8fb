//! The types that a field's text becomes. Parsing is where the 400 comes from.

use super::{Form, Kind, VideoFormat};
use crate::codec::Channels;
use crate::compose::{self, Anchor, Aspect, Fit, Padding};
use crate::image::color::Color;
use crate::image::{OutputFormat, Quality, SourceUrl};
use crate::matting::{Edge, Method};
use crate::model::Factor;

/// A type that one field's text is parsed into.
pub trait Value: Sized {
    /// What the field takes.
    const KIND: Kind;
    /// Added to the message of a refused value; begins with a comma.
    const REASON: &'static str = "";
    /// Whether an endpoint that has the field cannot do without it.
    const REQUIRED: bool = false;

    /// The value of `text`, when that is one.
    fn parse(text: &str) -> Option<Self>;
}

/// Writes the words of an enum once, for both the parser and the table. Case does not matter; what follows a `|` is
/// accepted too and not listed.
macro_rules! choice {
    ($type:ty { $($word:literal $(| $synonym:literal)* => $value:expr),+ $(,)? } $($reason:literal)?) => {
        impl Value for $type {
            const KIND: Kind = Kind::Choice(&[$($word),+]);
            $(const REASON: &'static str = $reason;)?

            fn parse(text: &str) -> Option<Self> {
                match text.to_ascii_lowercase().as_str() {
                    $($word $(| $synonym)* => Some($value),)+
                    _ => None,
                }
            }
        }
    };
}

choice!(Method { "closed-form" => Self::ClosedForm, "none" => Self::None });
choice!(Edge { "soft" => Self::Soft, "hard" => Self::Hard });
choice!(Channels { "rgba" => Self::Rgba, "alpha" => Self::Alpha });
choice!(Anchor { "center" => Self::Center, "auto" => Self::Auto });
choice!(Fit { "cover" => Self::Cover, "contain" => Self::Contain, "stretch" => Self::Stretch });

/// How hard the network looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detect {
    /// Once.
    #[default]
    Standard,
    /// Also at a copy with more contrast; only adds.
    HighRecall,
}

choice!(Detect { "standard" => Self::Standard, "high_recall" => Self::HighRecall });

/// Another way to cut out than the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutEngine {
    /// For flat, opaque product photos.
    ProductV1,
}

choice!(CutEngine { "product-v1" => Self::ProductV1 });

/// Which model cuts out. Both are the same weights.
///
/// Accounts are stored with one: a new one goes to the end, and none is renamed or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InferenceMode {
    /// Looks at the whole picture.
    #[default]
    Standard,
    /// Looks again, closer, at the subject's box: finer edges and fewer mistakes, for twice the network's time. Where that would
    /// show no more than the first look, which is in small pictures and where the subject fills the frame, it is the same.
    Quality,
}

impl InferenceMode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Standard, Self::Quality];

    /// What it is called in the configuration and by operators.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Quality => "quality",
        }
    }

    /// What it is called in `x-service-model` where `weights`, a name or `NAME/VERSION`, are in use.
    #[must_use]
    pub fn of(self, weights: &str) -> String {
        match (self, weights.rsplit_once('/')) {
            (Self::Standard, _) => weights.to_owned(),
            (Self::Quality, Some((name, version))) => format!("{name}-quality/{version}"),
            (Self::Quality, None) => format!("{weights}-quality"),
        }
    }
}

/// The format of a cutout: one that has alpha.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutoutFormat(pub OutputFormat);

choice!(CutoutFormat {
    "png" => Self(OutputFormat::Png),
    "webp" => Self(OutputFormat::WebP),
} ", because the result needs alpha");

impl Default for CutoutFormat {
    fn default() -> Self {
        Self(OutputFormat::Png)
    }
}

/// The format of a crop, which may be one of a cutout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CropFormat(pub OutputFormat);

choice!(CropFormat {
    "png" => Self(OutputFormat::Png),
    "webp" => Self(OutputFormat::WebP),
} ", because the crop of a cutout keeps its transparency");

choice!(VideoFormat {
    "webm" => Self::Webm,
    "mov" => Self::Mov,
    "mp4" => Self::Mp4,
    "png_sequence" => Self::PngSequence,
    "gif" => Self::Gif,
    "webp" => Self::Webp,
});

choice!(OutputFormat { "png" => Self::Png, "webp" => Self::WebP, "jpg" | "jpeg" => Self::Jpeg });

/// The channels of `/mask`, which answers nothing but the matte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlphaOnly;

choice!(AlphaOnly { "alpha" => Self } ", because this endpoint answers the matte alone");

/// The channels of a composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RgbaOnly;

choice!(RgbaOnly { "rgba" => Self } ", because this endpoint answers a composition; /mask answers the matte");

/// Characters of a number at most.
const MAX_NUMBER: usize = 32;

/// A decimal number, with or without sign, fraction and exponent. Words (`inf`, `NaN`), other bases and decimal commas
/// are none.
fn decimal(text: &str) -> Option<f64> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let value: f64 = (text.len() <= MAX_NUMBER && text.bytes().all(is_plain)).then(|| text.parse().ok())??;
    // The sum turns -0 into 0.
    value.is_finite().then_some(value + 0.0)
}

/// A number without fraction, however it is written: `92`, `92.0`, `9.2e1`.
fn integer(text: &str) -> Option<f64> {
    decimal(text).filter(|value| value.fract() == 0.0)
}

/// The same within 32 bits, without sign.
fn whole(text: &str) -> Option<u32> {
    integer(text).filter(|value| (0.0..=f64::from(u32::MAX)).contains(value)).map(|value| value as u32)
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const MIN: u32, const MAX: u32>(u32);

impl<const MIN: u32, const MAX: u32> Whole<MIN, MAX> {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl<const MIN: u32, const MAX: u32> Value for Whole<MIN, MAX> {
    const KIND: Kind = Kind::Integer { min: MIN, max: MAX };

    fn parse(text: &str) -> Option<Self> {
        whole(text).filter(|value| (MIN..=MAX).contains(value)).map(Self)
    }
}

/// How many times as wide and as high an enlarged picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(pub Factor);

impl Value for Scale {
    const KIND: Kind = Kind::Among(&[2, 4]);

    fn parse(text: &str) -> Option<Self> {
        match whole(text) {
            Some(2) => Some(Self(Factor::Two)),
            Some(4) => Some(Self(Factor::Four)),
            _ => None,
        }
    }
}

/// The same, or 1 for a picture that keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleOrNone(pub Option<Factor>);

impl Value for ScaleOrNone {
    const KIND: Kind = Kind::Among(&[1, 2, 4]);

    fn parse(text: &str) -> Option<Self> {
        if whole(text) == Some(1) { Some(Self(None)) } else { Scale::parse(text).map(|Scale(by)| Self(Some(by))) }
    }
}

/// A side of the output in pixels.
pub type Side = Whole<1, { compose::MAX_SIDE }>;

/// The longest side of the output in pixels. It only ever makes a picture smaller, so a value above the largest side of any
/// output is taken as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxDim(u32);

impl MaxDim {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Value for MaxDim {
    const KIND: Kind = Side::KIND;

    fn parse(text: &str) -> Option<Self> {
        let pixels = integer(text).filter(|value| *value >= 1.0)?;
        Some(Self(pixels.min(f64::from(compose::MAX_SIDE)) as u32))
    }
}

impl Value for Quality {
    const KIND: Kind = Kind::Integer { min: 1, max: 100 };

    fn parse(text: &str) -> Option<Self> {
        whole(text).and_then(|value| u8::try_from(value).ok()).and_then(Self::new)
    }
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit(pub f32);

impl Value for Unit {
    const KIND: Kind = Kind::Number { min: 0.0, max: 1.0 };

    fn parse(text: &str) -> Option<Self> {
        decimal(text).filter(|value| (0.0..=1.0).contains(value)).map(|value| Self(value as f32))
    }
}

/// How much is lifted: a number from 0 to 0.5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lift(pub f32);

impl Value for Lift {
    const KIND: Kind = Kind::Number { min: 0.0, max: 0.5 };

    fn parse(text: &str) -> Option<Self> {
        decimal(text).filter(|value| (0.0..=0.5).contains(value)).map(|value| Self(value as f32))
    }
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag(pub bool);

impl Value for Flag {
    const KIND: Kind = Kind::Boolean;

    fn parse(text: &str) -> Option<Self> {
        let digit = || match whole(text) {
            Some(1) => Some(true),
            Some(0) => Some(false),
            _ => None,
        };
        word(text).or_else(digit).map(Self)
    }
}

/// Yes or no as a word, in any case.
fn word(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

const STRENGTH: &[Kind] = &[Kind::Boolean, Kind::Number { min: 0.0, max: 100.0 }];

fn strength(text: &str) -> Option<f32> {
    decimal(text).filter(|value| (0.0..=100.0).contains(value)).map(|value| value as f32 / 100.0)
}

/// How much colour spill is taken off, 0 to 1, where the interface has a boolean: `1` is `true`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DespillFlag(pub f32);

impl Value for DespillFlag {
    const KIND: Kind = Kind::AnyOf(STRENGTH);

    fn parse(text: &str) -> Option<Self> {
        let flag = Flag::parse(text).map(|Flag(yes)| f32::from(u8::from(yes)));
        flag.or_else(|| strength(text)).map(Self)
    }
}

/// The same where the interface has a number from 0 to 100: `1` is one hundredth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DespillStrength(pub f32);

impl Value for DespillStrength {
    const KIND: Kind = Kind::AnyOf(STRENGTH);

    fn parse(text: &str) -> Option<Self> {
        let word = word(text).map(|yes| f32::from(u8::from(yes)));
        word.or_else(|| strength(text)).map(Self)
    }
}

/// The same where the interface has a whole number from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DespillPercent(u8);

impl DespillPercent {
    /// 0 to 1.
    #[must_use]
    pub fn strength(self) -> f32 {
        f32::from(self.0) / 100.0
    }
}

impl Value for DespillPercent {
    const KIND: Kind = Kind::AnyOf(&[Kind::Boolean, Kind::Integer { min: 0, max: 100 }]);

    fn parse(text: &str) -> Option<Self> {
        let word = word(text).map(|yes| if yes { 100 } else { 0 });
        let percent = || Whole::<0, 100>::parse(text).and_then(|percent| u8::try_from(percent.get()).ok());
        word.or_else(percent).map(Self)
    }
}

/// How much the background is blurred; nothing for not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blur(pub Option<u8>);

impl Blur {
    /// What `true` means.
    const USUAL: u8 = 50;
}

impl Value for Blur {
    const KIND: Kind = Kind::AnyOf(&[Kind::Boolean, Kind::Integer { min: 2, max: 100 }]);

    fn parse(text: &str) -> Option<Self> {
        let flag = Flag::parse(text).map(|Flag(yes)| Self(yes.then_some(Self::USUAL)));
        flag.or_else(|| Whole::<2, 100>::parse(text).map(|intensity| Self(u8::try_from(intensity.get()).ok())))
    }
}

impl Value for Color {
    const KIND: Kind = Kind::Text(Form {
        expected: "a colour such as #FFFFFF, #FFF, #FFFFFF80, rgb(255, 255, 255), white or transparent",
        pattern: None,
        max_length: 64,
        examples: &["#FFFFFF", "#fff", "#FFFFFF80", "rgb(255, 255, 255)", "white", "transparent"],
    });

    fn parse(text: &str) -> Option<Self> {
        // The parser also takes hexadecimal digits without the #, which a wrong field might hold by chance.
        let named = text.starts_with('#') || text.starts_with(|first: char| first.is_ascii_alphabetic());
        let digits_only = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if text.len() > 64 || !text.is_ascii() || !named || digits_only {
            return None;
        }
        csscolorparser::parse(text).ok().map(|color| Self(color.to_rgba8()))
    }
}

/// The most that either number of an aspect may be.
const MAX_ASPECT: f64 = 10_000.0;

impl Value for Aspect {
    const KIND: Kind = Kind::Text(Form {
        expected: "an aspect ratio such as 1:1, 4:5 or 16:9",
        pattern: Some(r"^[0-9]{1,5}(\.[0-9]{1,3})?:[0-9]{1,5}(\.[0-9]{1,3})?$"),
        max_length: 19,
        examples: &["1:1", "4:5", "16:9", "1.91:1"],
    });

    fn parse(text: &str) -> Option<Self> {
        let (width, height) = text.split_once(':')?;
        let thousandths = |part: &str| {
            let value = decimal(part.trim()).filter(|value| *value > 0.0 && *value <= MAX_ASPECT)? * 1000.0;
            // Three places behind the point; decimal fractions are not exact.
            ((value - value.round()).abs() < 1e-6).then_some(value.round() as u32)
        };
        Self::new(thousandths(width)?, thousandths(height)?)
    }
}

impl Value for Padding {
    const KIND: Kind = Kind::AnyOf(&[
        Kind::Integer { min: 0, max: MAX_PADDING },
        Kind::Text(Form {
            expected: "pixels such as 48px, or a share of the canvas under 50% such as 10%",
            pattern: Some(r"^([0-9]{1,4}(px)?|[0-4]?[0-9](\.[0-9]{1,3})?%)$"),
            max_length: 8,
            examples: &["48", "48px", "10%", "0", "12.5%"],
        }),
    ]);

    fn parse(text: &str) -> Option<Self> {
        if let Some(share) = text.strip_suffix('%') {
            let share = decimal(share.trim_end()).filter(|share| (0.0..50.0).contains(share))?;
            return Some(Self::Share(share as f32 / 100.0));
        }
        let text = text.to_ascii_lowercase();
        let pixels = whole(text.strip_suffix("px").unwrap_or(&text).trim_end())?;
        (pixels <= MAX_PADDING).then_some(Self::Pixels(pixels))
    }
}

/// Padding in pixels, at most so much.
pub(super) const MAX_PADDING: u32 = 4096;

/// Room in pixels.
pub type Room = Whole<0, MAX_PADDING>;

impl Value for SourceUrl {
    const KIND: Kind = Kind::Text(Form {
        expected: "a public https URL",
        pattern: Some("^[hH][tT][tT][pP][sS]://"),
        max_length: 2048,
        examples: &["https://example.org/photo.jpg"],
    });

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text).ok()
    }
}

/// The text of a watermark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line(pub String);

impl Value for Line {
    const KIND: Kind = Kind::Text(Form {
        expected: "text of 1 to 200 characters",
        pattern: Some(r"\S"),
        max_length: 200,
        examples: &["© Backdrop", "مرحبا"],
    });

    fn parse(text: &str) -> Option<Self> {
        ((1..=200).contains(&text.chars().count()) && !text.trim().is_empty()).then(|| Self(text.to_owned()))
    }
}

/// The id or name of a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetRef(pub String);

impl Value for PresetRef {
    const KIND: Kind = Kind::Text(Form {
        expected: "a preset, 1 to 100 characters",
        pattern: Some(r"\S"),
        max_length: 100,
        examples: &["preset_1"],
    });

    fn parse(text: &str) -> Option<Self> {
        ((1..=100).contains(&text.chars().count()) && !text.trim().is_empty()).then(|| Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_integer_field_takes_both_ends_and_nothing_beyond() {
        for (text, expected) in [("0", None), ("1", Some(1)), ("100", Some(100)), ("101", None)] {
            assert_eq!(Quality::parse(text).map(Quality::get), expected, "quality {text:?}");
        }
        for (text, expected) in [("0", None), ("1", Some(1)), ("8192", Some(8192)), ("8193", None)] {
            assert_eq!(Side::parse(text).map(Side::get), expected, "side {text:?}");
        }
    }

    #[test]
    fn a_model_is_named_after_the_weights() {
        for (weights, quality) in [("fgnet-384/5", "fgnet-384-quality/5"), ("mine", "mine-quality")] {
            assert_eq!(InferenceMode::Standard.of(weights), weights);
            assert_eq!(InferenceMode::Quality.of(weights), quality);
        }
    }

    #[test]
    fn a_scale_is_one_of_its_numbers() {
        let by = |text| (Scale::parse(text).map(|Scale(by)| by.get()), ScaleOrNone::parse(text).map(|scale| scale.0));
        assert_eq!(by("1"), (None, Some(None)));
        assert_eq!(by("2"), (Some(2), Some(Some(Factor::Two))));
        assert_eq!(by("4"), (Some(4), Some(Some(Factor::Four))));
        assert_eq!(by("+4.0"), by("4"));
        for text in ["", "0", "3", "8", "2.5", "-2", "two", "4294967298"] {
            assert_eq!(by(text), (None, None), "{text:?}");
        }
    }

    #[test]
    fn an_integer_is_taken_however_it_is_written() {
        for text in ["92", "+92", "92.0", "92.", "092", "9.2e1", "920E-1"] {
            assert_eq!(Quality::parse(text).map(Quality::get), Some(92), "quality {text:?}");
        }
    }

    #[test]
    fn an_integer_field_refuses_fractions_and_what_is_no_decimal_number() {
        for text in [
            "",
            " ",
            "-1",
            "5.5",
            "1e-2",
            "1e3",
            "0x10",
            "1_0",
            "1,0",
            "五",
            "99999999999999999999",
            "257",
            "true",
            "NaN",
            "inf",
            "-inf",
            "infinity",
            "1e999",
            "+",
            "-",
            ".",
            "e",
            "1e",
            "+-1",
            "5 5",
        ] {
            assert_eq!(Quality::parse(text), None, "quality {text:?}");
        }
        assert_eq!(Side::parse("4294967297"), None, "wrapped around");
        assert_eq!(Quality::parse(&format!("{}5", "0".repeat(MAX_NUMBER))), None, "too long");
    }

    #[test]
    fn a_largest_side_beyond_the_limit_is_the_limit() {
        for (text, expected) in [
            ("1", Some(1)),
            ("8192", Some(8192)),
            ("8193", Some(8192)),
            ("1e6", Some(8192)),
            ("99999999999999999999", Some(8192)),
            ("0", None),
            ("-5", None),
            ("0.5", None),
            ("inf", None),
            ("1e999", None),
            ("large", None),
        ] {
            assert_eq!(MaxDim::parse(text).map(MaxDim::get), expected, "{text:?}");
        }
    }

    #[test]
    fn a_boolean_is_a_word_in_any_case_or_a_digit() {
        for (texts, expected) in [
            (["true", "True", "TRUE", "yes", "Yes", "on", "ON", "1", "1.0"], true),
            (["false", "False", "FALSE", "no", "NO", "off", "Off", "0", "0.0"], false),
        ] {
            for text in texts {
                assert_eq!(Flag::parse(text), Some(Flag(expected)), "{text:?}");
            }
        }
        for text in ["", "2", "-1", "0.5", "y", "t", "none", "truee", "null", "checked"] {
            assert_eq!(Flag::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_enum_is_taken_in_any_case_and_jpeg_is_jpg() {
        for text in ["jpg", "JPG", "jpeg", "JPEG", "Jpeg"] {
            assert_eq!(OutputFormat::parse(text), Some(OutputFormat::Jpeg), "{text}");
        }
        assert_eq!(
            [OutputFormat::parse("PNG"), OutputFormat::parse("WebP")],
            [OutputFormat::Png, OutputFormat::WebP].map(Some)
        );
        assert_eq!(CutoutFormat::parse("WEBP"), Some(CutoutFormat(OutputFormat::WebP)));
        assert_eq!(Detect::parse("High_Recall"), Some(Detect::HighRecall));
        assert_eq!(CutEngine::parse("PRODUCT-V1"), Some(CutEngine::ProductV1));
        for text in ["", "gif", "jpe", "image/png", "png "] {
            assert_eq!(OutputFormat::parse(text), None, "{text:?}");
        }
        assert_eq!([CutoutFormat::parse("jpeg"), CutoutFormat::parse("JPG")], [None; 2]);
    }

    #[test]
    fn a_number_takes_both_ends_and_every_decimal_notation() {
        for (text, expected) in [
            ("0", 0.0),
            ("1", 1.0),
            ("0.4", 0.4),
            ("1.0", 1.0),
            ("00.50", 0.5),
            (".5", 0.5),
            ("1.", 1.0),
            ("+0.5", 0.5),
            ("5e-1", 0.5),
            ("5E-1", 0.5),
            ("-0", 0.0),
        ] {
            assert_eq!(Unit::parse(text), Some(Unit(expected)), "{text}");
        }
        assert_eq!(Unit::parse("-0").map(|Unit(zero)| zero.is_sign_negative()), Some(false));
        for text in ["", ".", "1.01", "-0.1", "NaN", "nan", "inf", "1e999", "0,5", "true", "50%", "1/2"] {
            assert_eq!(Unit::parse(text), None, "{text:?}");
        }
        assert_eq!([Lift::parse("0.5"), Lift::parse("0.51")], [Some(Lift(0.5)), None]);
    }

    #[test]
    fn despill_takes_both_forms_and_one_means_what_its_endpoint_says() {
        let flag = |text| DespillFlag::parse(text).map(|DespillFlag(strength)| strength);
        let number = |text| DespillStrength::parse(text).map(|DespillStrength(strength)| strength);
        assert_eq!(["true", "1", "50", "0", "false"].map(flag), [1.0, 1.0, 0.5, 0.0, 0.0].map(Some));
        assert_eq!(["true", "1", "50", "0", "false"].map(number), [1.0, 0.01, 0.5, 0.0, 0.0].map(Some));
        assert_eq!(["YES", "1.0", "Off"].map(flag), [1.0, 1.0, 0.0].map(Some));
        assert_eq!(["YES", "1.0", "Off"].map(number), [1.0, 0.01, 0.0].map(Some));
        let percent = |text| DespillPercent::parse(text).map(DespillPercent::strength);
        assert_eq!(["on", "50.0", "No", "1"].map(percent), [1.0, 0.5, 0.0, 0.01].map(Some));
        for text in ["", "101", "-1", "y", "100.1", "NaN"] {
            assert_eq!((flag(text), number(text), percent(text)), (None, None, None), "{text:?}");
        }
    }

    #[test]
    fn a_blur_of_one_is_the_word_true() {
        assert_eq!(Blur::parse("1"), Blur::parse("true"));
        assert_eq!([Blur::parse("2"), Blur::parse("100")], [Some(Blur(Some(2))), Some(Blur(Some(100)))]);
        assert_eq!([Blur::parse("0"), Blur::parse("false")], [Some(Blur(None)); 2]);
        assert_eq!([Blur::parse("ON"), Blur::parse("no")], [Blur::parse("1"), Blur::parse("0")]);
        assert_eq!([Blur::parse("101"), Blur::parse("2.5"), Blur::parse("")], [None; 3]);
    }

    #[test]
    fn colours_are_read_as_css_writes_them() {
        for (text, expected) in [
            ("#F00", [255, 0, 0, 255]),
            ("#00ff0080", [0, 255, 0, 128]),
            ("#F4F4F5", [0xF4, 0xF4, 0xF5, 255]),
            ("rgb(1, 2, 3)", [1, 2, 3, 255]),
            ("Red", [255, 0, 0, 255]),
            ("rebeccapurple", [0x66, 0x33, 0x99, 255]),
            ("transparent", [0, 0, 0, 0]),
        ] {
            assert_eq!(<Color as Value>::parse(text), Some(Color(expected)), "{text}");
        }
        for text in ["", "#", "#12", "#ggg", "123", "fff", "123456", "redd", "rgb(1,2)", "url(x)", "rôuge", " "] {
            assert_eq!(<Color as Value>::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn aspects_are_two_numbers_with_a_colon() {
        let ratio = |text| <Aspect as Value>::parse(text).map(|a| f64::from(a.width()) / f64::from(a.height()));
        assert_eq!([ratio("1:1"), ratio("4:5"), ratio("16:9")], [1.0, 0.8, 16.0 / 9.0].map(Some));
        assert_eq!([ratio("1.91:1"), ratio("1.910 : +1.0"), ratio("16 :9")], [1.91, 1.91, 16.0 / 9.0].map(Some));
        for text in ["", "1", ":", "1:", ":1", "0:1", "1:0", "-1:1", "1:1:1", "a:b", "1/1", "1.2345:1", "10001:1"] {
            assert_eq!(ratio(text), None, "{text:?}");
        }
    }

    #[test]
    fn padding_is_pixels_or_a_share() {
        let padding = <Padding as Value>::parse;
        assert_eq!([padding("48"), padding("48px")], [Some(Padding::Pixels(48)); 2]);
        assert_eq!([padding("10%"), padding("0%")], [Some(Padding::Share(0.1)), Some(Padding::Share(0.0))]);
        assert_eq!([padding("48.0"), padding("48 PX")], [Some(Padding::Pixels(48)); 2]);
        assert_eq!([padding("10 %"), padding("1e1%")], [Some(Padding::Share(0.1)); 2]);
        for text in ["", "%", "px", "50%", "-1", "-1%", "NaN%", "1.5", "1.5px", "4097", "ten"] {
            assert_eq!(padding(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,80}", css in "(rgb|hsl|lab|oklch|color|hwb|#)?[(a-z0-9%.,/ +*()-]{0,40}") {
            for text in [text, css] {
                let _ = <Color as Value>::parse(&text);
                let _ = <Aspect as Value>::parse(&text);
                let _ = <Padding as Value>::parse(&text);
                let _ = <SourceUrl as Value>::parse(&text);
                let _ = Blur::parse(&text);
                let _ = DespillFlag::parse(&text);
            }
        }
    }
}
