//! The shadow that a subject casts.

/// Pixels beyond which a shadow of this softness leaves nothing.
pub(super) fn reach(sigma: f32) -> usize {
    if sigma > 0.0 { (sigma * 3.0).ceil() as usize + 1 } else { 0 }
}

/// How many pixels on a side become one before they are blurred.
pub(super) fn reduction(sigma: f32) -> usize {
    ((sigma / 4.0) as usize).max(1)
}
