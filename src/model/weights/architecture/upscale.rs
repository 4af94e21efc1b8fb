//! The tensors of the upscaling network "upscale".
//!
//! Three residual pairs between a head and a tail, all 3×3 and at the input's size. The output of the tail is
//! pixel-shuffled and added to a bicubic enlargement (residual learning: Kim et al., "Accurate Image Super-Resolution
//! Using Very Deep Convolutional Networks", CVPR 2016; pixel shuffle: Shi et al., "Real-Time Single Image and Video
//! Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural Network", CVPR 2016).

use super::Convolution;
use crate::model::Factor;

/// Channels between the head and the tail.
pub const CHANNELS: usize = 32;

/// Residual pairs.
pub const PAIRS: usize = 3;

/// Radius in pixels of the receptive field: one pixel for each convolution.
pub const RECEPTIVE_RADIUS: usize = 2 * PAIRS + 2;

/// Channels of the tail: red, green and blue of the `factor`×`factor` enlarged pixels, in PyTorch's order (channel
/// `colour · factor² + row · factor + column`).
#[must_use]
pub const fn tail_channels(factor: Factor) -> usize {
    3 * (factor.get() * factor.get()) as usize
}

/// Every convolution, in the order data flows through them.
#[must_use]
pub fn convolutions(factor: Factor) -> Vec<Convolution> {
    let mut list = vec![Convolution::new("head", 3, CHANNELS, 3)];
    for pair in 0..PAIRS {
        for part in ["a", "b"] {
            list.push(Convolution::new(format!("body.{pair}.{part}"), CHANNELS, CHANNELS, 3));
        }
    }
    list.push(Convolution::new("tail", CHANNELS, tail_channels(factor), 3));
    list
}
