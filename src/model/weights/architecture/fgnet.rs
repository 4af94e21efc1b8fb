//! The tensors of the segmentation network "fgnet".
//!
//! The encoder of EfficientNet-Lite2 (Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural
//! Networks", ICML 2019; the Lite variants lack squeeze-and-excitation and swish) without its classifier, and a light
//! feature-pyramid decoder.

use super::{Block, Convolution};
use crate::image::Hints;

/// Added to a batch normalisation's variance before the square root.
pub const BATCH_NORM_EPSILON: f64 = 1e-3;

/// One stage of inverted residuals.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Hidden channels for each input channel; 1 without expansion.
    pub expansion: usize,
    /// Channels of the result.
    pub channels: usize,
    /// Blocks.
    pub blocks: usize,
    /// Stride of the first block.
    pub stride: usize,
    /// Side of the depthwise kernels.
    pub size: usize,
}

/// Channels of the stem, a 3×3 convolution with stride 2.
pub const STEM: usize = 32;

/// The encoder's stages.
pub const STAGES: [Stage; 7] = [
    Stage { expansion: 1, channels: 16, blocks: 1, stride: 1, size: 3 },
    Stage { expansion: 6, channels: 24, blocks: 3, stride: 2, size: 3 },
    Stage { expansion: 6, channels: 48, blocks: 3, stride: 2, size: 5 },
    Stage { expansion: 6, channels: 88, blocks: 4, stride: 2, size: 3 },
    Stage { expansion: 6, channels: 120, blocks: 4, stride: 1, size: 5 },
    Stage { expansion: 6, channels: 208, blocks: 5, stride: 2, size: 5 },
    Stage { expansion: 6, channels: 352, blocks: 1, stride: 1, size: 3 },
];

/// The blocks whose results enter the decoder, at 1/2, 1/4, 1/8, 1/16 and 1/32 of the input's side.
pub const TAPS: [usize; 5] = [0, 3, 6, 14, 20];

/// Channels of the decoder at 1/2, 1/4, 1/8, 1/16 and 1/32 of the input's side.
pub const DECODER: [usize; 5] = [16, 32, 64, 64, 128];

/// Dilations of the context blocks at 1/32.
pub const CONTEXT_DILATIONS: [usize; 3] = [1, 2, 4];

/// Heads of the self-attention at 1/32.
pub const HEADS: usize = 4;

/// The encoder's blocks in order.
#[must_use]
pub fn blocks() -> Vec<Block> {
    let mut channels_in = STEM;
    let mut blocks = Vec::new();
    for stage in STAGES {
        for index in 0..stage.blocks {
            let stride = if index == 0 { stage.stride } else { 1 };
            let hidden = channels_in * stage.expansion;
            blocks.push(Block { channels_in, hidden, channels_out: stage.channels, size: stage.size, stride });
            channels_in = stage.channels;
        }
    }
    blocks
}

/// Every convolution, in the order data flows through them.
#[must_use]
pub fn convolutions() -> Vec<Convolution> {
    let mut list = Vec::new();
    let mut dense = |name: &str, channels_in: usize, channels_out: usize, size: usize| {
        // Convolutions with batch normalisation are the submodule `conv`.
        let part = if name.starts_with("attention.") || name == "head" { "" } else { ".conv" };
        list.push(Convolution::new(format!("{name}{part}"), channels_in, channels_out, size));
    };
    dense("enc.stem", 3, STEM, 3);
    for (index, block) in blocks().into_iter().enumerate() {
        let name = |part: &str| format!("enc.blocks.{index}.{part}");
        if block.expands() {
            dense(&name("expand"), block.channels_in, block.hidden, 1);
        }
        dense(&name("dw"), 1, block.hidden, block.size);
        dense(&name("project"), block.hidden, block.channels_out, 1);
    }
    let taps: Vec<usize> = TAPS.iter().map(|&index| blocks()[index].channels_out).collect();
    let [c1, c2, c3, c4, c5] = DECODER;
    dense("in5", taps[4], c5, 1);
    dense("gp", c5, c5, 1);
    for index in 0..CONTEXT_DILATIONS.len() {
        dense(&format!("ctx.{index}.dw"), 1, c5, 3);
        dense(&format!("ctx.{index}.pw"), c5, c5, 1);
    }
    dense("attention.qkv", c5, 3 * c5, 1);
    dense("attention.project", c5, c5, 1);
    dense("top5", c5, c4, 1);
    dense("lat4", taps[3], c4, 1);
    for index in 0..2 {
        dense(&format!("d4.{index}.dw"), 1, c4, 3);
        dense(&format!("d4.{index}.pw"), c4, c4, 1);
    }
    // 1/16 and 1/8 both have 64 channels, so no convolution is needed between them.
    dense("lat3", taps[2], c3, 1);
    for index in 0..2 {
        dense(&format!("d3.{index}.dw"), 1, c3, 3);
        dense(&format!("d3.{index}.pw"), c3, c3, 1);
    }
    dense("top3", c3, c2, 1);
    dense("lat2", taps[1], c2, 1);
    dense("d2.0", c2, c2, 3);
    dense("d2.1", c2, c2, 3);
    dense("up2", c2, 4 * c1, 1);
    dense("lat1", taps[0], c1, 1);
    dense("d1", c1, c1, 3);
    dense("head", c1, 4, 3);
    list
}

/// The convolutions that add the hints to the features at 1/4 and, for the decoder, at 1/2 of the input's side. Squares of hints are their
/// input's channels.
#[must_use]
pub fn guide() -> Vec<Convolution> {
    let [fine, coarse] = [4, 16].map(|pixels| Hints::PLANES * pixels);
    let [at_2, at_4] = [blocks()[TAPS[0]].channels_out, blocks()[TAPS[1]].channels_out];
    vec![
        Convolution::new("guide4.0.conv", coarse, coarse, 1),
        Convolution::new("guide4.1.conv", coarse, coarse, 3),
        Convolution::new("guide2.conv", fine, 16, 1),
        Convolution::new("join4", coarse, at_4, 1),
        Convolution::new("join2", 16, at_2, 1),
    ]
}

/// Whether the network can run on a square of this side, which it halves five times.
#[must_use]
pub const fn is_input_side(side: usize) -> bool {
    side >= 64 && side <= 2048 && side.is_multiple_of(32)
}
