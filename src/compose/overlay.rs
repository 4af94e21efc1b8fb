//! Flat overlays: a shadow and a stroke over a background, a watermark over a picture, mixed in encoded values.
//!
//! *Source over* of Porter and Duff, "Compositing Digital Images", 1984, on sRGB-encoded values, as browsers and editors mix:
//! 40 % black over white is 153. So a shadow over a colour is what a browser makes of the transparent one on a page of that
//! colour. The edge of the subject is a mixture of light instead, made by a lens, and stays one (kernel `dst_over`).

use backdrop_kernels::dst_over::cpu::{Shadow, Stroke, Under};

/// The layers of one pixel so far, from the top.
pub(super) struct Pile {
    /// Premultiplied encoded values.
    sum: [f32; 3],
    /// What still comes through.
    rest: f32,
}

impl Pile {
    pub(super) const fn new() -> Self {
        Self { sum: [0.0; 3], rest: 1.0 }
    }

    /// Adds a layer of `coverage`, 0..=1, beneath the others.
    pub(super) fn add(&mut self, color: [u8; 3], coverage: f32) {
        let share = self.rest * coverage;
        for (sum, value) in self.sum.iter_mut().zip(color) {
            *sum += share * f32::from(value);
        }
        // Exactly 0 under a layer that covers all.
        self.rest -= share;
    }

    /// The same for a pixel with straight alpha.
    pub(super) fn add_pixel(&mut self, [red, green, blue, alpha]: [u8; 4]) {
        self.add([red, green, blue], f32::from(alpha) / 255.0);
    }

    /// The pixel, with straight alpha.
    pub(super) fn finished(self) -> [u8; 4] {
        let alpha = 1.0 - self.rest;
        let coverage = (alpha * 255.0 + 0.5) as u8;
        if coverage == 0 {
            return [0; 4];
        }
        let [red, green, blue] = self.sum.map(|value| (value / alpha + 0.5) as u8);
        [red, green, blue, coverage]
    }
}

/// `stroke` over `shadow` over `background`, where `canvas` (a row of packed RGBA8) lets them through. Rows in `to`.
pub(super) fn over<'a>(
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
        let mut pile = Pile::new();
        if let Some(stroke) = stroke {
            pile.add(stroke.color, f32::from(stroked) / 255.0);
        }
        if let Some(shadow) = shadow {
            pile.add(shadow.color, shade);
        }
        pile.add_pixel(below);
        *to = pile.finished();
    }
    Under::Pixels(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a browser shows of `pixel` on an opaque page: CSS compositing, in encoded values.
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
    fn forty_per_cent_of_black_on_white_is_what_editors_make_of_it() {
        for (opacity, expected) in [(0.0, 255), (0.35, 166), (0.4, 153), (0.5, 128), (1.0, 0)] {
            let pixel = mixed(None, Some((opacity, [0; 3])), [255; 4]);
            assert_eq!(pixel, [expected, expected, expected, 255], "{opacity}");
        }
        assert_eq!(mixed(Some((102, [0; 3])), None, [255; 4]), [153, 153, 153, 255]);
    }

    #[test]
    fn on_a_colour_it_is_what_a_browser_makes_of_the_transparent_one() {
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
                // Alpha and colour of the transparent one are rounded.
                assert!((f32::from(actual) - expected).abs() <= 1.51, "{seed}: {actual} for {expected}");
            }
        }
    }

    #[test]
    fn what_covers_nothing_changes_nothing() {
        for background in [[1, 2, 3, 4], [9, 8, 7, 255], [0; 4]] {
            assert_eq!(mixed(Some((0, [255; 3])), Some((0.0, [255; 3])), background), background);
            assert_eq!(mixed(None, None, background), background);
        }
    }
}
