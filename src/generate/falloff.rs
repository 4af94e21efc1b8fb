//! Scalar falloff functions without library calls, so that loops vectorise: Hermite step, biweight kernel, exponential decay.

/// Hermite step: 0 up to `from`, 1 beyond `to`.
#[inline(always)]
pub(super) fn smoothstep(from: f32, to: f32, value: f32) -> f32 {
    let t = ((value - from) / (to - from)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// Biweight kernel `(1 - x²)²`, 0 beyond ±1: close to `exp(-2 x²)` without a call.
#[inline(always)]
pub(super) fn biweight(value: f32) -> f32 {
    let rest = (1.0 - value * value).max(0.0);
    rest * rest
}

/// Approximates `exp(-value)` for values from 0 by `(1 + v / 8)^-8`, without a call.
#[inline(always)]
pub(super) fn exp_falloff(value: f32) -> f32 {
    let near = 1.0 / (1.0 + value.max(0.0) * 0.125);
    let squared = near * near;
    let fourth = squared * squared;
    fourth * fourth
}
