//! SIMD vectors of floats behind the trait [`Simd`]: AVX-512, AVX2 and a portable vector of four lanes.
//!
//! The methods are inlined into functions compiled for the instruction set, so that each becomes one instruction.

#![allow(
    unsafe_op_in_unsafe_fn,
    clippy::missing_safety_doc,
    reason = "every line is an intrinsic or a raw load or store; the one contract is stated on `Simd`"
)]

/// The operations of the micro-kernels on one vector register.
///
/// # Safety
/// The machine has the instruction set (checked in [`kernels`](super::dispatch::kernels)), and pointers are valid for
/// the lanes named.
pub(super) trait Simd: Copy {
    /// Floats in a vector.
    const LANES: usize;
    type Vector: Copy;
    /// The same value in every lane.
    unsafe fn splat(value: f32) -> Self::Vector;
    /// `LANES` values.
    unsafe fn load(from: *const f32) -> Self::Vector;
    /// `count` values, then zeros. `count < LANES`.
    unsafe fn load_first(from: *const f32, count: usize) -> Self::Vector;
    /// `LANES` values.
    unsafe fn store(to: *mut f32, vector: Self::Vector);
    /// The first `count` values. `count < LANES`.
    unsafe fn store_first(to: *mut f32, vector: Self::Vector, count: usize);
    /// `a · b + c`.
    unsafe fn multiply_add(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `a + b`.
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Each lane clamped to `low..=high`.
    unsafe fn clamp(vector: Self::Vector, low: Self::Vector, high: Self::Vector) -> Self::Vector;
}

/// Four floats in plain Rust: one register on any machine with 128-bit vectors.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Simd for Portable {
    const LANES: usize = 4;
    type Vector = [f32; 4];

    #[inline(always)]
    unsafe fn splat(value: f32) -> [f32; 4] {
        [value; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 4] {
        from.cast::<[f32; 4]>().read_unaligned()
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> [f32; 4] {
        std::array::from_fn(|lane| if lane < count { *from.add(lane) } else { 0.0 })
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, vector: [f32; 4]) {
        to.cast::<[f32; 4]>().write_unaligned(vector);
    }

    #[inline(always)]
    unsafe fn store_first(to: *mut f32, vector: [f32; 4], count: usize) {
        for (lane, value) in vector.into_iter().enumerate().take(count) {
            *to.add(lane) = value;
        }
    }

    // Not `f32::mul_add`, which without the instruction is a call into the C library.
    #[inline(always)]
    unsafe fn multiply_add(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
    }

    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|lane| a[lane] + b[lane])
    }

    #[inline(always)]
    unsafe fn clamp(vector: [f32; 4], low: [f32; 4], high: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|lane| {
            let raised = if vector[lane] > low[lane] { vector[lane] } else { low[lane] };
            if raised < high[lane] { raised } else { high[lane] }
        })
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use std::arch::x86_64::*;

    use super::Simd;

    /// Sixteen floats.
    #[derive(Clone, Copy)]
    pub(in crate::conv) struct Avx512;

    #[inline(always)]
    fn first16(count: usize) -> __mmask16 {
        (1 << count) - 1
    }

    impl Simd for Avx512 {
        const LANES: usize = 16;
        type Vector = __m512;

        #[inline(always)]
        unsafe fn splat(value: f32) -> __m512 {
            _mm512_set1_ps(value)
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m512 {
            _mm512_loadu_ps(from)
        }
        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> __m512 {
            _mm512_maskz_loadu_ps(first16(count), from)
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, vector: __m512) {
            _mm512_storeu_ps(to, vector);
        }
        #[inline(always)]
        unsafe fn store_first(to: *mut f32, vector: __m512, count: usize) {
            _mm512_mask_storeu_ps(to, first16(count), vector);
        }
        #[inline(always)]
        unsafe fn multiply_add(a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_fmadd_ps(a, b, c)
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            _mm512_add_ps(a, b)
        }
        #[inline(always)]
        unsafe fn clamp(vector: __m512, low: __m512, high: __m512) -> __m512 {
            _mm512_min_ps(_mm512_max_ps(vector, low), high)
        }
    }

