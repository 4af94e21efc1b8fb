//! Destination over on the CPU, one row at a time. Callers supply the rows of the layers and parallelise.

use crate::srgb::{byte, encoded8_of_linear16, exact_linear_of_encoded8};

/// Coverage of a stroke along a row, and its colour.
#[derive(Clone, Copy, Debug)]
pub struct Stroke<'a> {
    /// One value a pixel.
    pub coverage: &'a [u8],
    /// sRGB.
    pub color: [u8; 3],
}

/// Coverage of a shadow along a row, and its colour.
#[derive(Clone, Copy, Debug)]
pub struct Shadow<'a> {
    /// One value a pixel, 0..=1, because a blurred shadow has more shades than eight bits hold.
    pub coverage: &'a [f32],
    /// sRGB.
    pub color: [u8; 3],
    /// Factor of the coverage, 0..=1.
    pub opacity: f32,
}

/// The bottom layer.
#[derive(Clone, Copy, Debug, Default)]
pub enum Under<'a> {
    /// Transparent.
    #[default]
    Clear,
    /// One colour: sRGB, straight alpha.
    Color([u8; 4]),
    /// A row of packed RGBA8, sRGB, straight alpha.
    Pixels(&'a [u8]),
}

/// The layers under one row, topmost first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row<'a> {
    /// Directly under the canvas.
    pub stroke: Option<Stroke<'a>>,
    /// Under the stroke.
    pub shadow: Option<Shadow<'a>>,
    /// Under everything.
    pub background: Under<'a>,
}

/// Composites `layers` under `canvas`, a row of packed RGBA8.
///
/// # Panics
/// When a layer has fewer pixels than the canvas.
pub fn row(canvas: &mut [u8], layers: &Row<'_>) {
    let pixels = canvas.as_chunks_mut::<4>().0;
    let width = pixels.len();
    // Once a row, because each access checks whether the table is initialised.
    let (linear, encoded) = (exact_linear_of_encoded8(), encoded8_of_linear16());
    let light = |color: [u8; 3]| color.map(|value| linear[usize::from(value)]);
    let strokes = layers.stroke.map(|stroke| (&stroke.coverage[..width], light(stroke.color)));
    let shadows = layers.shadow.map(|shadow| (&shadow.coverage[..width], light(shadow.color), shadow.opacity));
    let behind = match layers.background {
        Under::Pixels(pixels) => &pixels.as_chunks::<4>().0[..width],
        Under::Clear | Under::Color(_) => &[],
    };
    let flat = match layers.background {
        Under::Color(color) => visible(color),
        Under::Clear | Under::Pixels(_) => [0; 4],
    };
    for (x, pixel) in pixels.iter_mut().enumerate() {
        if pixel[3] == 255 {
            continue;
        }
        let stroke = strokes.map_or(0, |(coverage, _)| coverage[x]);
        let shadow = shadows.map_or(0.0, |(coverage, _, opacity)| (coverage[x] * opacity).clamp(0.0, 1.0));
        let background = behind.get(x).map_or(flat, |&pixel| visible(pixel));
        if stroke == 0 && shadow <= 0.0 {
            if pixel[3] == 0 {
                *pixel = background;
                continue;
            }
            if background[3] == 0 {
                continue;
            }
        }
        let [red, green, blue, alpha] = *pixel;
        let mut accumulated = Accumulator { sum: [0.0; 3], transmittance: 1.0 };
        accumulated.add(light([red, green, blue]), f32::from(alpha) / 255.0);
        if let Some((_, color)) = strokes {
            accumulated.add(color, f32::from(stroke) / 255.0);
        }
        if let Some((_, color, _)) = shadows {
            accumulated.add(color, shadow);
        }
        if background[3] > 0 {
            let [red, green, blue, alpha] = background;
            accumulated.add(light([red, green, blue]), f32::from(alpha) / 255.0);
        }
        *pixel = accumulated.finish(encoded);
    }
}

