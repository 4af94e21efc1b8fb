//! Converts high dynamic range (PQ and HLG, ITU-R BT.2100) to sRGB, with the tone curve of ITU-R BT.2390 (section
//! 5.4.1) from a display of 1000 cd/m² to one with the white of BT.2408, 203 cd/m².
//!
//! The curve maps the largest channel. The other channels keep their ratio to it, so that hues stay.

use moxcms::Matrix3d;

/// Diffuse white and the brightest light, in cd/m².
const WHITE: f64 = 203.0;
const PEAK: f64 = 1000.0;
/// Luminance of each of BT.2020's primaries.
const LUMINANCE: [f32; 3] = [0.2627, 0.6780, 0.0593];
/// Entries of each tabulated curve.
const LEVELS: usize = 4096;

/// The conversion of a picture with given primaries and transfer curve.
#[derive(Debug)]
pub(in crate::codec) struct HighRange {
    is_hlg: bool,
    /// Light of each 16-bit sample: in units of [`WHITE`] for PQ; scene light (0 to 1) for HLG.
    light: Vec<f32>,
    /// Converts linear light to sRGB's primaries.
    matrix: [[f32; 3]; 3],
    /// Factor of light, indexed by the square root of light from 0 to [`PEAK`].
    gain: Vec<f32>,
    /// sRGB's curve in 16 bits, indexed by the square root of light.
    encoded: Vec<u16>,
}

impl HighRange {
    /// The conversion of light whose primaries `matrix` converts to sRGB's.
    pub(super) fn new(is_hlg: bool, matrix: &Matrix3d) -> Self {
        let sample = |level: u16| f64::from(level) / 65535.0;
        let light = |level| if is_hlg { hlg_scene(sample(level)) } else { pq_light(sample(level)) / WHITE };
        let step = |index: usize| index as f64 / (LEVELS - 1) as f64;
        let gain = |root: f64| {
            let light = (root * root * PEAK).max(1e-3);
            toned(light) / light
        };
        Self {
            is_hlg,
            light: (0..=u16::MAX).map(|level| light(level) as f32).collect(),
            matrix: matrix.v.map(|row| row.map(|value| value as f32)),
            gain: (0..LEVELS).map(|index| gain(step(index)) as f32).collect(),
            encoded: (0..LEVELS).map(|index| (srgb(step(index).powi(2)) * 65535.0).round() as u16).collect(),
        }
    }

    /// Converts the RGBA samples `from` to `to`; alpha is unchanged.
    pub(in crate::codec) fn apply(&self, from: &[u16], to: &mut [u16]) {
        let white_peak = (PEAK / WHITE) as f32;
        let at = |root: f32| (root.clamp(0.0, 1.0) * (LEVELS - 1) as f32).round() as usize;
        for (to, from) in to.as_chunks_mut::<4>().0.iter_mut().zip(from.as_chunks::<4>().0) {
            let mut light = [0, 1, 2].map(|channel| self.light[usize::from(from[channel])]);
            if self.is_hlg {
                // The display of BT.2100 has a system gamma of 1.2.
                let luminance: f32 = light.iter().zip(LUMINANCE).map(|(light, weight)| light * weight).sum();
                light = light.map(|light| light * luminance.powf(0.2) * white_peak);
            }
            let light = self.matrix.map(|row| row.iter().zip(light).map(|(weight, light)| weight * light).sum::<f32>());
            let largest = light.iter().copied().fold(0.0, f32::max);
            let gain = self.gain[at((largest / white_peak).sqrt())];
            let [red, green, blue] = light.map(|light| self.encoded[at((light * gain).max(0.0).sqrt())]);
            *to = [red, green, blue, from[3]];
        }
    }
}

/// Light of a PQ sample in cd/m² (BT.2100, table 4).
fn pq_light(sample: f64) -> f64 {
    let power = sample.powf(1.0 / PQ_M2);
    10_000.0 * ((power - PQ_C1).max(0.0) / (PQ_C2 - PQ_C3 * power)).powf(1.0 / PQ_M1)
}