    /// Sixteen sums in f32. Each lane of the factors of [`multiply_add`](Simd::multiply_add) is a pair of bfloat16
    /// values, and both products are added.
    #[derive(Clone, Copy)]
    pub(in crate::conv) struct Avx512Bf16;

    impl Simd for Avx512Bf16 {
        const LANES: usize = Avx512::LANES;
        type Vector = __m512;

        #[inline(always)]
        unsafe fn splat(value: f32) -> __m512 {
            Avx512::splat(value)
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m512 {
            Avx512::load(from)
        }
        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> __m512 {
            Avx512::load_first(from, count)
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, vector: __m512) {
            Avx512::store(to, vector);
        }
        #[inline(always)]
        unsafe fn store_first(to: *mut f32, vector: __m512, count: usize) {
            Avx512::store_first(to, vector, count);
        }
        #[inline(always)]
        unsafe fn multiply_add(a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: both types are 64 bytes without padding, and every bit pattern is a value of each.
            let pairs = |lanes: __m512| unsafe { std::mem::transmute::<__m512, __m512bh>(lanes) };
            _mm512_dpbf16_ps(c, pairs(a), pairs(b))
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            Avx512::add(a, b)
        }
        #[inline(always)]
        unsafe fn clamp(vector: __m512, low: __m512, high: __m512) -> __m512 {
            Avx512::clamp(vector, low, high)
        }
    }

    /// Rounds `count` values (an even number) to the nearest bfloat16, ties to even, and stores them as pairs.
    ///
    /// # Safety
    /// The machine has AVX-512 with BF16; `from` is valid for `count` values and `to` for half as many.
    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512bf16")]
    pub(in crate::conv) unsafe fn round_to_bf16(from: *const f32, to: *mut f32, count: usize) {
        let mut at = 0;
        while at + 32 <= count {
            let pairs = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from.add(at + 16)), _mm512_loadu_ps(from.add(at)));
            to.add(at / 2).cast::<__m512bh>().write_unaligned(pairs);
            at += 32;
        }
        while at < count {
            let step = (count - at).min(16);
            let mask = ((1_u32 << step) - 1) as u16;
            let values = _mm512_maskz_loadu_ps(mask, from.add(at));
            // SAFETY: both types are 32 bytes without padding, and every bit pattern is a value of each.
            let pairs = unsafe { std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(values)) };
            _mm256_mask_storeu_epi16(to.add(at / 2).cast(), mask, pairs);
            at += step;
        }
    }

    /// Eight floats.
    #[derive(Clone, Copy)]
    pub(in crate::conv) struct Avx2;

    /// Eight set and eight clear lanes: the window that starts at `8 - count` has its first `count` lanes set.
    static WINDOW: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    #[inline(always)]
    unsafe fn first8(count: usize) -> __m256i {
        _mm256_loadu_si256(WINDOW.as_ptr().add(8 - count).cast())
    }

    impl Simd for Avx2 {
        const LANES: usize = 8;
        type Vector = __m256;

        #[inline(always)]
        unsafe fn splat(value: f32) -> __m256 {
            _mm256_set1_ps(value)
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m256 {
            _mm256_loadu_ps(from)
        }
        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> __m256 {
            _mm256_maskload_ps(from, first8(count))
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, vector: __m256) {
            _mm256_storeu_ps(to, vector);
        }
        #[inline(always)]
        unsafe fn store_first(to: *mut f32, vector: __m256, count: usize) {
            _mm256_maskstore_ps(to, first8(count), vector);
        }
        #[inline(always)]
        unsafe fn multiply_add(a: __m256, b: __m256, c: __m256) -> __m256 {
            _mm256_fmadd_ps(a, b, c)
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            _mm256_add_ps(a, b)
        }
        #[inline(always)]
        unsafe fn clamp(vector: __m256, low: __m256, high: __m256) -> __m256 {
            _mm256_min_ps(_mm256_max_ps(vector, low), high)
        }
    }
}
