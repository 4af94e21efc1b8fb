//! [`AddedName`]: the name of an added model, with or without its version.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Maximum characters of a name.
const LONGEST: usize = 64;
/// Hexadecimal digits of a version.
pub(super) const VERSION: usize = 8;
/// Names with another meaning: inference modes, and the default of an account.
const RESERVED: [&str; 4] = ["default", "fast", "quality", "standard"];
/// Prefix of the built-in network's names.
const BUILT_IN: &str = "fgnet";

/// `NAME`, or `NAME/VERSION` with eight hexadecimal digits. A name has lower-case letters, digits, `.`, `_` and `-`,
/// begins with a letter or digit, and is a file name on every system.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddedName(Arc<str>);

/// A text that is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a name of at most {LONGEST} lower-case letters, digits, `.`, `_` and `-` that begins with a letter or digit and is not the built-in \
     network's"
)]
pub struct InvalidName;

impl AddedName {
    /// The name without the version.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// The version, if given.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.0.split_once('/').map(|(_, version)| version)
    }

    pub(super) fn without_version(&self) -> Self {
        Self(self.name().into())
    }

    pub(super) fn with_version(&self, version: &str) -> Self {
        Self(format!("{}/{version}", self.name()).into())
    }
}

impl FromStr for AddedName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let (name, version) = text.split_once('/').map_or((text, None), |(name, version)| (name, Some(version)));
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let is_name = name.len() <= LONGEST
            && name.bytes().all(is_inner)
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && !name.ends_with('.')
            && !name.starts_with(BUILT_IN)
            && !RESERVED.contains(&name);
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_version = |version: &str| version.len() == VERSION && version.bytes().all(is_digit);
        if !is_name || !version.is_none_or(is_version) {
            return Err(InvalidName);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for AddedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for AddedName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AddedName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_file_name_and_not_reserved() {
        for good in ["isnet", "birefnet-general-lite", "u2netp.v2", "8x", "isnet/3f9c2a1b"] {
            assert_eq!(good.parse::<AddedName>().map(|name| name.to_string()).as_deref(), Ok(good));
        }
        let bad = [
            "", ".", "..", "../x", "a/b", "a/../b", "a\\b", "C:", "a b", "IsNet", "-a", ".a", "a.", "standard", "fast",
            "quality", "default", "isnet/", "a\0", "é",
        ];
        let long = ["/etc/passwd", "fgnet-384", "isnet/3F9C2A1B", "isnet/3f9c2a1", "isnet/3f9c2a1b/"];
        for bad in bad.into_iter().chain(long) {
            assert_eq!(bad.parse::<AddedName>(), Err(InvalidName), "{bad:?}");
        }
        assert!("a".repeat(65).parse::<AddedName>().is_err());
    }
}
