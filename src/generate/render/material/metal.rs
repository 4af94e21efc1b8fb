//! Procedural metal: brushed steel, gold and copper; rust.

use super::ShadingInput;
use crate::generate::falloff::smoothstep;
use crate::generate::linear_rgb::{mix, scaled, srgb};
use crate::generate::render::span::RgbSpan;

/// Metal brushed along x: fine strokes over the wide soft bands of an anisotropic reflection.
pub(super) fn brushed(input: &ShadingInput<'_>, own: u32) -> RgbSpan {
    let base = input.base(own);
    let at = input.at;
    let strokes = at.fbm([1.6, 210.0], input.seed(1), 3, 0.7);
    let coarse = at.fbm([0.8, 40.0], input.seed(2), 3, 0.6);
    let bands = at.fbm([0.9, 0.5], input.seed(3), 2, 0.4);
    let mut light = RgbSpan::shaded(base, |i| (0.82 + 0.42 * bands[i] + 0.09 * strokes[i] + 0.05 * coarse[i]).max(0.1));
    light.add(mix(base, [1.0; 3], 0.5), |i| 0.26 * smoothstep(0.15, 0.8, bands[i]));
    light
}

pub(super) fn rust(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x8A_45_22);
    let at = input.at;
    let carried = at.swirled([3.0; 2], [input.seed(1), input.seed(2)], 4, 0.55, 0.12);
    let blotches = carried.fbm([3.2; 2], input.seed(3), 6, 0.6);
    let relief = at.relief([18.0; 2], input.seed(4), 4, 0.6, input.light);
    let runs = at.fbm([18.0, 0.9], input.seed(5), 3, 0.5);
    let mut light =
        RgbSpan::blend(scaled(base, 0.3), mix(base, srgb(0xC9_7A_3A), 0.6), |i| smoothstep(-0.6, 0.6, blotches[i]));
    light.mix_color(srgb(0x4E_55_5A), |i| 0.75 * smoothstep(0.35, 0.6, blotches[i] - 0.25 * runs[i] - 0.15));
    light.scale(|i| (1.0 + 0.3 * relief[i] + 0.12 * runs[i]).max(0.15));
    light
}
