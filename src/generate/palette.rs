//! Colours in linear light.

/// Linear red, green and blue, 0..1 but for lights, which may be brighter.
pub(super) type Rgb = [f32; 3];

/// The linear light of an sRGB colour, written as `0xRRGGBB`.
pub(super) fn srgb(code: u32) -> Rgb {
    [16, 8, 0].map(|shift| crate::image::color::linear_of_encoded(((code >> shift) & 0xFF) as f32 / 255.0))
}

/// Between two colours: `share` 0 is the first, 1 the second.
pub(super) fn mix(first: Rgb, second: Rgb, share: f32) -> Rgb {
    std::array::from_fn(|channel| first[channel] + share * (second[channel] - first[channel]))
}

/// Every channel times `factor`.
pub(super) fn scaled(color: Rgb, factor: f32) -> Rgb {
    color.map(|value| value * factor)
}

/// Channel by channel.
pub(super) fn product(first: Rgb, second: Rgb) -> Rgb {
    std::array::from_fn(|channel| first[channel] * second[channel])
}

/// How bright a colour looks (Rec. 709).
pub(super) fn luminance([red, green, blue]: Rgb) -> f32 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// Further from grey (`factor` above 1), or nearer to it.
pub(super) fn saturated(color: Rgb, factor: f32) -> Rgb {
    let grey = luminance(color);
    color.map(|value| (grey + (value - grey) * factor).max(0.0))
}

/// The same hue with a luminance of 1: what a light of this colour does to white.
pub(super) fn as_tint(color: Rgb) -> Rgb {
    let bright = luminance(color).max(1e-3);
    color.map(|value| value / bright)
}

/// 0 up to `from`, 1 from `to` on, smooth between.
#[inline(always)]
pub(super) fn smooth(from: f32, to: f32, value: f32) -> f32 {
    let t = ((value - from) / (to - from)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// A bell about 0 that ends at ±1: `(1 - x²)²`, close to `exp(-2 x²)` and no call.
#[inline(always)]
pub(super) fn bell(value: f32) -> f32 {
    let rest = (1.0 - value * value).max(0.0);
    rest * rest
}

/// Close to `exp(-value)` for `value` of 0 and up, without a call: `(1 + v / 8)^-8`.
#[inline(always)]
pub(super) fn fading(value: f32) -> f32 {
    let near = 1.0 / (1.0 + value.max(0.0) * 0.125);
    let squared = near * near;
    let fourth = squared * squared;
    fourth * fourth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_decoded_channel_by_channel() {
        assert_eq!(srgb(0xFF_00_FF), [1.0, 0.0, 1.0]);
        assert!((srgb(0x80_80_80)[1] - 0.2159).abs() < 1e-3);
    }

    #[test]
    fn falloffs_fall_off() {
        assert_eq!((bell(0.0), bell(1.0), bell(-3.0)), (1.0, 0.0, 0.0));
        assert_eq!(fading(0.0), 1.0);
        for value in [0.1_f32, 0.7, 2.0] {
            assert!((fading(value) - (-value).exp()).abs() < 0.05, "{value}");
        }
    }
}
