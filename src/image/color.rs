//! The sRGB transfer function, between 8-bit encoded values and linear light.
//!
//! IEC 61966-2-1: `l = c / 12.92` below 0.04045, `((c + 0.055) / 1.055)^2.4` above.

/// Linear light of an encoded value in 0..=1.
#[must_use]
pub fn linear_of_encoded(encoded: f32) -> f32 {
    if encoded <= 0.040_45 { encoded / 12.92 } else { ((encoded + 0.055) / 1.055).powf(2.4) }
}

/// Encoded value of linear light in 0..=1.
#[must_use]
pub fn encoded_of_linear(linear: f32) -> f32 {
    if linear <= 0.003_130_8 { linear * 12.92 } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 }
}
