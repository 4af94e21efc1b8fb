//! The tensors of the outline classifier "edge": a linear layer over pooled features of the segmentation network.

use super::{Convolution, fgnet};
use crate::image::EdgeKinds;

/// The only layer.
pub const LAYER: &str = "kinds";

/// Input channels: the segmentation encoder's deepest features, averaged over the picture.
pub const FEATURES: usize = fgnet::STAGES[fgnet::STAGES.len() - 1].channels;

/// Its single convolution, of one pixel.
#[must_use]
pub fn convolutions() -> Vec<Convolution> {
    vec![Convolution::new(LAYER, FEATURES, EdgeKinds::COUNT, 1)]
}
