//! Procedural stone and composites: marble, onyx, granite, travertine, sandstone, concrete, terrazzo, cork.

use super::{ShadingInput, even};
use crate::generate::falloff::{exp_falloff, smoothstep};
use crate::generate::linear_rgb::{luminance, mix, saturated, scaled, srgb};
use crate::generate::render::span::{RgbSpan, line_coverage, per_pixel};

/// Marble veins at the zero crossings of domain-warped noise: few strong veins and a net of fine ones.
pub(super) fn marble(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xF0_EE_EA);
    let dark = luminance(base) < 0.18;
    let at = input.at.rotated(0.53, 0.848);
    let carried = at.swirled([1.1, 1.5], [input.seed(1), input.seed(2)], 5, 0.55, 0.42);
    let strong = carried.fbm([0.55, 1.25], input.seed(3), 3, 0.45);
    let fine = carried.fbm([0.9, 3.8], input.seed(4), 3, 0.4);
    let clouds = carried.fbm([1.4, 1.4], input.seed(5), 4, 0.5);
    let present = input.at.fbm([0.8, 0.8], input.seed(6), 2, 0.5);
    let footprint = input.at.footprint[0].max(input.at.footprint[1]);
    let vein = per_pixel(|i| {
        let shown = smoothstep(-0.35, 0.45, present[i]);
        let wide = 0.016 + 0.05 * shown + footprint;
        let narrow = 0.012 + 2.0 * footprint;
        let strong = exp_falloff(strong[i].abs() / wide) * (0.25 + 0.6 * shown);
        let halo = 0.28 * exp_falloff(strong_halo(strong, shown));
        let fine = 0.13
            * exp_falloff(fine[i].abs() / narrow)
            * smoothstep(0.15, -0.4, present[i] - 0.35)
            * (0.02 / narrow).min(1.0);
        (strong + halo * 0.4 + fine).min(1.0)
    });
    let (cloud, veins) = if dark {
        (scaled(base, 2.2), mix(srgb(0xD9_D2_C4), scaled(base, 3.0).map(|value| value.min(1.0)), 0.25))
    } else {
        (mix(scaled(base, 0.7), srgb(0xA9_AA_AE), 0.4), mix(scaled(base, 0.3), srgb(0x77_74_70), 0.55))
    };
    let mut light = RgbSpan::blend(base, cloud, |i| smoothstep(-0.15, 0.95, clouds[i]) * 0.55);
    light.mix_color(veins, |i| vein[i]);
    light
}

/// The light seam around a strong vein.
#[inline(always)]
fn strong_halo(strong: f32, shown: f32) -> f32 {
    (1.0 - strong) * 2.5 + (1.0 - shown)
}

/// Onyx: domain-warped colour bands.
pub(super) fn onyx(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xC9_8F_4E);
    let at = input.at;
    let carried = at.swirled([0.9; 2], [input.seed(1), input.seed(2)], 4, 0.5, 0.5);
    let bands = carried.fbm([0.5, 3.2], input.seed(3), 5, 0.6);
    let seams = carried.fbm([0.8, 5.0], input.seed(4), 3, 0.5);
    let mut light =
        RgbSpan::blend(scaled(base, 0.45), mix(base, srgb(0xF6_E8_CF), 0.6), |i| smoothstep(-0.7, 0.7, bands[i]));
    light.mix_color(srgb(0xFB_F4_E6), |i| 0.55 * exp_falloff(seams[i].abs() / 0.03));
    light
}

pub(super) fn granite(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x8F_8B_88);
    let at = input.at;
    let wobble = at.fbm([60.0; 2], input.seed(1), 2, 0.5);
    let moved = at.warped(&wobble, &wobble, 0.006);
    let large = moved.cells([55.0; 2], input.seed(2), 1.0);
    let small = moved.cells([120.0; 2], input.seed(3), 1.0);
    let clouds = at.fbm([3.0; 2], input.seed(4), 3, 0.5);
    let visibility = at.visibility(55.0);
    let mut light = RgbSpan::shaded(base, |i| 1.0 + 0.1 * clouds[i]);
    let own =
        |own: f32, from: f32, to: f32| smoothstep(from, from + 0.03, own) * (1.0 - smoothstep(to, to + 0.03, own));
    light.mix_color(scaled(base, 0.12), |i| visibility * 0.85 * own(large.own[i], 0.0, 0.2));
    light.mix_color(mix(base, [0.85; 3], 0.6), |i| visibility * 0.7 * own(large.own[i], 0.7, 1.1));
    light.mix_color(scaled(base, 0.3), |i| visibility * 0.6 * own(small.own[i], 0.8, 1.1));
    light
}

