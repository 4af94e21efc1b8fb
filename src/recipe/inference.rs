//! Inference modes of the segmentation network (`standard`, `quality`, `fast`): when the subject's crop is segmented
//! after the whole picture.

/// How the segmentation network runs. All modes use one set of weights.
///
/// Stored with accounts: a new one is appended, and none is renamed or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InferenceMode {
    /// A second pass over the subject's crop, at a higher resolution, if the subject's box covers less than half of the
    /// picture: finer edges and fewer mistakes, for twice the network's time. Without a higher resolution: one pass.
    #[default]
    Standard,
    /// The second pass also for larger subjects that do not fill the frame.
    Quality,
    /// One pass over the whole picture.
    Fast,
}

impl InferenceMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Standard, Self::Quality, Self::Fast];

    /// Name in the configuration and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Quality => "quality",
            Self::Fast => "fast",
        }
    }

    /// The mode that `text` names, as [`InferenceMode::of`] formats it for `weights`, with or without the version.
    #[must_use]
    pub fn named(text: &str, weights: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| names(text, &mode.of(weights)))
    }

    /// Name in `x-service-model` for `weights`, a name or `NAME/VERSION`.
    #[must_use]
    pub fn of(self, weights: &str) -> String {
        match (self, weights.rsplit_once('/')) {
            (Self::Standard, _) => weights.to_owned(),
            (mode, Some((name, version))) => format!("{name}-{}/{version}", mode.name()),
            (mode, None) => format!("{weights}-{}", mode.name()),
        }
    }
}

/// Whether `text` is the name of `model`, with or without the version.
#[must_use]
pub fn names(text: &str, model: &str) -> bool {
    text == model || text == name_of(model)
}

/// The name without the version: `fgnet-384` of `fgnet-384/1`.
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
        for (weights, quality, fast) in
            [("fgnet-384/5", "fgnet-384-quality/5", "fgnet-384-fast/5"), ("mine", "mine-quality", "mine-fast")]
        {
            assert_eq!(InferenceMode::ALL.map(|mode| mode.of(weights)), [weights, quality, fast]);
        }
    }
}
