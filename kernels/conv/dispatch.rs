//! Chooses the micro-kernels at run time: one table of function pointers for each instruction set.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "each wrapper only calls its generic kernel, whose contract is on the row types"
)]

use super::Isa;
use super::micro_kernel::{self, AttentionHead, DenseRow, DepthwiseRow};
#[cfg(target_arch = "x86_64")]
use super::simd::x86;
use super::simd::{Portable, Simd};

/// The micro-kernels, compiled for one instruction set.
pub(super) struct Kernels {
    /// Floats in a vector.
    pub(super) lanes: usize,
    /// One row of a dense convolution, for a block of one and of two vectors of output channels.
    pub(super) dense_row: [unsafe fn(&DenseRow); 2],
    /// As `dense_row`, for a block of half a vector, where that is cheaper than a vector of which half is unused.
    pub(super) half_row: Option<unsafe fn(&DenseRow)>,
    /// One row of a depthwise convolution.
    pub(super) depthwise_row: unsafe fn(&DepthwiseRow),
    /// `1 / (1 + e^-x)`, in place.
    pub(super) sigmoid: unsafe fn(&mut [f32]),
    /// One head of an attention: a value of working memory for each position, and the output.
    pub(super) attention: unsafe fn(&AttentionHead<'_>, &mut [f32], &mut [f32]),
    /// For dense convolutions in bfloat16.
    pub(super) bf16: Option<Bf16Kernels>,
}

/// The micro-kernels of dense convolutions in bfloat16. An f32 of their inputs and weights holds a pair of bfloat16 values.
#[derive(Clone, Copy)]
pub(super) struct Bf16Kernels {
    /// As [`Kernels::dense_row`]; taps and strides count pairs.
    pub(super) dense_row: [unsafe fn(&DenseRow); 2],
    /// Rounds an even number of values to pairs.
    pub(super) round: unsafe fn(*const f32, *mut f32, usize),
}

/// Compiles the micro-kernels for one vector type, in register tiles of `$pixels` pixels: as many as leave registers
/// for the weights and one input. Tiles of a single vector of channels have `$single` pixels: fewer than eight sums would
/// wait for each other.
macro_rules! kernels {
    ($lanes:ty, $pixels:literal, $single:literal $(, $feature:literal)?) => {{
        $(#[target_feature(enable = $feature)])?
        unsafe fn dense_row<const PIXELS: usize, const VECTORS: usize>(row: &DenseRow) {
            micro_kernel::dense_row::<$lanes, PIXELS, VECTORS>(row);
        }
        $(#[target_feature(enable = $feature)])?
        unsafe fn depthwise_row(row: &DepthwiseRow) {
            micro_kernel::depthwise_row::<$lanes, $pixels>(row);
        }
        $(#[target_feature(enable = $feature)])?
        unsafe fn sigmoid(values: &mut [f32]) {
            micro_kernel::sigmoid(values);
        }
        $(#[target_feature(enable = $feature)])?
        unsafe fn attention(head: &AttentionHead<'_>, weights: &mut [f32], output: &mut [f32]) {
            micro_kernel::attention(head, weights, output);
        }
        Kernels {
            lanes: <$lanes as Simd>::LANES,
            dense_row: [dense_row::<$single, 1>, dense_row::<$pixels, 2>],
            half_row: None,
            depthwise_row,
            sigmoid,
            attention,
            bf16: None,
        }
    }};
}

static PORTABLE: Kernels = kernels!(Portable, 4, 4);
#[cfg(target_arch = "x86_64")]
const AVX512: Kernels = Kernels {
    // Zen 4 issues twice as many 256-bit as 512-bit multiply-adds, so a quarter of a pair of vectors need not stay unused.
    half_row: Some(AVX2.dense_row[0]),
    ..kernels!(x86::Avx512, 12, 12, "avx512f,avx512vl,avx512dq,avx512bw,fma")
};
#[cfg(target_arch = "x86_64")]
static AVX512_BF16: Kernels = {
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,fma")]
    unsafe fn dense_row<const VECTORS: usize>(row: &DenseRow) {
        micro_kernel::dense_row::<x86::Avx512Bf16, 12, VECTORS>(row);
    }
    Kernels {
        half_row: None,
        bf16: Some(Bf16Kernels { dense_row: [dense_row::<1>, dense_row::<2>], round: x86::round_to_bf16 }),
        ..AVX512
    }
};
#[cfg(target_arch = "x86_64")]
const AVX2: Kernels = kernels!(x86::Avx2, 6, 8, "avx2,fma");

impl Kernels {
    /// Channels of the narrowest block.
    pub(super) fn narrowest(&self) -> usize {
        if self.half_row.is_some() { self.lanes / 2 } else { self.lanes }
    }
}

/// The micro-kernels of `isa`.
///
/// # Panics
/// When this machine does not have `isa`: its instructions would be undefined.
pub(super) fn kernels(isa: Isa) -> &'static Kernels {
    assert!(isa.is_available(), "this machine has no {isa}");
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &AVX512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Bf16 => &AVX512_BF16,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &AVX2,
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx512 | Isa::Avx512Bf16 | Isa::Avx2 => &PORTABLE,
        Isa::Portable => &PORTABLE,
    }
}
