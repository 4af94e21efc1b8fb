//! A colour, and the sRGB transfer function between 8-bit encoded values and linear light.
//!
//! IEC 61966-2-1: `l = c / 12.92` below 0.04045, `((c + 0.055) / 1.055)^2.4` above.
//!
//! The tables hold linear light in 16 bits. The two darkest encoded values are 20 steps apart there, so the conversion
//! from 8-bit encoded to 16-bit linear and back is exact, with room for the rounding of a filter between.

use std::sync::LazyLock;

/// A colour: sRGB and straight alpha, 8 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub [u8; 4]);

impl Color {
    /// Fully transparent.
    pub const TRANSPARENT: Self = Self([0; 4]);
    /// White.
    pub const WHITE: Self = Self([255; 4]);
    /// Black.
    pub const BLACK: Self = Self([0, 0, 0, 255]);

    /// Whether it is fully opaque.
    #[must_use]
    pub const fn is_opaque(self) -> bool {
        self.0[3] == 255
    }

    /// Without its alpha.
    #[must_use]
    pub const fn rgb(self) -> [u8; 3] {
        let [red, green, blue, _] = self.0;
        [red, green, blue]
    }
}

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

/// Linear light, 0..=65535, of each encoded 8-bit value.
#[must_use]
pub fn linear16_of_encoded8() -> &'static [u16; 256] {
    static TABLE: LazyLock<[u16; 256]> = LazyLock::new(|| {
        std::array::from_fn(|encoded| scaled(linear_of_encoded(encoded as f32 / 255.0), 65535.0) as u16)
    });
    &TABLE
}

/// Encoded 8-bit value of each linear light, 0..=65535.
#[must_use]
pub fn encoded8_of_linear16() -> &'static [u8; 65536] {
    static TABLE: LazyLock<Box<[u8; 65536]>> = LazyLock::new(|| {
        let mut table = Box::new([0; 65536]);
        for (linear, encoded) in table.iter_mut().enumerate() {
            *encoded = scaled(encoded_of_linear(linear as f32 / 65535.0), 255.0) as u8;
        }
        table
    });
    &TABLE
}

fn scaled(unit: f32, max: f32) -> f32 {
    (unit * max).round().clamp(0.0, max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoded_value_survives_linear_light_and_back() {
        for encoded in 0..=255_u8 {
            let linear = linear16_of_encoded8()[usize::from(encoded)];
            assert_eq!(encoded8_of_linear16()[usize::from(linear)], encoded);
        }
    }

    #[test]
    fn the_curve_passes_through_its_known_points() {
        assert_eq!(linear16_of_encoded8()[0], 0);
        assert_eq!(linear16_of_encoded8()[255], 65535);
        // Encoded mid-grey 188 is half the light (IEC 61966-2-1: 0.7354 encoded for 0.5 linear).
        assert_eq!(encoded8_of_linear16()[32768], 188);
        assert!((linear_of_encoded(0.5) - 0.214_04).abs() < 1e-4);
        assert!((encoded_of_linear(linear_of_encoded(0.3)) - 0.3).abs() < 1e-6);
    }
}
