//! Convolutions on the CPU: dense 3×3 and 1×1, depthwise 3×3 and 5×5, and the blocks and chains made of them.
//!
//! `y[p, o] = act(b[o] + Σ_{k,i} w[o, i, k] · x[p·stride + k·dilation, i] (+ residual[p, o]))`, zeros outside the picture.
//!
//! Activations are [`Plane`]s: f32, height × width × channels, with `pad` zero pixels at both ends of every row, so
//! that no micro-kernel ever asks whether a column exists. Rows above and below the picture are skipped. Weights
//! come in PyTorch's order (OIHW) and are packed once. Lanes run over output channels; a tile of pixels by one or two
//! vectors of channels stays in registers while the sum over `k, i` runs, so one load of weights serves the whole
//! tile (direct convolution in the manner of Georganas et al., "Anatomy of High-Performance Deep Learning
//! Convolutions on SIMD Architectures", SC 2018).
//!
//! Every output value is one fixed chain of operations (bias, then rows, columns and channels in order). How the
//! plane is cut into tiles, strips and tasks changes only who computes it: results depend neither on the number of
//! threads nor on the company in a batch. AVX-512 and AVX2 agree bit for bit; the portable path rounds after the
//! product and differs by the usual few ulp of a sum.

mod block;
mod cascade;
mod dense;
mod depthwise;
mod head;
mod plane;
mod pool;
mod scratch;
mod simd;
mod tile;

#[cfg(test)]
mod reference;

pub use block::{InvertedResidual, Separable};
pub use cascade::{Cascade, Layer, Tile};
pub use dense::{Dense, Residual, ShuffledPair};
pub use depthwise::Depthwise;
pub use head::Head;
pub use plane::{Plane, Shape};
pub use pool::{add_channels_relu, global_average};

use std::fmt;

/// The instruction set a network was packed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 512-bit vectors, 32 registers.
    Avx512,
    /// 256-bit vectors, 16 registers, fused multiply-add.
    Avx2,
    /// Plain Rust, whatever the compiler makes of it.
    Portable,
}

impl Isa {
    /// All of them, fastest first.
    pub const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Portable];

    /// The fastest that this machine has.
    #[must_use]
    pub fn detect() -> Self {
        Self::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Self::Portable)
    }

    /// Whether this machine can run it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("fma")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx2 => false,
            Self::Portable => true,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Avx512 => "AVX-512",
            Self::Avx2 => "AVX2",
            Self::Portable => "portable",
        })
    }
}

/// What happens to a sum before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    Linear,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
}

impl Activation {
    /// The interval results are clamped to.
    const fn bounds(self) -> (f32, f32) {
        match self {
            Self::Linear => (f32::NEG_INFINITY, f32::INFINITY),
            Self::Relu => (0.0, f32::INFINITY),
            Self::Relu6 => (0.0, 6.0),
        }
    }
}

/// A convolution's numbers in PyTorch's order: `weights` is `[out, in, rows, columns]`, `bias` is `[out]`.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a> {
    /// `out · in · rows · columns` values (`in` is 1 for a depthwise convolution).
    pub weights: &'a [f32],
    /// One value for each output channel.
    pub bias: &'a [f32],
}