/// The pixel, with its colour zeroed under alpha 0.
fn visible(pixel: [u8; 4]) -> [u8; 4] {
    if pixel[3] == 0 { [0; 4] } else { pixel }
}

struct Accumulator {
    /// Premultiplied linear light.
    sum: [f32; 3],
    /// Transmittance of the layers so far: the visible share of the next layer.
    transmittance: f32,
}

impl Accumulator {
    fn add(&mut self, color: [f32; 3], coverage: f32) {
        let share = self.transmittance * coverage;
        for (sum, color) in self.sum.iter_mut().zip(color) {
            *sum += share * color;
        }
        // Exactly 0 under an opaque layer.
        self.transmittance -= share;
    }

    fn finish(self, encoded: &[u8; 65536]) -> [u8; 4] {
        let alpha = 1.0 - self.transmittance;
        let coverage = byte(alpha);
        if coverage == 0 {
            return [0; 4];
        }
        let scale = 65535.0 / alpha;
        let [red, green, blue] = self.sum.map(|value| encoded[usize::from((value * scale + 0.5).min(65535.0) as u16)]);
        [red, green, blue, coverage]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::srgb::encoded_of_linear;

    fn noise(seed: u32) -> [u8; 4] {
        let hash = (seed ^ 0x9E37_79B9).wrapping_mul(0x85EB_CA6B);
        (hash ^ (hash >> 13)).wrapping_mul(0xC2B2_AE35).to_le_bytes()
    }

    fn by_the_formula(pixel: [u8; 4], layers: &[([u8; 3], f64)]) -> [f64; 4] {
        let linear = |value: u8| f64::from(exact_linear_of_encoded8()[usize::from(value)]);
        let mut alpha = f64::from(pixel[3]) / 255.0;
        let mut sum = [0, 1, 2].map(|channel| linear(pixel[channel]) * alpha);
        for (color, coverage) in layers {
            for channel in 0..3 {
                sum[channel] += (1.0 - alpha) * coverage * linear(color[channel]);
            }
            alpha += (1.0 - alpha) * coverage;
        }
        if 255.0 * alpha < 0.5 {
            return [0.0; 4];
        }
        let [red, green, blue] = sum.map(|value| 255.0 * f64::from(encoded_of_linear((value / alpha) as f32)));
        [red, green, blue, 255.0 * alpha]
    }

    #[test]
    fn every_stack_of_layers_matches_the_formula_to_the_nearest_step() {
        // Alpha and coverage are often none or whole.
        let layer = |seed: u32| {
            let [red, green, blue, alpha] = noise(seed);
            [red, green, blue, (u16::from(alpha) * 2).saturating_sub(128).min(255) as u8]
        };
        for at in 0..20_000 {
            let [pixel, stroke, shadow, behind] = [0, 1, 2, 3].map(|number| layer(4 * at + number));
            let opacity = f32::from(noise(at)[2]) / 255.0;
            let color = |layer: [u8; 4]| [layer[0], layer[1], layer[2]];
            let unit = |value: u8| f64::from(value) / 255.0;
            let expected = by_the_formula(
                pixel,
                &[
                    (color(stroke), unit(stroke[3])),
                    (color(shadow), unit(shadow[3]) * f64::from(opacity)),
                    (color(behind), unit(behind[3])),
                ],
            );
            for background in [Under::Pixels(&behind), Under::Color(behind)] {
                let mut canvas = pixel;
                let layers = Row {
                    stroke: Some(Stroke { coverage: &[stroke[3]], color: color(stroke) }),
                    shadow: Some(Shadow { coverage: &[f32::from(shadow[3]) / 255.0], color: color(shadow), opacity }),
                    background,
                };
                row(&mut canvas, &layers);
                for (actual, expected) in canvas.iter().zip(expected) {
                    let off = (f64::from(*actual) - expected).abs();
                    assert!(off < 0.53, "pixel {at}: {canvas:?}, off by {off}");
                }
            }
        }
    }
}
