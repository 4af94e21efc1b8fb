//! The prompt of a generated backdrop, and the ids of the models that can generate it.

use super::kind::{Kind, TextSpec};
use super::values::Value;

/// A request for a generated backdrop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRequest {
    /// The text: trimmed, with single spaces between words.
    pub prompt: String,
    /// The model; `None` leaves the selection to the service.
    pub model: Option<ModelId>,
}

/// The id of a model that generates backdrops, one of [`ModelId::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(&'static str);

/// The values of `model`: `auto`, and the ids of the specification.
const MODELS: &[&str] = &[
    AUTO,
    "famA-image-2.5-sunburst",
    "famA-image-2.5-flare",
    "famB-image-2.6",
    "famB-image-2.6-flash",
    "famB-image-2.5-pro",
    "famB-image-2.5",
    "famB-image-2.5-flash",
    "famB-image-2e",
    "famA-image-2",
    "famC-2-pro",
    "famC-2-flex",
    "famC-1-kontext-pro",
    "famD-famE",
];

const AUTO: &str = "auto";

impl ModelId {
    /// All ids, in the order of the specification's table: top models first.
    pub fn all() -> impl Iterator<Item = Self> {
        MODELS[1..].iter().map(|id| Self(id))
    }

    /// The model with this id, if it exists.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        Self::all().find(|model| model.0 == id)
    }

    /// The id, as callers write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl std::fmt::Display for ModelId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.0)
    }
}

/// The value of `model`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelChoice(pub Option<ModelId>);

impl Value for ModelChoice {
    const KIND: Kind = Kind::Choice(MODELS);

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case(AUTO) {
            return Some(Self(None));
        }
        ModelId::all().find(|model| model.0.eq_ignore_ascii_case(text)).map(|model| Self(Some(model)))
    }
}

/// The text of a prompt, as sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt(pub String);

impl Prompt {
    const MOST: u32 = 500;

    /// With white space normalised. Letters keep their case: a sign in the picture may show them.
    pub(super) fn normalised(&self) -> String {
        self.0.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Value for Prompt {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "text of 1 to 500 characters",
        pattern: Some(r"\S"),
        max_length: Self::MOST,
        examples: &["a marble counter in soft window light", "Strand bei Sonnenuntergang"],
    });
    const REQUIRED: bool = true;

    fn parse(text: &str) -> Option<Self> {
        let fits = text.chars().count() <= Self::MOST as usize && !text.trim().is_empty();
        // Control characters other than white space are refused.
        let is_text = !text.chars().any(|c| c.is_control() && !c.is_whitespace());
        (fits && is_text).then(|| Self(text.to_owned()))
    }
}
