//! Brightness and saturation on the CPU, of one pixel.

use super::{LUMA, STEPS};

/// The curve for a strength.
#[derive(Clone, Debug)]
pub struct Curve {
    pub(super) gain: f32,
    /// `Y'` of each step of `Y`, 0..=255.
    pub(super) lifted: Vec<f32>,
}

impl Curve {
    /// The curve for `strength`; `None` when it changes nothing: at most 0, or NaN.
    #[must_use]
    pub fn new(strength: f32) -> Option<Self> {
        let gain = 1.0 + strength;
        let step = |step: usize| 255.0 * (1.0 - (1.0 - step as f32 / (255 * STEPS) as f32).powf(gain));
        (strength > 0.0).then(|| Self { gain, lifted: (0..=255 * STEPS).map(step).collect() })
    }

    /// `pixel`, enhanced.
    #[must_use]
    pub fn enhanced(&self, pixel: [u8; 4]) -> [u8; 4] {
        let [red, green, blue, alpha] = pixel;
        if alpha == 0 {
            return pixel;
        }
        let [r, g, b] = [red, green, blue].map(f32::from);
        let luma = LUMA[0] * r + LUMA[1] * g + LUMA[2] * b;
        let step = (luma * STEPS as f32 + 0.5) as usize;
        let offset = self.lifted[step.min(255 * STEPS)] - self.gain * luma + 0.5;
        // The cast clamps.
        let [red, green, blue] = [r, g, b].map(|value| (self.gain * value + offset) as u8);
        [red, green, blue, alpha]
    }
}
