//! Light wrap on the CPU, by rows.

use super::{TINT_STRENGTH, WRAP_STRENGTH};
use crate::dst_over::cpu::Under;
use crate::srgb::{encoded8_of_linear16, linear16_of_encoded8};

/// Tints translucent pixels of `row` by `tint` (factors of linear RGB) and mixes in opaque colours of `behind`.
pub fn row(row: &mut [u8], behind: Under<'_>, tint: [f32; 3]) {
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
        for (channel, tint) in tint.into_iter().enumerate() {
            let own = f32::from(linear[usize::from(pixel[channel])]);
            let lit = own * (1.0 + TINT_STRENGTH * transmittance * (tint - 1.0));
            let other = background.map_or(lit, |background| f32::from(linear[usize::from(background[channel])]));
            let wrapped = lit + WRAP_STRENGTH * transmittance * (other - lit);
            pixel[channel] = encoded[usize::from((wrapped + 0.5).clamp(0.0, 65535.0) as u16)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_translucent_pixels_change_and_an_opaque_background_shows() {
        let pixels = [[200, 100, 50, 255], [200, 100, 50, 128], [200, 100, 50, 0]];
        let wrapped = |behind, tint| {
            let mut pixels = pixels.as_flattened().to_vec();
            row(&mut pixels, behind, tint);
            pixels.as_chunks::<4>().0.to_vec()
        };
        assert_eq!(wrapped(Under::Clear, [1.0; 3]), pixels);
        assert_eq!(wrapped(Under::Color([0, 0, 0, 254]), [1.0; 3]), pixels, "it is not opaque");
        let [first, edge, last] = wrapped(Under::Color([0, 0, 0, 255]), [1.0, 2.0, 1.0])[..] else {
            panic!("three pixels")
        };
        assert_eq!((first, last), (pixels[0], pixels[2]));
        assert!(edge[0] < 200 && edge[1] > 100 && edge[2] < 50 && edge[3] == 128, "{edge:?}");
    }
}
