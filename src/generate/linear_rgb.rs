//! Colour arithmetic in linear-light RGB (sRGB primaries).

/// Linear red, green and blue: 0..1; light sources may exceed 1.
pub(super) type Rgb = [f32; 3];

/// Decodes an sRGB colour, written `0xRRGGBB`.
pub(super) fn srgb(code: u32) -> Rgb {
    [16, 8, 0].map(|shift| crate::image::color::linear_of_encoded(((code >> shift) & 0xFF) as f32 / 255.0))
}

/// Linear interpolation from `first` (`share` 0) to `second` (1).
pub(super) fn mix(first: Rgb, second: Rgb, share: f32) -> Rgb {
    std::array::from_fn(|channel| first[channel] + share * (second[channel] - first[channel]))
}

/// Every channel times `factor`.
pub(super) fn scaled(color: Rgb, factor: f32) -> Rgb {
    color.map(|value| value * factor)
}

/// Product of each channel.
pub(super) fn product(first: Rgb, second: Rgb) -> Rgb {
    std::array::from_fn(|channel| first[channel] * second[channel])
}

/// Relative luminance (Rec. 709).
pub(super) fn luminance([red, green, blue]: Rgb) -> f32 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// Scales saturation around the luminance; above 1 is more colourful.
pub(super) fn saturated(color: Rgb, factor: f32) -> Rgb {
    let grey = luminance(color);
    color.map(|value| (grey + (value - grey) * factor).max(0.0))
}

/// The colour normalised to luminance 1: the tint of a light of this colour.
pub(super) fn as_tint(color: Rgb) -> Rgb {
    let bright = luminance(color).max(1e-3);
    color.map(|value| value / bright)
}
