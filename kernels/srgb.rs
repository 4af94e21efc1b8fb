//! The sRGB transfer function (IEC 61966-2-1), as the kernels use it.

use std::sync::LazyLock;

/// Linear light, 0..=1, of an encoded value in 0..=1.
fn linear(encoded: f64) -> f64 {
    if encoded <= 0.040_45 { encoded / 12.92 } else { ((encoded + 0.055) / 1.055).powf(2.4) }
}

/// Encoded value of linear light in 0..=1.
pub(crate) fn encoded(linear: f32) -> f32 {
    if linear <= 0.003_130_8 { linear * 12.92 } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 }
}

/// Linear light of each 8-bit sRGB value.
pub(crate) fn linear_table() -> &'static [f32; 256] {
    static TABLE: LazyLock<[f32; 256]> =
        LazyLock::new(|| std::array::from_fn(|value| linear(value as f64 / 255.0) as f32));
    &TABLE
}

/// The 8-bit sRGB value of each linear light in 65535ths. The darkest values are 20 steps apart there, so a light is
/// rounded wrongly only where it lies within a 40th of a level of the middle between two.
pub(crate) fn encoded_table() -> &'static [u8; 65536] {
    static TABLE: LazyLock<Box<[u8; 65536]>> = LazyLock::new(|| {
        let mut table = Box::new([0; 65536]);
        for (linear, value) in table.iter_mut().enumerate() {
            *value = byte(encoded(linear as f32 / 65535.0));
        }
        table
    });
    &TABLE
}

/// A value in 0..=1, rounded to 255ths.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is in 0..=1")]
pub(crate) fn byte(value: f32) -> u8 {
    (value * 255.0 + 0.5) as u8
}

/// The same as operations of a GPU kernel.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use cubecl::prelude::*;

    /// Clamped to 0..=1.
    #[cube]
    pub(crate) fn unit(value: f32) -> f32 {
        min(max(value, f32::new(0.0)), f32::new(1.0))
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
    fn every_value_survives_linear_light_and_back() {
        for value in 0..=255_u8 {
            let linear = linear_table()[usize::from(value)];
            assert_eq!(byte(encoded(linear)), value);
            assert_eq!(encoded_table()[(linear * 65535.0 + 0.5) as usize], value);
        }
    }
}
