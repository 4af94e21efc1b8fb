//! Fields whose value is a number, a flag or either: sizes, quality, opacity, despill, blur.

use super::value::Value;
use crate::compose;
use crate::image::Quality;
use crate::model::Factor;
use crate::recipe::kind::Kind;

/// Maximum length of a number in characters.
const MAX_NUMBER: usize = 32;

/// A decimal number, with or without sign, fraction and exponent. No words (`inf`, `NaN`), other bases, decimal commas.
pub(in crate::recipe) fn decimal(text: &str) -> Option<f64> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let value: f64 = (text.len() <= MAX_NUMBER && text.bytes().all(is_plain)).then(|| text.parse().ok())??;
    // The sum turns -0 into 0.
    value.is_finite().then_some(value + 0.0)
}

/// A number without fraction, in any notation: `92`, `92.0`, `9.2e1`.
fn integer(text: &str) -> Option<f64> {
    decimal(text).filter(|value| value.fract() == 0.0)
}

/// A whole number of 32 bits without sign.
pub(super) fn whole(text: &str) -> Option<u32> {
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

/// The factor of `/upscale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(pub Factor);

impl Value for Scale {
    const KIND: Kind = Kind::IntegerChoice(&[2, 4]);

    fn parse(text: &str) -> Option<Self> {
        match whole(text) {
            Some(2) => Some(Self(Factor::Two)),
            Some(4) => Some(Self(Factor::Four)),
            _ => None,
        }
    }
}

/// The factor of `/face-restore`; `None` (value 1) keeps the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleOrNone(pub Option<Factor>);

impl Value for ScaleOrNone {
    const KIND: Kind = Kind::IntegerChoice(&[1, 2, 4]);

    fn parse(text: &str) -> Option<Self> {
        if whole(text) == Some(1) { Some(Self(None)) } else { Scale::parse(text).map(|Scale(by)| Self(Some(by))) }
    }
}

/// A side of the output in pixels.
pub type Side = Whole<1, { compose::MAX_SIDE }>;

/// The longest side of the output in pixels. It never enlarges, so values above the largest side are lowered to it.
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
pub struct Fraction(pub f32);

impl Value for Fraction {
    const KIND: Kind = Kind::Number { min: 0.0, max: 1.0 };

    fn parse(text: &str) -> Option<Self> {
        decimal(text).filter(|value| (0.0..=1.0).contains(value)).map(|value| Self(value as f32))
    }
}

/// The strength of `enhance`: a number from 0 to 0.5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnhanceStrength(pub f32);

impl Value for EnhanceStrength {
    const KIND: Kind = Kind::Number { min: 0.0, max: 0.5 };

    fn parse(text: &str) -> Option<Self> {
        decimal(text).filter(|value| (0.0..=0.5).contains(value)).map(|value| Self(value as f32))
    }
}

/// A boolean.
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

/// A boolean as a word, in any case.
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

/// Strength of despill, 0 to 1, where the interface has a boolean: `1` is `true`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DespillFlag(pub f32);

impl Value for DespillFlag {
    const KIND: Kind = Kind::AnyOf(STRENGTH);

    fn parse(text: &str) -> Option<Self> {
        let flag = Flag::parse(text).map(|Flag(yes)| f32::from(u8::from(yes)));
        flag.or_else(|| strength(text)).map(Self)
    }
}

/// Strength of despill, 0 to 1, where the interface has a number from 0 to 100: `1` is one hundredth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DespillStrength(pub f32);

impl Value for DespillStrength {
    const KIND: Kind = Kind::AnyOf(STRENGTH);

    fn parse(text: &str) -> Option<Self> {
        let word = word(text).map(|yes| f32::from(u8::from(yes)));
        word.or_else(|| strength(text)).map(Self)
    }
}

/// Strength of despill where the interface has a whole number from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DespillPercent(u8);

impl DespillPercent {
    /// Strength, 0 to 1.
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

/// Intensity of a background blur; `None` for no blur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blur(pub Option<u8>);

impl Blur {
    /// The intensity of `true`.
    const USUAL: u8 = 50;
}

impl Value for Blur {
    const KIND: Kind = Kind::AnyOf(&[Kind::Boolean, Kind::Integer { min: 2, max: 100 }]);

    fn parse(text: &str) -> Option<Self> {
        let flag = Flag::parse(text).map(|Flag(yes)| Self(yes.then_some(Self::USUAL)));
        flag.or_else(|| Whole::<2, 100>::parse(text).map(|intensity| Self(u8::try_from(intensity.get()).ok())))
    }
}

pub(super) const MAX_PADDING: u32 = 4096;

/// Padding in pixels.
pub type PaddingPx = Whole<0, MAX_PADDING>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_field_takes_both_ends_of_its_range() {
        for (text, expected) in [("0", None), ("1", Some(1)), ("100", Some(100)), ("101", None)] {
            assert_eq!(Quality::parse(text).map(Quality::get), expected, "quality {text:?}");
        }
        for (text, expected) in [("0", None), ("1", Some(1)), ("8192", Some(8192)), ("8193", None)] {
            assert_eq!(Side::parse(text).map(Side::get), expected, "side {text:?}");
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
    fn an_integer_is_taken_in_any_notation() {
        for text in ["92", "+92", "92.0", "92.", "092", "9.2e1", "920E-1"] {
            assert_eq!(Quality::parse(text).map(Quality::get), Some(92), "quality {text:?}");
        }
    }

    #[test]
    fn an_integer_field_refuses_fractions_and_non_decimal_text() {
        for text in [
            "", " ", "-1", "5.5", "1e-2", "1e3", "0x10", "1_0", "1,0", "五", "257", "true", "NaN", "inf", "-inf",
            "infinity", "1e999", "+", "-", ".", "e", "1e", "+-1", "5 5",
        ] {
            assert_eq!(Quality::parse(text), None, "quality {text:?}");
        }
        assert_eq!(Quality::parse("99999999999999999999"), None);
        assert_eq!(Side::parse("4294967297"), None, "wrapped around");
        assert_eq!(Quality::parse(&format!("{}5", "0".repeat(MAX_NUMBER))), None, "too long");
    }

    #[test]
    fn a_largest_side_beyond_the_limit_is_the_limit() {
        let side = |text| MaxDim::parse(text).map(MaxDim::get);
        assert_eq!(["1", "8192", "8193", "1e6"].map(side), [1, 8192, 8192, 8192].map(Some));
        assert_eq!(side("99999999999999999999"), Some(8192));
        for text in ["0", "-5", "0.5", "inf", "1e999", "large"] {
            assert_eq!(side(text), None, "{text:?}");
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
    fn a_number_takes_both_ends_and_every_decimal_notation() {
        for (texts, expected) in [
            (&["0", "-0"][..], 0.0),
            (&["1", "1.0", "1."], 1.0),
            (&["00.50", ".5", "+0.5", "5e-1", "5E-1"], 0.5),
            (&["0.4"], 0.4),
        ] {
            for text in texts {
                assert_eq!(Fraction::parse(text), Some(Fraction(expected)), "{text}");
            }
        }
        assert_eq!(Fraction::parse("-0").map(|Fraction(zero)| zero.is_sign_negative()), Some(false));
        for text in ["", ".", "1.01", "-0.1", "NaN", "nan", "inf", "1e999", "0,5", "true", "50%", "1/2"] {
            assert_eq!(Fraction::parse(text), None, "{text:?}");
        }
        assert_eq!([EnhanceStrength::parse("0.5"), EnhanceStrength::parse("0.51")], [Some(EnhanceStrength(0.5)), None]);
    }

    #[test]
    fn despill_takes_both_forms_and_its_endpoint_defines_one() {
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
    fn a_blur_of_one_means_true() {
        assert_eq!(Blur::parse("1"), Blur::parse("true"));
        assert_eq!([Blur::parse("2"), Blur::parse("100")], [Some(Blur(Some(2))), Some(Blur(Some(100)))]);
        assert_eq!([Blur::parse("0"), Blur::parse("false")], [Some(Blur(None)); 2]);
        assert_eq!([Blur::parse("ON"), Blur::parse("no")], [Blur::parse("1"), Blur::parse("0")]);
        assert_eq!([Blur::parse("101"), Blur::parse("2.5"), Blur::parse("")], [None; 3]);
    }
}
