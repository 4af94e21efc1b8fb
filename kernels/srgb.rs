//! The sRGB transfer function (IEC 61966-2-1) between encoded values and linear light: functions and tables.
//!
//! `l = c / 12.92` below 0.04045, `((c + 0.055) / 1.055)^2.4` above.
//!
//! The 16-bit tables hold linear light in 65535ths. The darkest encoded values are 20 steps apart there, so the
//! conversion from 8-bit encoded to 16-bit linear and back is exact, with room for the rounding of a filter between.
//!
//! Linear light is computed in two precisions. In f32 ([`linear_of_encoded`], [`linear_of_encoded8`],
//! [`linear16_of_encoded8`]) 214 of the 256 values differ in the last bits from those in f64, rounded once, with which
//! the kernels mix, and one 16-bit value differs by a step (code 111). Exchanging them would change finished pixels.

use std::sync::LazyLock;

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

/// Linear light, 0..=1, of each encoded 8-bit value, by [`linear_of_encoded`].
#[must_use]
pub fn linear_of_encoded8() -> &'static [f32; 256] {
    static TABLE: LazyLock<[f32; 256]> =
        LazyLock::new(|| std::array::from_fn(|encoded| linear_of_encoded(encoded as f32 / 255.0)));
    &TABLE
}

/// Linear light, 0..=65535, of each encoded 8-bit value.
#[must_use]
pub fn linear16_of_encoded8() -> &'static [u16; 256] {
    static TABLE: LazyLock<[u16; 256]> =
        LazyLock::new(|| linear_of_encoded8().map(|linear| (linear * 65535.0).round() as u16));
    &TABLE
}

/// Encoded 8-bit value of each linear light, 0..=65535, rounded wrongly only within a 40th of a level of a midpoint.
#[must_use]
pub fn encoded8_of_linear16() -> &'static [u8; 65536] {
    static TABLE: LazyLock<Box<[u8; 65536]>> = LazyLock::new(|| {
        let mut table = Box::new([0; 65536]);
        for (linear, encoded) in table.iter_mut().enumerate() {
            *encoded = byte(encoded_of_linear(linear as f32 / 65535.0));
        }
        table
    });
    &TABLE
}

/// Linear light, 0..=1, of each encoded 8-bit value, computed in f64 and rounded once.
pub(crate) fn exact_linear_of_encoded8() -> &'static [f32; 256] {
    fn linear(encoded: f64) -> f64 {
        if encoded <= 0.040_45 { encoded / 12.92 } else { ((encoded + 0.055) / 1.055).powf(2.4) }
    }
    static TABLE: LazyLock<[f32; 256]> =
        LazyLock::new(|| std::array::from_fn(|encoded| linear(encoded as f64 / 255.0) as f32));
    &TABLE
}

/// A value in 0..=1, rounded to 255ths.
pub(crate) fn byte(value: f32) -> u8 {
    (value * 255.0 + 0.5) as u8
}

/// These operations in a GPU kernel.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use cubecl::prelude::*;

    /// Clamped to 0..=1.
    #[cube]
    pub(crate) fn unit(value: f32) -> f32 {
        min(max(value, f32::new(0.0)), f32::new(1.0))
    }

    /// Encoded value, 0..=255, of the channel of a packed pixel that begins at bit `shift`.
    #[cube]
    pub(crate) fn value(pixel: u32, shift: u32) -> f32 {
        f32::cast_from((pixel >> shift) & 255)
    }

    #[cube]
    pub(crate) fn byte(value: f32) -> u32 {
        u32::cast_from(value * 255.0 + 0.5)
    }

    #[cube]
    pub(crate) fn encoded(linear: f32) -> f32 {
        let mut value = linear * 12.92;
        if linear > 0.0031308 {
            value = 1.055 * f32::powf(linear, f32::new(0.416_666_67)) - 0.055;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoded_value_survives_linear_light_and_back() {
        for encoded in 0..=255_u8 {
            let at = usize::from(encoded);
            assert_eq!(encoded8_of_linear16()[usize::from(linear16_of_encoded8()[at])], encoded);
            for linear in [linear_of_encoded8()[at], exact_linear_of_encoded8()[at]] {
                assert_eq!(byte(encoded_of_linear(linear)), encoded);
                assert_eq!(encoded8_of_linear16()[(linear * 65535.0 + 0.5) as usize], encoded);
            }
        }
    }

    #[test]
    fn the_curve_passes_through_its_known_points() {
        assert_eq!((linear16_of_encoded8()[0], linear16_of_encoded8()[255]), (0, 65535));
        // Encoded mid-grey 188 is half the light (IEC 61966-2-1: 0.7354 encoded for 0.5 linear).
        assert_eq!(encoded8_of_linear16()[32768], 188);
        assert!((linear_of_encoded(0.5) - 0.214_04).abs() < 1e-4);
        assert!((encoded_of_linear(linear_of_encoded(0.3)) - 0.3).abs() < 1e-6);
    }

    #[test]
    fn both_precisions_are_kept_as_they_are() {
        let differ = |at: &usize| linear_of_encoded8()[*at].to_bits() != exact_linear_of_encoded8()[*at].to_bits();
        assert_eq!((0..256).filter(differ).count(), 214);
        let steps =
            |at: &usize| (exact_linear_of_encoded8()[*at] * 65535.0).round() as u16 != linear16_of_encoded8()[*at];
        assert_eq!((0..256).filter(steps).collect::<Vec<_>>(), [111]);
    }
}
