//! The trait of types that a field's text is parsed into, and a macro for types that are one of a few words.

use crate::recipe::kind::Kind;

/// A type that a field's text is parsed into.
pub trait Value: Sized {
    /// The values that the field accepts.
    const KIND: Kind;
    /// Appended to the message of a refused value; begins with a comma.
    const REASON: &'static str = "";
    /// Whether every endpoint with the field requires it.
    const REQUIRED: bool = false;

    /// The value of `text`; `None` when it is not accepted.
    fn parse(text: &str) -> Option<Self>;
}

/// Implements [`Value`] for an enum from its words, for the parser and the table. Case does not matter. A synonym after
/// `|` is accepted and not listed.
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
pub(in crate::recipe) use choice;
