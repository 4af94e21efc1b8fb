//! [`Network`]: the segmentation network of a recipe.

use super::inference::InferenceMode;
use crate::model::added::AddedName;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The network that segments the subject.
///
/// Settings and JSON contain its name, stored records its variant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// The built-in network, or a weights file that replaces it.
    BuiltIn(InferenceMode),
    /// A network added by the operator.
    Added(AddedName),
}

impl Network {
    /// Name in `x-service-model`; the built-in network has these `weights`, a name or `NAME/VERSION`.
    #[must_use]
    pub fn of(&self, weights: &str) -> String {
        match self {
            Self::BuiltIn(mode) => mode.of(weights),
            Self::Added(name) => name.to_string(),
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::BuiltIn(InferenceMode::default())
    }
}

impl From<InferenceMode> for Network {
    fn from(mode: InferenceMode) -> Self {
        Self::BuiltIn(mode)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(mode) => f.write_str(mode.name()),
            Self::Added(name) => name.fmt(f),
        }
    }
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(mode) = InferenceMode::ALL.into_iter().find(|mode| mode.name() == text) {
            return Ok(Self::BuiltIn(mode));
        }
        text.parse().map(Self::Added).map_err(|_| "expected standard, quality, fast or the name of an added model")
    }
}

/// A network in a stored record. A new variant is appended; none is renamed or removed.
#[derive(Serialize, Deserialize)]
enum Stored {
    Standard,
    Quality,
    Added(String),
    Fast,
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            return to.collect_str(self);
        }
        let stored = match self {
            Self::BuiltIn(InferenceMode::Standard) => Stored::Standard,
            Self::BuiltIn(InferenceMode::Quality) => Stored::Quality,
            Self::BuiltIn(InferenceMode::Fast) => Stored::Fast,
            Self::Added(name) => Stored::Added(name.to_string()),
        };
        stored.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            return String::deserialize(from)?.parse().map_err(serde::de::Error::custom);
        }
        Ok(match Stored::deserialize(from)? {
            Stored::Standard => Self::BuiltIn(InferenceMode::Standard),
            Stored::Quality => Self::BuiltIn(InferenceMode::Quality),
            Stored::Fast => Self::BuiltIn(InferenceMode::Fast),
            Stored::Added(name) => Self::Added(name.parse().map_err(serde::de::Error::custom)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_text_in_settings_and_a_variant_in_records() {
        let added: Network = "isnet/3f9c2a1b".parse().expect("a name");
        for (network, stored) in [
            (InferenceMode::Standard.into(), 0),
            (InferenceMode::Quality.into(), 1),
            (added.clone(), 2),
            (InferenceMode::Fast.into(), 3),
        ] {
            let record = postcard::to_allocvec(&network).expect("plain data");
            assert_eq!((record[0], postcard::from_bytes(&record)), (stored, Ok(network.clone())));
            let text = serde_json::to_string(&network).expect("plain data");
            assert_eq!(serde_json::from_str::<Network>(&text).expect("its own text"), network);
        }
        assert_eq!(serde_json::to_string(&added).expect("plain data"), r#""isnet/3f9c2a1b""#);
        assert!("../isnet".parse::<Network>().is_err());
    }
}
