//! Classifies the subject's outline: the probability of each kind, from the segmentation network's deepest features.
//!
//! Features that a network has learned for one task often separate the classes of another one linearly (Alain and Bengio,
//! "Understanding intermediate layers using linear classifier probes", 2016): one layer over the features' means, fitted by
//! multinomial logistic regression (`weights/train/edge_kinds.py`).

use crate::image::EdgeKinds;
use crate::model::weights::architecture::edge::{FEATURES, LAYER};
use crate::model::weights::{BuiltIn, Weights, WeightsError, manifest};

/// The linear layer.
#[derive(Clone, Debug)]
pub(super) struct EdgeClassifier {
    /// One row of weights for each kind.
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl EdgeClassifier {
    /// The classifier that was fitted to the features of `network`: there is one for the embedded network alone.
    ///
    /// # Errors
    /// When its own weights are incomplete.
    pub(super) fn of(network: &Weights) -> Result<Option<Self>, WeightsError> {
        let embedded = manifest::entry(BuiltIn::Fgnet);
        if network.sha256() != embedded.sha256 {
            return Ok(None);
        }
        let own = Weights::built_in(BuiltIn::Edge);
        let values = |part: &str| Ok::<_, WeightsError>(own.tensor(&format!("{LAYER}.{part}"))?.values.clone());
        Ok(Some(Self { weights: values("weight")?, bias: values("bias")? }))
    }

    /// The kinds of the outline in a picture with these means of features, one for each channel.
    pub(super) fn kinds(&self, means: &[f32]) -> EdgeKinds {
        let mut logits = [0.0; EdgeKinds::COUNT];
        for ((logit, row), bias) in logits.iter_mut().zip(self.weights.chunks_exact(FEATURES)).zip(&self.bias) {
            *logit = bias + row.iter().zip(means).map(|(weight, mean)| weight * mean).sum::<f32>();
        }
        EdgeKinds::of_logits(logits)
    }
}
