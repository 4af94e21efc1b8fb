//! Inference modes of the segmentation network (`standard`, `quality`): the whole picture, or also the crop of the subject.

/// How the segmentation network is run. Both modes have the same weights.
///
/// Stored with accounts: a new one is appended, and none is renamed or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_after_the_weights() {
        for (weights, quality) in [("fgnet-384/5", "fgnet-384-quality/5"), ("mine", "mine-quality")] {
            assert_eq!(InferenceMode::Standard.of(weights), weights);
            assert_eq!(InferenceMode::Quality.of(weights), quality);
        }
    }
}
