//! Fields whose value is text of a certain form: colours, aspect ratios, lengths, addresses, names.

use super::numbers::{MAX_PADDING, decimal, whole};
use super::value::Value;
use crate::compose::{self, Aspect, Padding};
use crate::image::SourceUrl;
use crate::image::color::Color;
use crate::recipe::kind::{Kind, TextSpec};

impl Value for Color {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "a colour such as #FFFFFF, #FFF, #FFFFFF80, rgb(255, 255, 255), white or transparent",
        pattern: None,
        max_length: 64,
        examples: &["#FFFFFF", "#fff", "#FFFFFF80", "rgb(255, 255, 255)", "white", "transparent"],
    });

    fn parse(text: &str) -> Option<Self> {
        let named = text.starts_with('#') || text.starts_with(|first: char| first.is_ascii_alphabetic());
        // Without the #, as other services accept.
        let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_hexadecimal = digits && matches!(text.len(), 3 | 4 | 6 | 8);
        if text.len() > 64 || !text.is_ascii() || !(is_hexadecimal || named && !digits) {
            return None;
        }
        csscolorparser::parse(text).ok().map(|color| Self(color.to_rgba8()))
    }
}

/// Maximum number in an aspect ratio.
const MAX_ASPECT: f64 = 10_000.0;

impl Value for Aspect {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "an aspect ratio such as 1:1, 4:5 or 16:9",
        pattern: Some(r"^[0-9]{1,5}(\.[0-9]{1,3})?:[0-9]{1,5}(\.[0-9]{1,3})?$"),
        max_length: 19,
        examples: &["1:1", "4:5", "16:9", "1.91:1"],
    });

    fn parse(text: &str) -> Option<Self> {
        let (width, height) = text.split_once(':')?;
        let thousandths = |part: &str| {
            let value = decimal(part.trim()).filter(|value| *value > 0.0 && *value <= MAX_ASPECT)? * 1000.0;
            // At most three decimal places; binary fractions are inexact.
            ((value - value.round()).abs() < 1e-6).then_some(value.round() as u32)
        };
        Self::new(thousandths(width)?, thousandths(height)?)
    }
}

impl Value for Padding {
    const KIND: Kind = Kind::AnyOf(&[
        Kind::Integer { min: 0, max: MAX_PADDING },
        Kind::Text(TextSpec {
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

impl Value for SourceUrl {
    const KIND: Kind = Kind::Text(TextSpec {
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
pub struct WatermarkText(pub String);

impl Value for WatermarkText {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "1 to 200 characters in Latin, Greek, Cyrillic, Hebrew, Arabic, Armenian, Georgian or Lao script",
        pattern: Some(r"\S"),
        max_length: 200,
        examples: &["© Backdrop", "مرحبا"],
    });

    fn parse(text: &str) -> Option<Self> {
        let is_of_this_length = (1..=200).contains(&text.chars().count()) && !text.trim().is_empty();
        (is_of_this_length && compose::has_glyphs(text)).then(|| Self(text.to_owned()))
    }
}

/// Id or name of a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetRef(pub String);

impl Value for PresetRef {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "a preset, 1 to 100 characters",
        pattern: Some(r"\S"),
        max_length: 100,
        examples: &["preset_1"],
    });

    fn parse(text: &str) -> Option<Self> {
        ((1..=100).contains(&text.chars().count()) && !text.trim().is_empty()).then(|| Self(text.to_owned()))
    }
}

/// Name of a model that cuts out, as sent by a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRef(pub Box<str>);

impl Value for ModelRef {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "the name of a model, as `GET /models` lists them",
        pattern: Some(r"^[A-Za-z0-9._/-]+$"),
        max_length: 100,
        examples: &["fgnet-384"],
    });

    fn parse(text: &str) -> Option<Self> {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        ((1..=100).contains(&text.len()) && text.bytes().all(is_inner)).then(|| Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::values::{Blur, DespillFlag};
    use proptest::prelude::*;

    #[test]
    fn a_watermark_of_a_script_without_glyphs_is_refused() {
        assert!(<WatermarkText as Value>::parse("© Дом مرحبا").is_some());
        assert_eq!(<WatermarkText as Value>::parse("© 日本"), None);
    }

    #[test]
    fn css_colours_are_parsed() {
        for (text, expected) in [
            ("#F00", [255, 0, 0, 255]),
            ("#00ff0080", [0, 255, 0, 128]),
            ("f00", [255, 0, 0, 255]),
            ("123456", [0x12, 0x34, 0x56, 255]),
            ("00FF0080", [0, 255, 0, 128]),
            ("#F4F4F5", [0xF4, 0xF4, 0xF5, 255]),
            ("rgb(1, 2, 3)", [1, 2, 3, 255]),
            ("Red", [255, 0, 0, 255]),
            ("rebeccapurple", [0x66, 0x33, 0x99, 255]),
            ("transparent", [0, 0, 0, 0]),
        ] {
            assert_eq!(<Color as Value>::parse(text), Some(Color(expected)), "{text}");
        }
        for text in ["", "#", "#12", "#ggg", "12", "fffff", "ggg", "redd", "rgb(1,2)", "url(x)", "rôuge", " "] {
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
