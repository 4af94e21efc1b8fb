//! Probabilities of certain subject and certain background in the mask.

/// Minimum probability of certain subject.
pub(super) const FOREGROUND: f32 = 0.95;
/// Maximum probability of certain background.
pub(super) const BACKGROUND: f32 = 0.1;
