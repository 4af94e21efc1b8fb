//! Inference modes of the segmentation network (`standard`, `quality`): the whole picture, or also the crop of the subject.

/// How the segmentation network is run. Both modes have the same weights.
///
/// Stored with accounts: a new one is appended, and none is renamed or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InferenceMode {
    /// One pass over the whole picture.
    #[default]
    Standard,
    /// A second pass over the crop of the subject, at a higher resolution: finer edges and fewer mistakes, for twice the
    /// network's time. The same as `Standard` where the crop has no higher resolution: in small pictures, and where the
    /// subject fills the frame.
    Quality,
}

impl InferenceMode {
    /// All modes.
    pub const ALL: [Self; 2] = [Self::Standard, Self::Quality];

    /// Its name in the configuration and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Quality => "quality",
        }
    }

    /// The mode that `text` names: a name as [`InferenceMode::of`] makes it for `weights`, with or without the version.
    #[must_use]
    pub fn named(text: &str, weights: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| names(text, &mode.of(weights)))
    }

    /// Its name in `x-service-model` for `weights`, a name or `NAME/VERSION`.
    #[must_use]
    pub fn of(self, weights: &str) -> String {
        match (self, weights.rsplit_once('/')) {
            (Self::Standard, _) => weights.to_owned(),
            (Self::Quality, Some((name, version))) => format!("{name}-quality/{version}"),
            (Self::Quality, None) => format!("{weights}-quality"),
        }
    }
}

/// Whether `text` is the name of `model`, with or without the version.
#[must_use]
pub fn names(text: &str, model: &str) -> bool {
    text == model || text == name_of(model)
}

/// `fgnet-384` of `fgnet-384/1`.
#[must_use]
pub fn name_of(model: &str) -> &str {
    model.rsplit_once('/').map_or(model, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_with_or_without_its_version_and_not_otherwise() {
        for good in ["fgnet-384", "fgnet-384/1"] {
            assert!(names(good, "fgnet-384/1"), "{good}");
        }
        for bad in ["", "fgnet", "fgnet-384/", "fgnet-384/2", "fgnet-384/1/1", "FGNET-384", "1", "fgnet-384 1"] {
            assert!(!names(bad, "fgnet-384/1"), "{bad}");
        }
        assert!(names("own", "own"), "a model without a version");
        assert_eq!(InferenceMode::named("fgnet-384-quality", "fgnet-384/1"), Some(InferenceMode::Quality));
        assert_eq!(InferenceMode::named("isnet", "fgnet-384/1"), None);
    }

    #[test]
    fn a_model_is_named_after_the_weights() {
        for (weights, quality) in [("fgnet-384/5", "fgnet-384-quality/5"), ("mine", "mine-quality")] {
            assert_eq!(InferenceMode::Standard.of(weights), weights);
            assert_eq!(InferenceMode::Quality.of(weights), quality);
        }
    }
}
