//! Flat layers on the CPU, front to back: one row at a time.

use crate::dst_over::cpu::{Shadow, Stroke, Under};

/// Accumulates the layers of one pixel front to back.
#[derive(Clone, Copy, Debug)]
pub struct FrontToBack {
    sum: [f32; 3],
    rest: f32,
}

impl FrontToBack {
    /// No layer yet.
    pub const EMPTY: Self = Self { sum: [0.0; 3], rest: 1.0 };

    /// Adds a layer of `coverage`, 0..=1, beneath the others.
    pub fn add(&mut self, color: [u8; 3], coverage: f32) {
        let share = self.rest * coverage;
        for (sum, value) in self.sum.iter_mut().zip(color) {
            *sum += share * f32::from(value);
        }
        // Exactly 0 under an opaque layer.
        self.rest -= share;
    }

    /// Adds a pixel with straight alpha.
    pub fn add_pixel(&mut self, [red, green, blue, alpha]: [u8; 4]) {
        self.add([red, green, blue], f32::from(alpha) / 255.0);
    }

    /// The pixel, with straight alpha.
    #[must_use]
    pub fn finish(self) -> [u8; 4] {
        let alpha = 1.0 - self.rest;
        let coverage = (alpha * 255.0 + 0.5) as u8;
        if coverage == 0 {
            return [0; 4];
        }
        let [red, green, blue] = self.sum.map(|value| (value / alpha + 0.5) as u8);
        [red, green, blue, coverage]
    }
}

/// `stroke` over `shadow` over `background`, written to `to` where `canvas` (a row of packed RGBA8) is not opaque.
pub fn over<'a>(
    canvas: &[u8],
    stroke: Option<Stroke<'_>>,
    shadow: Option<Shadow<'_>>,
    background: Under<'_>,
    to: &'a mut Vec<u8>,
) -> Under<'a> {
    to.resize(canvas.len(), 0);
    let pixels = to.as_chunks_mut::<4>().0.iter_mut().zip(canvas.as_chunks::<4>().0);
    for (x, (to, above)) in pixels.enumerate() {
        if above[3] == 255 {
            continue;
        }
        let below = match background {
            Under::Clear => [0; 4],
            Under::Color(color) => color,
            Under::Pixels(pixels) => pixels.as_chunks::<4>().0[x],
        };
        let stroked = stroke.map_or(0, |stroke| stroke.coverage[x]);
        let shade = shadow.map_or(0.0, |shadow| (shadow.coverage[x] * shadow.opacity).clamp(0.0, 1.0));
        if stroked == 0 && shade <= 0.0 {
            *to = below;
            continue;
        }
        let mut layers = FrontToBack::EMPTY;
        if let Some(stroke) = stroke {
            layers.add(stroke.color, f32::from(stroked) / 255.0);
        }
        if let Some(shadow) = shadow {
            layers.add(shadow.color, shade);
        }
        layers.add_pixel(below);
        *to = layers.finish();
    }
    Under::Pixels(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pixel` as a browser shows it on an opaque page: CSS compositing of encoded values.
    fn in_a_browser(pixel: [u8; 4], page: [u8; 3]) -> [f32; 3] {
        let alpha = f32::from(pixel[3]) / 255.0;
        std::array::from_fn(|at| alpha * f32::from(pixel[at]) + (1.0 - alpha) * f32::from(page[at]))
    }

    fn mixed(stroke: Option<(u8, [u8; 3])>, shadow: Option<(f32, [u8; 3])>, background: [u8; 4]) -> [u8; 4] {
        let coverage = [stroke.map_or(0, |(coverage, _)| coverage)];
        let shade = [1.0];
        let stroke = stroke.map(|(_, color)| Stroke { coverage: &coverage, color });
        let shadow = shadow.map(|(opacity, color)| Shadow { coverage: &shade, color, opacity });
        let mut to = Vec::new();
        match over(&[0; 4], stroke, shadow, Under::Color(background), &mut to) {
            Under::Pixels(&[red, green, blue, alpha]) => [red, green, blue, alpha],
            other @ (Under::Clear | Under::Color(_) | Under::Pixels(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn black_over_white_mixes_encoded_values_as_editors_do() {
        for (opacity, expected) in [(0.0, 255), (0.35, 166), (0.4, 153), (0.5, 128), (1.0, 0)] {
            let pixel = mixed(None, Some((opacity, [0; 3])), [255; 4]);
            assert_eq!(pixel, [expected, expected, expected, 255], "{opacity}");
        }
        assert_eq!(mixed(Some((102, [0; 3])), None, [255; 4]), [153, 153, 153, 255]);
    }

    #[test]
    fn over_a_colour_it_equals_the_transparent_result_in_a_browser() {
        let noise = |seed: u32| (seed ^ 0x9E37_79B9).wrapping_mul(0x85EB_CA6B).rotate_left(13).to_le_bytes();
        for seed in 0..5000 {
            let ([r, g, b, cover], [red, green, blue, shade]) = (noise(2 * seed), noise(2 * seed + 1));
            let page = [r ^ blue, g ^ red, b ^ green];
            let stroke = Some((cover, [r, g, b]));
            let shadow = Some((f32::from(shade) / 255.0, [red, green, blue]));
            let expected = in_a_browser(mixed(stroke, shadow, [0; 4]), page);
            let actual = mixed(stroke, shadow, [page[0], page[1], page[2], 255]);
            assert_eq!(actual[3], 255);
            for (actual, expected) in actual.into_iter().zip(expected) {
                // Alpha and colour of the transparent result are rounded.
                assert!((f32::from(actual) - expected).abs() <= 1.51, "{seed}: {actual} for {expected}");
            }
        }
    }

    #[test]
    fn layers_without_coverage_change_nothing() {
        for background in [[1, 2, 3, 4], [9, 8, 7, 255], [0; 4]] {
            assert_eq!(mixed(Some((0, [255; 3])), Some((0.0, [255; 3])), background), background);
            assert_eq!(mixed(None, None, background), background);
        }
    }
}
