//! The tensors of the face detection network "face".
//!
//! Inverted residuals (Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018) down to 1/32,
//! a feature pyramid (Lin et al., "Feature Pyramid Networks for Object Detection", CVPR 2017) at 1/8, 1/16 and 1/32, and
//! at each of its cells one face: a logit, the distances to the box's four sides (Tian et al., "FCOS: Fully Convolutional
//! One-Stage Object Detection", ICCV 2019) and five landmarks.

use super::{Block, Convolution};

/// Channels of the stem, a 3×3 convolution with stride 2.
pub const STEM: usize = 16;

/// Channels of the pyramid.
pub const NECK: usize = 48;

/// Values in a cell: the logit; the logarithms of the distances from the cell's centre to the left, upper, right and
/// lower side; five landmarks, x and y, from the cell's centre. Lengths are in units of the stride.
pub const CELL: usize = 15;

/// Pixels from one cell to the next, at each level of the pyramid.
pub const STRIDES: [usize; 3] = [8, 16, 32];

/// The blocks whose results enter the pyramid, one for each of [`STRIDES`].
pub const TAPS: [usize; 3] = [5, 8, 10];

/// The encoder's blocks in order.
pub const BLOCKS: [Block; 11] = [
    block(16, 16, 16, 1),
    block(16, 64, 24, 2),
    block(24, 96, 24, 1),
    block(24, 96, 40, 2),
    block(40, 160, 40, 1),
    block(40, 160, 40, 1),
    block(40, 160, 64, 2),
    block(64, 192, 64, 1),
    block(64, 192, 64, 1),
    block(64, 192, 96, 2),
    block(96, 288, 96, 1),
];

const fn block(channels_in: usize, hidden: usize, channels_out: usize, stride: usize) -> Block {
    Block { channels_in, hidden, channels_out, size: 3, stride }
}

/// Every convolution, in the order data flows through them.
#[must_use]
pub fn convolutions() -> Vec<Convolution> {
    let mut list = vec![Convolution::new("stem", 3, STEM, 3)];
    for (index, block) in BLOCKS.into_iter().enumerate() {
        let name = |part: &str| format!("blocks.{index}.{part}");
        if block.expands() {
            list.push(Convolution::new(name("expand"), block.channels_in, block.hidden, 1));
        }
        list.push(Convolution::new(name("dw"), 1, block.hidden, block.size));
        list.push(Convolution::new(name("project"), block.hidden, block.channels_out, 1));
    }
    // From the coarsest level to the finest.
    for (stride, tap) in STRIDES.into_iter().zip(TAPS).rev() {
        list.push(Convolution::new(format!("lat{stride}"), BLOCKS[tap].channels_out, NECK, 1));
        list.push(Convolution::new(format!("neck.{stride}.dw"), 1, NECK, 3));
        list.push(Convolution::new(format!("neck.{stride}.pw"), NECK, NECK, 1));
        list.push(Convolution::new(format!("head.{stride}"), NECK, CELL, 1));
    }
    list
}
