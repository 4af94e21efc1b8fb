//! Pull-push: smooth interpolation of samples without weight, such as a background behind a subject.
//!
//! Gortler, Grzeszczuk, Szeliski and Cohen, "The Lumigraph", SIGGRAPH 1996, section 3.4. *Pull*: each level has half
//! the size of the one below (rounded up), and each sample is the sum of the four under it, divided by their weight
//! where that is above 1. *Push*: from the smallest level down, a sample's missing weight comes from the level above,
//! read bilinearly (half-pixel centres, clamped at the border). So a gap is filled from the finest level with known
//! samples near it, at a cost that does not depend on the gap's size.
//!
//! ```text
//! pull  s = Σ₄ (w c, w),  then s / max(1, w)
//! push  c ← w c + (1 - w) C
//! ```
//!
//! Samples: f32 `[height, width, 4]`: three channels, multiplied by the weight, and the weight, at least 0. A sample of
//! the largest weight keeps its colour, others are blended with surrounding samples. Result: plain colours, weight 1.

pub mod cpu;
