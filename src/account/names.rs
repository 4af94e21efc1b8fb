//! Validated texts from callers: account, key and preset names, and `Idempotency-Key`s.

use std::fmt;

/// An invalid text; the message names what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct InvalidText(pub String);

/// Name of an account: 1 to 64 of `a-z 0-9 . _ -`, the first a letter or digit, so that it is safe in paths and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountName(String);

impl TryFrom<&str> for AccountName {
    type Error = InvalidText;

    fn try_from(text: &str) -> Result<Self, InvalidText> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let valid = bytes.len() <= 64
            && bytes.first().copied().is_some_and(plain)
            && bytes.iter().all(|&byte| plain(byte) || b"._-".contains(&byte));
        let expected = InvalidText("1 to 64 of a-z, 0-9, '.', '_' and '-', the first a letter or digit".into());
        if valid { Ok(Self(text.to_owned())) } else { Err(expected) }
    }
}

impl From<AccountName> for String {
    fn from(name: AccountName) -> Self {
        name.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The owner's name for a key: up to 100 characters without control characters (labels are printed in tables).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label(String);

impl TryFrom<&str> for Label {
    type Error = InvalidText;

    fn try_from(text: &str) -> Result<Self, InvalidText> {
        let valid = text.chars().count() <= 100 && !text.chars().any(char::is_control);
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidText("at most 100 printable characters".into())) }
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

/// An `Idempotency-Key`: 1 to 255 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The same text sent with a sandbox key, as a distinct key: a sandbox request must not make a paid one its repetition.
    /// Callers cannot send it, because of the space.
    #[must_use]
    pub fn of_sandbox(self) -> Self {
        Self(format!("sandbox {}", self.0))
    }

    /// The key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for IdempotencyKey {
    type Error = InvalidText;

    fn try_from(text: &str) -> Result<Self, InvalidText> {
        let valid = (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidText("1 to 255 visible ASCII characters".into())) }
    }
}

/// Checks an account's name for a preset: 1 to 100 characters, not only spaces, without control characters.
pub(super) fn check_preset_name(text: &str) -> Result<(), InvalidText> {
    // As the request field `recipe::PresetRef`, and printable.
    let valid =
        (1..=100).contains(&text.chars().count()) && !text.trim().is_empty() && !text.chars().any(char::is_control);
    if valid { Ok(()) } else { Err(InvalidText("1 to 100 printable characters".into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_names_are_lowercase_and_safe_in_a_path() {
        for name in ["a", "default", "acme-2.eu_west", &"x".repeat(64)] {
            assert!(AccountName::try_from(name).is_ok(), "{name}");
        }
        for name in ["", "Acme", ".hidden", "-x", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert!(AccountName::try_from(name).is_err(), "{name}");
        }
    }

    #[test]
    fn labels_are_short_and_printable() {
        assert!(Label::try_from("").is_ok());
        assert!(Label::try_from("Büro, 2. Stock").is_ok());
        assert!(Label::try_from("é".repeat(100).as_str()).is_ok());
        assert!(Label::try_from("é".repeat(101).as_str()).is_err());
        assert!(Label::try_from("two\nlines").is_err());
        assert!(Label::try_from("\u{1b}[2J").is_err());
    }

    #[test]
    fn an_idempotency_key_is_visible_ascii() {
        for key in ["a", "8e03978e-40d5-43dd-bc93-6894a57f9324", "!~", &"x".repeat(255)] {
            assert_eq!(IdempotencyKey::try_from(key).expect("a key").as_str(), key);
        }
        for key in ["", " ", "a b", "a\t", "é", "\u{7f}", &"x".repeat(256)] {
            assert!(IdempotencyKey::try_from(key).is_err(), "{key:?}");
        }
    }

    #[test]
    fn preset_names_are_short_and_printable() {
        for name in ["a", "Büro 2", &"é".repeat(100)] {
            assert!(check_preset_name(name).is_ok(), "{name}");
        }
        for name in ["", "  ", "two\nlines", &"é".repeat(101)] {
            assert!(check_preset_name(name).is_err(), "{name:?}");
        }
    }
}
