//! Probabilities from which a cell of the mask is certain subject, and up to which it is certain background.

/// From this on a cell is certain subject.
pub(super) const FOREGROUND: f32 = 0.95;
/// Up to this a cell is certain background.
pub(super) const BACKGROUND: f32 = 0.1;