fn pq_sample(light: f64) -> f64 {
    let power = (light / 10_000.0).powf(PQ_M1);
    ((PQ_C1 + PQ_C2 * power) / (1.0 + PQ_C3 * power)).powf(PQ_M2)
}

const PQ_M1: f64 = 2610.0 / 16384.0;
const PQ_M2: f64 = 2523.0 / 4096.0 * 128.0;
const PQ_C1: f64 = 3424.0 / 4096.0;
const PQ_C2: f64 = 2413.0 / 4096.0 * 32.0;
const PQ_C3: f64 = 2392.0 / 4096.0 * 32.0;

/// Scene light of an HLG sample, 0 to 1 (BT.2100, table 5).
fn hlg_scene(sample: f64) -> f64 {
    const A: f64 = 0.178_832_77;
    const B: f64 = 1.0 - 4.0 * A;
    const C: f64 = 0.559_910_73;
    if sample <= 0.5 { sample * sample / 3.0 } else { (((sample - C) / A).exp() + B) / 12.0 }
}

/// Tone-maps light in cd/m² from a display of [`PEAK`] to [`WHITE`]. In PQ: a line up to the knee, then a Hermite
/// spline.
fn toned(light: f64) -> f64 {
    let peak = pq_sample(PEAK);
    let (sample, most) = ((pq_sample(light) / peak).min(1.0), pq_sample(WHITE) / peak);
    let knee = 1.5 * most - 0.5;
    if sample < knee {
        return light;
    }
    let t = (sample - knee) / (1.0 - knee);
    let (t2, t3) = (t * t, t * t * t);
    let spline = (2.0 * t3 - 3.0 * t2 + 1.0) * knee + (t3 - 2.0 * t2 + t) * (1.0 - knee) + (3.0 * t2 - 2.0 * t3) * most;
    pq_light(spline * peak)
}

fn srgb(light: f64) -> f64 {
    if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::icc::CodePoints;

    fn converted(code_points: CodePoints, samples: [f64; 3]) -> [u8; 3] {
        let from = samples.map(|sample| (sample * 65535.0).round() as u16);
        let mut to = [0; 4];
        code_points.high_range().expect("high").apply(&[from[0], from[1], from[2], 7], &mut to);
        assert_eq!(to[3], 7);
        [0, 1, 2].map(|channel| (to[channel] / 257) as u8)
    }

    #[test]
    fn light_keeps_its_order_and_the_brightest_is_white() {
        let pq = CodePoints { primaries: 9, transfer: 16 };
        let grey = |light: f64| converted(pq, [pq_sample(light); 3]);
        let levels = [0.0, 1.0, 20.0, 100.0, 203.0, 400.0, 1000.0, 10_000.0].map(grey);
        assert!(levels.iter().all(|[r, g, b]| r.abs_diff(*g) <= 1 && g.abs_diff(*b) <= 1), "{levels:?}");
        assert!(levels.windows(2).all(|pair| pair[0][0] <= pair[1][0]), "{levels:?}");
        assert_eq!((levels[0], levels[6], levels[7]), ([0; 3], [255; 3], [255; 3]));
        // Below the knee, about 93 cd/m², light is unchanged: 20 of 203 cd/m² is a tenth of white.
        assert!(levels[2][0].abs_diff((srgb(20.0 / 203.0) * 255.0) as u8) <= 1, "{levels:?}");
    }

    #[test]
    fn hlg_at_three_quarters_is_diffuse_white_as_pq_at_203_is() {
        // BT.2408: 75 % HLG is 203 cd/m² on a display of 1000.
        let hlg = converted(CodePoints { primaries: 9, transfer: 18 }, [0.75; 3]);
        let pq = converted(CodePoints { primaries: 9, transfer: 16 }, [pq_sample(203.0); 3]);
        assert!(hlg[0].abs_diff(pq[0]) <= 2, "{hlg:?} {pq:?}");
    }
}
