//! Pull-push: smooth interpolation of the samples without weight from those with, such as a background behind a subject.
//!
//! Gortler, Grzeszczuk, Szeliski and Cohen, "The Lumigraph", SIGGRAPH 1996, section 3.4. *Pull*: each level is half as
//! large as the one below (rounded up), and a sample there is the sum of the four under it, divided by their weight
//! where that is above 1. *Push*: from the smallest level down, a sample's missing weight comes from the level above,
//! read bilinearly (half-pixel centres, clamped at the border). So a gap is filled from the finest level that has known
//! samples near it, at a cost that does not depend on its size.
//!
//! ```text
//! pull  s = Σ₄ (w c, w),  then s / max(1, w)
//! push  c ← w c + (1 - w) C
//! ```
//!
//! Samples: f32 `[height, width, 4]`: three channels, multiplied by the weight, and the weight, at least 0. Weights
//! count relative to the largest: a sample of that weight keeps its colour, the rest are blended with those around
//! them. Result: plain colours, weight 1.

pub mod cpu;
