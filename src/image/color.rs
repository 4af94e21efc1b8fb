//! A colour with alpha, and the sRGB transfer function of [`backdrop_kernels::srgb`].

pub use backdrop_kernels::srgb::{encoded_of_linear, encoded8_of_linear16, linear_of_encoded, linear16_of_encoded8};

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

    /// Red, green and blue, without alpha.
    #[must_use]
    pub const fn rgb(self) -> [u8; 3] {
        let [red, green, blue, _] = self.0;
        [red, green, blue]
    }
}
