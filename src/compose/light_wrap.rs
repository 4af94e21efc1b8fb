//! Light wrap: tints the subject's translucent edge with the background's light and mixes in the background's colour.
//!
//! A translucent pixel is lens blur, hair or glass, and part of its light comes from the scene behind. Opaque pixels
//! stay bit for bit.

use super::Grounding;
use crate::image::color::{encoded8_of_linear16, linear16_of_encoded8};
use backdrop_kernels::dst_over::cpu::Under;

/// Strength of the light's tint, and of the background's colour, at the outermost edge.
const TINT_STRENGTH: f32 = 0.5;
const WRAP_STRENGTH: f32 = 0.22;

/// The light's tint, ready to be applied row by row.
#[derive(Clone, Copy, Debug)]
pub(super) struct LightWrap {
    /// Factors for linear red, green and blue.
    tint: [f32; 3],
}

impl LightWrap {
    /// The wrap of a scene's light; its factors are clamped to 0..=4.
    pub(super) fn new(grounding: &Grounding) -> Self {
        let tint = grounding.light.tint.map(|factor| if factor.is_nan() { 1.0 } else { factor.clamp(0.0, 4.0) });
        Self { tint }
    }

    /// Tints the translucent pixels of a row and mixes in the opaque colour `behind` them, in linear light.
    pub(super) fn apply(&self, row: &mut [u8], behind: Under<'_>) {
        let (linear, encoded) = (linear16_of_encoded8(), encoded8_of_linear16());
        for (x, pixel) in row.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let [.., alpha] = *pixel;
            if matches!(alpha, 0 | 255) {
                continue;
            }
            let transmittance = 1.0 - f32::from(alpha) / 255.0;
            let background = match behind {
                Under::Clear => None,
                Under::Color(color) => Some(color),
                Under::Pixels(pixels) => pixels.as_chunks::<4>().0.get(x).copied(),
            };
            let background = background.filter(|background| background[3] == 255);
            for (channel, tint) in self.tint.into_iter().enumerate() {
                let own = f32::from(linear[usize::from(pixel[channel])]);
                let lit = own * (1.0 + TINT_STRENGTH * transmittance * (tint - 1.0));
                let other = background.map_or(lit, |background| f32::from(linear[usize::from(background[channel])]));
                let wrapped = lit + WRAP_STRENGTH * transmittance * (other - lit);
                pixel[channel] = encoded[usize::from((wrapped + 0.5).clamp(0.0, 65535.0) as u16)];
            }
        }
    }
}