/// Even layers with pores along them.
pub(super) fn travertine(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xD9_C8_AC);
    let at = input.at;
    let sway = at.fbm([1.0, 1.5], input.seed(1), 3, 0.5);
    let carried = at.warped(&sway, &sway, 0.06);
    let layers = carried.fbm([0.7, 14.0], input.seed(2), 4, 0.6);
    let pores = carried.fbm([14.0, 70.0], input.seed(3), 2, 0.6);
    let where_pores = at.fbm([2.0, 9.0], input.seed(4), 2, 0.5);
    let mut light =
        RgbSpan::blend(scaled(base, 0.78), mix(base, srgb(0xF5_EC_DC), 0.5), |i| smoothstep(-0.7, 0.7, layers[i]));
    light.mix_color(scaled(base, 0.32), |i| {
        0.75 * smoothstep(0.42, 0.62, pores[i]) * smoothstep(-0.1, 0.3, where_pores[i])
    });
    light
}

pub(super) fn sandstone(input: &ShadingInput<'_>) -> RgbSpan {
    let sway = input.at.fbm([0.8, 1.2], input.seed(8), 4, 0.5);
    let carried = input.at.warped(&sway, &sway, 0.18);
    let layers = carried.fbm([0.5, 7.0], input.seed(9), 4, 0.6);
    let mut light = input.even(0xC9_9A_6B, &even(0.06, 3.0, 0.12, 150.0, 0.12, 10.0));
    light.scale(|i| 1.0 + 0.28 * layers[i]);
    light
}

/// Concrete: clouds, stains, pores and formwork marks.
pub(super) fn concrete(input: &ShadingInput<'_>) -> RgbSpan {
    let at = input.at;
    let mut light = input.even(0xA8_A6_A2, &even(0.09, 1.3, 0.035, 170.0, 0.05, 12.0));
    let stains = at.fbm([0.9, 0.5], input.seed(4), 5, 0.6);
    let pits = at.cells([30.0; 2], input.seed(5), 1.0);
    let visibility = at.visibility(110.0);
    let hole = per_pixel(|i| {
        visibility * 0.55 * smoothstep(0.14, 0.06, pits.nearest[i] + 0.12 * (1.0 - smoothstep(0.75, 0.8, pits.own[i])))
    });
    light.scale(|i| (1.0 + 0.1 * stains[i]) * (1.0 - hole[i]));
    light
}

/// Chips of a few colours in a fine cement, of three sizes.
pub(super) fn terrazzo(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xE9_E4_DC);
    let at = input.at;
    let mut light = input.even(0xE9_E4_DC, &even(0.02, 2.0, 0.03, 220.0, 0.0, 1.0));
    let hues = [0xC4_7A_5A, 0x5E_6B_68, 0xD9_B3_8C, 0x8E_A3_9B, 0x3F_3F_44, 0xF7_F3_EC];
    let warm = input.surface.color.is_some();
    let chip = |index: usize| {
        let own = srgb(hues[index % hues.len()]);
        if warm { mix(own, scaled(saturated(base, 1.3), 0.6 + 0.25 * (index % 3) as f32), 0.6) } else { own }
    };
    for (size, scale) in [9.0, 17.0, 34.0].into_iter().enumerate() {
        let index = size as u32;
        let wobble = at.fbm([scale * 1.6; 2], input.seed(20 + index), 2, 0.5);
        let cells = at.warped(&wobble, &wobble, 0.16 / scale).cells([scale; 2], input.seed(10 + index), 0.95);
        let footprint = at.footprint[0].max(at.footprint[1]) * scale;
        let share = [0.42, 0.4, 0.32][size];
        let edge = 0.2 + 0.12 * size as f32 * 0.5;
        let inside = |i: usize| {
            let chosen = if cells.own[i] < share { 1.0 } else { 0.0 };
            chosen * smoothstep(edge - 0.03 - footprint, edge + 0.03 + footprint, cells.second[i] - cells.nearest[i])
        };
        for hue in 0..hues.len() {
            let (low, high) = (share * hue as f32 / 6.0, share * (hue + 1) as f32 / 6.0);
            light.mix_color(chip(hue + size), |i| {
                if cells.own[i] >= low && cells.own[i] < high { 0.92 * inside(i) } else { 0.0 }
            });
        }
    }
    light
}

/// Cork: pressed grains, light and dark.
pub(super) fn cork(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xBE_8F_5C);
    let at = input.at;
    let wobble = at.fbm([40.0; 2], input.seed(1), 2, 0.5);
    let cells = at.warped(&wobble, &wobble, 0.008).cells([38.0; 2], input.seed(2), 1.0);
    let visibility = at.visibility(38.0);
    let mut light = RgbSpan::blend(scaled(base, 0.72), mix(base, srgb(0xE3_BE_90), 0.5), |i| cells.own[i]);
    let footprint = at.footprint[0].max(at.footprint[1]) * 38.0;
    light.mix_color(scaled(base, 0.25), |i| {
        visibility * 0.5 * line_coverage(cells.second[i] - cells.nearest[i], 0.07, footprint.max(0.08))
    });
    let grain = at.grain(150.0, input.seed(3));
    light.scale(|i| 1.0 + 0.14 * grain[i]);
    light
}
