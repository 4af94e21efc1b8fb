//! Classifies the subject's outline: the probability of each kind from the segmentation network's deepest features.
//!
//! Features learned for one task often separate the classes of another linearly (Alain and Bengio, "Understanding
//! intermediate layers using linear classifier probes", 2016): one layer over the features' means, fitted by
//! multinomial logistic regression (`weights/train/edge_kinds.py`).

use crate::image::EdgeKinds;
use crate::model::weights::architecture::edge::{FEATURES, LAYER};
use crate::model::weights::{BuiltIn, Weights};

/// SHA-256 of the segmentation weights to whose features the classifier is fitted.
const FITTED_TO: &str = "054307f814bf85f5dad20279b374016023cb8adc1d5e731872ee8ef88c0af310";

#[derive(Clone, Debug)]
pub(super) struct EdgeClassifier {
    /// One row of weights for each kind.
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl EdgeClassifier {
    /// The classifier for the features of `network`; `None` for a network other than the embedded one.
    ///
    /// # Panics
    /// Never: a test loads the embedded weights.
    pub(super) fn of(network: &Weights) -> Option<Self> {
        if network.sha256() != FITTED_TO {
            return None;
        }
        let own = Weights::built_in(BuiltIn::Edge);
        let values = |part: &str| {
            let tensor = own.tensor(&format!("{LAYER}.{part}"));
            tensor.expect("loading has checked the tensors").values.clone()
        };
        Some(Self { weights: values("weight"), bias: values("bias") })
    }

    /// The kinds of the outline in a picture with these means, one for each channel.
    pub(super) fn kinds(&self, means: &[f32]) -> EdgeKinds {
        let mut logits = [0.0; EdgeKinds::COUNT];
        for ((logit, row), bias) in logits.iter_mut().zip(self.weights.chunks_exact(FEATURES)).zip(&self.bias) {
            *logit = bias + row.iter().zip(means).map(|(weight, mean)| weight * mean).sum::<f32>();
        }
        EdgeKinds::of_logits(logits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classifier_is_fitted_to_the_embedded_network() {
        assert_eq!(Weights::embedded().sha256(), FITTED_TO, "fit it again: step 6 of weights/train/README.md");
        assert!(EdgeClassifier::of(&Weights::embedded()).is_some());
    }
}
