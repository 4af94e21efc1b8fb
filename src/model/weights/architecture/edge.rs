//! The tensors of the outline classifier "edge": a linear layer over pooled features of the segmentation network.

use super::{Convolution, fgnet};
use crate::image::EdgeKinds;

/// Its only layer.
pub const LAYER: &str = "kinds";

/// Channels that it reads: those of the segmentation encoder's deepest features, each averaged over the picture.
pub const FEATURES: usize = fgnet::STAGES[fgnet::STAGES.len() - 1].channels;

/// Every convolution: one, of one pixel.
#[must_use]
pub fn convolutions() -> Vec<Convolution> {
    vec![Convolution::new(LAYER, FEATURES, EdgeKinds::COUNT, 1)]
}
