//! The machine's limits for a roofline: memory bandwidth and peak f32 arithmetic of all threads of the rayon pool.

use rayon::prelude::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps};
use std::hint::black_box;
use std::time::Instant;

/// Values of each of the three arrays, together many times the last-level cache.
const ARRAY_LEN: usize = 32 << 20;
const RUNS: usize = 5;

/// Bytes per second of the STREAM triad (McCalpin 1995) `a[i] = b[i] + s · c[i]`, best of several runs as STREAM defines
/// it: three arrays are counted, although the processor also reads the lines of `a` that it writes.
pub(crate) fn memory_bandwidth() -> f64 {
    let (mut a, b, c) = (vec![0.0_f32; ARRAY_LEN], vec![1.0_f32; ARRAY_LEN], vec![2.0_f32; ARRAY_LEN]);
    let part = ARRAY_LEN.div_ceil(rayon::current_num_threads());
    let scale = black_box(3.0);
    let run = || {
        let started = Instant::now();
        a.par_chunks_mut(part).zip(b.par_chunks(part)).zip(c.par_chunks(part)).for_each(|((a, b), c)| {
            for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                *a = b + scale * c;
            }
        });
        started.elapsed().as_secs_f64()
    };
    let best = std::iter::repeat_with(run).take(RUNS).fold(f64::INFINITY, f64::min);
    black_box(&a);
    (3 * ARRAY_LEN * size_of::<f32>()) as f64 / best
}

/// Number of independent sums: latency times throughput of a fused multiply-add on current processors.
const SUMS: usize = 12;
const STEPS: usize = 4 << 20;
/// Factor and summand of the multiply-adds: the sums stay near one.
const FACTOR: f32 = 0.999_9;
const ADDEND: f32 = 0.000_1;

/// f32 operations per second of fused multiply-adds (two operations each), best of several runs, with the widest vectors
/// that the network's kernels use on this processor.
pub(crate) fn peak_f32() -> f64 {
    let threads = rayon::current_num_threads();
    let run = || {
        let started = Instant::now();
        let lanes = rayon::broadcast(|_| multiply_adds())[0];
        (2 * lanes * SUMS * STEPS * threads) as f64 / started.elapsed().as_secs_f64()
    };
    std::iter::repeat_with(run).take(RUNS).fold(0.0, f64::max)
}

/// Runs the multiply-adds and returns the number of lanes of a vector.
fn multiply_adds() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512 F.
            unsafe { with_avx512() };
            return 16;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA.
            unsafe { with_avx2() };
            return 8;
        }
    }
    portable();
    1
}

/// Uses intrinsics, because the compiler does not keep arrays of sums in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn with_avx512() {
    let (factor, addend) = (_mm512_set1_ps(black_box(FACTOR)), _mm512_set1_ps(black_box(ADDEND)));
    let mut sums = [_mm512_set1_ps(1.0); SUMS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, factor, addend);
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2() {
    let (factor, addend) = (_mm256_set1_ps(black_box(FACTOR)), _mm256_set1_ps(black_box(ADDEND)));
    let mut sums = [_mm256_set1_ps(1.0); SUMS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, factor, addend);
        }
    }
    black_box(sums);
}

/// On other processors scalar, with a product and a sum, because a fused operation may be a call.
fn portable() {
    let (factor, addend) = (black_box(FACTOR), black_box(ADDEND));
    let mut sums = [1.0_f32; SUMS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = *sum * factor + addend;
        }
    }
    black_box(sums);
}
