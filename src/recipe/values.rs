//! The types that a field's text becomes. Parsing is where the 400 comes from.

use crate::codec::Channels;
use crate::compose;
use crate::image::{OutputFormat, Quality};
use crate::matting::{Edge, Method};

/// What a field takes, as data: for messages, for the documentation page and for the contract test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number in this range, both ends included.
    Integer {
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// `true`, `false`, `1` or `0`.
    Boolean,
}

impl Kind {
    /// What a caller has to send, in words.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::Choice([only]) => (*only).to_owned(),
            Self::Choice(words) => {
                let (last, others) = words.split_last().expect("a choice has words");
                format!("{} or {last}", others.join(", "))
            }
            Self::Integer { min, max } => format!("an integer from {min} to {max}"),
            Self::Boolean => "true or false".to_owned(),
        }
    }
}

/// A type that one field's text is parsed into.
pub trait Value: Sized {
    /// What the field takes.
    const KIND: Kind;
    /// Added to the message of a refused value; begins with a comma.
    const REASON: &'static str = "";

    /// The value of `text`, when that is one.
    fn parse(text: &str) -> Option<Self>;
}

/// Writes the words of an enum once, for both the parser and the table.
macro_rules! choice {
    ($type:ty { $($word:literal => $value:expr),+ $(,)? } $($reason:literal)?) => {
        impl Value for $type {
            const KIND: Kind = Kind::Choice(&[$($word),+]);
            $(const REASON: &'static str = $reason;)?

            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($word => Some($value),)+
                    _ => None,
                }
            }
        }
    };
}

choice!(Method { "closed-form" => Self::ClosedForm, "none" => Self::None });
choice!(Edge { "soft" => Self::Soft, "hard" => Self::Hard });
choice!(Channels { "rgba" => Self::Rgba, "alpha" => Self::Alpha });

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

/// The channels of `/mask`, which answers nothing but the matte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlphaOnly;

choice!(AlphaOnly { "alpha" => Self } ", because this endpoint answers the matte alone");

impl Value for Quality {
    const KIND: Kind = Kind::Integer { min: 1, max: 100 };

    fn parse(text: &str) -> Option<Self> {
        whole(text).and_then(|value| u8::try_from(value).ok()).and_then(Self::new)
    }
}

/// A side of the output in pixels, 1 to 8192.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side(u32);

impl Side {
    /// The longest side that is ever made.
    pub const MAX: u32 = compose::MAX_SIDE;

    /// Pixels.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Value for Side {
    const KIND: Kind = Kind::Integer { min: 1, max: Self::MAX };

    fn parse(text: &str) -> Option<Self> {
        whole(text).filter(|side| (1..=Self::MAX).contains(side)).map(Self)
    }
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag(pub bool);

impl Value for Flag {
    const KIND: Kind = Kind::Boolean;

    fn parse(text: &str) -> Option<Self> {
        match text {
            "true" | "1" => Some(Self(true)),
            "false" | "0" => Some(Self(false)),
            _ => None,
        }
    }
}

/// Digits only: no sign, no fraction, no exponent, no surrounding space.
fn whole(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_integer_field_refuses_what_is_not_plain_digits() {
        for text in ["", " ", "+5", "-1", "5.0", "1e2", " 5", "5 ", "0x10", "五", "99999999999999999999", "257", "true"]
        {
            assert_eq!(Quality::parse(text), None, "quality {text:?}");
        }
        assert_eq!(Side::parse("4294967297"), None, "wrapped around");
    }

    #[test]
    fn a_boolean_takes_words_and_digits_in_lower_case_only() {
        assert_eq!(["true", "1", "false", "0"].map(Flag::parse), [true, true, false, false].map(|b| Some(Flag(b))));
        for text in ["", "TRUE", "yes", "2", "on", " true"] {
            assert_eq!(Flag::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_was_expected_reads_as_a_sentence() {
        assert_eq!(Edge::KIND.expected(), "soft or hard");
        assert_eq!(Quality::KIND.expected(), "an integer from 1 to 100");
        assert_eq!(AlphaOnly::KIND.expected(), "alpha");
        assert_eq!(Kind::Choice(&["a", "b", "c"]).expected(), "a, b or c");
        assert_eq!(Flag::KIND.expected(), "true or false");
    }
}
