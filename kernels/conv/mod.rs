//! Direct convolutions on the CPU: dense 3×3 and 1×1, depthwise 3×3 and 5×5, fused blocks, cascades, and attention.
//!
//! `y[p, o] = act(b[o] + Σ_{k,i} w[o, i, k] · x[p·stride + k·dilation, i] (+ residual[p, o]))`, zeros outside the picture.
//!
//! Activations are [`Plane`]s: f32, height × width × channels, with `pad` zero pixels at both ends of every row, so
//! that no micro-kernel tests for border columns. Rows above and below the picture are skipped. Weights come in
//! PyTorch's order (OIHW) and are packed once. Lanes run over output channels; a tile of pixels by one or two vectors
//! of channels stays in registers while the sum over `k, i` runs, so one load of weights serves the whole tile (direct
//! convolution as in Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures",
//! SC 2018).
//!
//! Every output value is one fixed chain of operations (bias, then rows, columns and channels in order): it depends
//! neither on the tiling, nor on the number of threads, nor on the batch. AVX-512 and AVX2 agree bit for bit; the
//! portable path rounds after the product and differs by the usual few ulp of a sum.

mod attention;
mod cascade;
mod dense;
mod depthwise;
mod dispatch;
mod global_pool;
#[cfg(feature = "gpu")]
pub mod gpu;
mod head;
mod inverted_residual;
mod micro_kernel;
mod plane;
mod scratch;
mod simd;

#[cfg(test)]
mod reference;

pub use attention::Attention;
pub use cascade::{Cascade, Layer, Tile};
pub use dense::{Dense, Residual, ShuffledPair};
pub use depthwise::Depthwise;
pub use global_pool::{add_channels_relu, global_average};
pub use head::Head;
pub use inverted_residual::{InvertedResidual, Separable};
pub use plane::{Plane, Shape};

use std::fmt;

/// The instruction set a network was packed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 512-bit vectors, 32 registers.
    Avx512,
    /// AVX-512 with inputs and weights of dense convolutions rounded to bfloat16, and sums in f32. Twice the
    /// multiplications of an instruction, but different results: never [detected](Self::detect), only selected by name.
    Avx512Bf16,
    /// 256-bit vectors, 16 registers, fused multiply-add.
    Avx2,
    /// Plain Rust, auto-vectorised by the compiler.
    Portable,
}

impl Isa {
    /// Instruction sets that compute in f32, fastest first.
    pub const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Portable];

    /// The fastest instruction set of this machine.
    #[must_use]
    pub fn detect() -> Self {
        Self::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Self::Portable)
    }

    /// Whether this machine supports it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => Self::Avx512.is_available() && is_x86_feature_detected!("avx512bf16"),
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
            Self::Avx512 | Self::Avx512Bf16 | Self::Avx2 => false,
            Self::Portable => true,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Avx512 => "AVX-512",
            Self::Avx512Bf16 => "AVX-512 BF16",
            Self::Avx2 => "AVX2",
            Self::Portable => "portable",
        })
    }
}

/// The activation function applied to a sum before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Identity.
    Linear,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
}

impl Activation {
    const fn bounds(self) -> (f32, f32) {
        match self {
            Self::Linear => (f32::NEG_INFINITY, f32::INFINITY),
            Self::Relu => (0.0, f32::INFINITY),
            Self::Relu6 => (0.0, 6.0),
        }
    }
}

/// A convolution's parameters in PyTorch's order: `weights` is `[out, in, rows, columns]`, `bias` is `[out]`.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a> {
    /// `out · in · rows · columns` values (`in` is 1 for a depthwise convolution).
    pub weights: &'a [f32],
    /// One value for each output channel.
    pub bias: &'a [f32],
}
