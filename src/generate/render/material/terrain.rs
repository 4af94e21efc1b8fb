//! Procedural outdoor ground and dark boards: sand, snow, grass, moss, leaves, asphalt, water, ice, chalkboard.

use super::ShadingInput;
use crate::generate::falloff::smoothstep;
use crate::generate::linear_rgb::{mix, saturated, scaled, srgb};
use crate::generate::render::span::{RgbSpan, SPAN, TexCoords, line_coverage, per_pixel, sin_turns};

/// Wind ripples over soft swells, and grains.
pub(super) fn sand(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xDD_BE_91);
    let at = input.at;
    let sway = at.fbm([1.1, 0.9], input.seed(1), 4, 0.5);
    let swell = at.relief([0.8, 1.1], input.seed(2), 3, 0.45, input.light);
    let strength = at.fbm([0.9; 2], input.seed(3), 2, 0.5);
    let grain = at.fbm([170.0; 2], input.seed(4), 2, 0.9);
    let specks = at.fbm([90.0; 2], input.seed(5), 2, 0.7);
    let visibility = at.visibility(14.0);
    let mut light = RgbSpan::shaded(base, |i| {
        let phase = at.y[i] * 11.0 + 1.4 * at.x[i] + 1.9 * sway[i];
        let ripple = sin_turns(phase) * 0.7 + 0.3 * sin_turns(2.0 * phase + 0.17);
        let ripples = visibility * 0.13 * ripple * smoothstep(-0.5, 0.4, strength[i]);
        (1.0 + ripples + 0.24 * swell[i] + 0.11 * grain[i] + 0.05 * specks[i]).max(0.2)
    });
    light.mix_color(scaled(base, 0.35), |i| 0.35 * smoothstep(0.62, 0.85, specks[i]));
    light
}

/// Soft drifts with blue shadows and a glitter of crystals.
pub(super) fn snow(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xF2_F5_FA);
    let at = input.at;
    let drifts = at.relief([0.9, 1.4], input.seed(1), 4, 0.42, input.light);
    let crust = at.relief([18.0; 2], input.seed(2), 3, 0.5, input.light);
    let crystals = at.fbm([240.0; 2], input.seed(3), 1, 0.5);
    let mut light = RgbSpan::uniform(base);
    light.mix_color(srgb(0x9F_B6_D6), |i| smoothstep(0.15, -0.75, drifts[i] + 0.25 * crust[i]) * 0.8);
    light.scale(|i| 0.92 + 0.05 * crust[i] + 0.06 * drifts[i]);
    light.add([1.0; 3], |i| 0.5 * smoothstep(0.72, 0.95, crystals[i]));
    light
}

/// Grass blades as strokes, upright in the picture because blades stand. Two octaves of blade size cross-fade with distance.
pub(super) fn grass(input: &ShadingInput<'_>) -> RgbSpan {
    let at = input.at;
    // Scale of a row on the ground; a wall of grass has no perspective.
    let scale = (at.x[1] - at.x[0]).abs() / input.step.max(1e-6);
    let octave = scale.max(1e-3).log2();
    let (size, share) = (octave.floor(), octave - octave.floor());
    let at_size = |size: f32| {
        let size = size.exp2();
        let enlarged = size / scale.max(1e-3);
        TexCoords {
            x: per_pixel(|i| at.x[i] * enlarged),
            y: per_pixel(|_| input.row * size),
            footprint: [at.footprint[0] * enlarged, at.footprint[0] * enlarged],
        }
    };
    let mut light = blades(input, &at_size(size));
    light.mix(&blades(input, &at_size(size + 1.0)), |_| smoothstep(0.2, 0.8, share));
    let patches = at.fbm([0.8, 0.8], input.seed(5), 3, 0.5);
    light.mix_color(srgb(0xA8_9A_5A), |i| 0.35 * smoothstep(0.25, 0.9, patches[i]));
    light.scale(|i| 0.9 + 0.2 * patches[i]);
    light
}

fn blades(input: &ShadingInput<'_>, at: &TexCoords) -> RgbSpan {
    let base = input.base(0x5C_83_34);
    let lean = at.fbm([5.0, 2.0], input.seed(1), 2, 0.4);
    let bent = at.warped(&lean, &[0.0; SPAN], 0.03);
    let blades = bent.fbm([110.0, 13.0], input.seed(2), 3, 0.65);
    let behind = bent.fbm([60.0, 9.0], input.seed(3), 2, 0.6);
    let tufts = at.fbm([5.0, 5.0], input.seed(4), 4, 0.55);
    let young = mix(saturated(base, 1.15), srgb(0xB7_C2_5E), 0.5);
    let mut light = RgbSpan::blend(scaled(base, 0.3), base, |i| smoothstep(-0.7, 0.5, behind[i] + 0.5 * tufts[i]));
    light.mix_color(young, |i| 0.75 * smoothstep(-0.05, 0.75, blades[i] + 0.2 * tufts[i]));
    light
}

pub(super) fn moss(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x5B_74_2C);
    let at = input.at;
    let cushions = at.relief([5.0; 2], input.seed(1), 4, 0.55, input.light);
    let tips = at.fbm([85.0; 2], input.seed(2), 3, 0.75);
    let patches = at.fbm([2.0; 2], input.seed(3), 3, 0.5);
    let mut light = RgbSpan::blend(scaled(base, 0.35), mix(base, srgb(0xA6_B8_4A), 0.45), |i| {
        smoothstep(-0.8, 0.8, tips[i] + 0.7 * cushions[i])
    });
    light.scale(|i| (1.0 + 0.35 * cushions[i] + 0.2 * patches[i]).max(0.15));
    light
}

pub(super) fn leaves(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xB4_62_24);
    let at = input.at;
    let mut light = RgbSpan::uniform(srgb(0x3A_2A_1C));
    let hues =
        [base, mix(base, srgb(0xD9_A0_2E), 0.8), mix(base, srgb(0x8C_2F_1B), 0.7), mix(base, srgb(0x6B_4A_26), 0.8)];
    for (layer, scale) in [11.0, 9.0, 7.5].into_iter().enumerate() {
        let index = layer as u32;
        let wobble = at.fbm([scale * 1.8; 2], input.seed(10 + index), 2, 0.5);
        let turned = at.rotated([0.0, 0.6, 0.96][layer], [1.0, 0.8, 0.28][layer]).warped(&wobble, &wobble, 0.2 / scale);
        let cells = turned.cells([scale, scale * 0.62], input.seed(20 + index), 1.0);
        let footprint = (at.footprint[0].max(at.footprint[1]) * scale).max(0.02);
        let fine = at.fbm([scale * 6.0; 2], input.seed(30 + index), 2, 0.5);
        let covers =
            per_pixel(|i| ((0.42 + 0.2 * (cells.own[i] - 0.5) - cells.nearest[i]) / footprint + 0.5).clamp(0.0, 1.0));
        light.scale(|i| 1.0 - 0.5 * smoothstep(0.75, 0.4, cells.nearest[i]));
        for (hue, color) in hues.into_iter().enumerate() {
            let (low, high) = (hue as f32 * 0.25, (hue + 1) as f32 * 0.25);
            let shade = 0.55 + 0.2 * layer as f32;
            light.mix_color(scaled(color, shade), |i| {
                if cells.own[i] >= low && cells.own[i] < high { covers[i] * (0.85 + 0.15 * fine[i]) } else { 0.0 }
            });
        }
    }
    light
}

pub(super) fn asphalt(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x4B_4B_4D);
    let at = input.at;
    let cells = at.cells([95.0; 2], input.seed(1), 1.0);
    let visibility = at.visibility(95.0);
    let worn = at.fbm([1.4; 2], input.seed(2), 5, 0.6);
    let grain = at.grain(200.0, input.seed(3));
    let mut light = RgbSpan::uniform(base);
    light.mix_color(mix(base, [0.5; 3], 0.4), |i| {
        visibility * smoothstep(0.55, 0.95, cells.own[i]) * smoothstep(0.5, 0.2, cells.nearest[i])
    });
    light.scale(|i| {
        (1.0 + 0.2 * worn[i] + 0.14 * grain[i] - visibility * 0.25 * smoothstep(0.3, 0.7, cells.nearest[i])).max(0.1)
    });
    light
}

/// Colour of deep water; reflections are added by the renderer.
pub(super) fn water(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x1F_4E_5F);
    let at = input.at;
    let waves = at.relief([2.2, 6.0], input.seed(1), 5, 0.6, input.light);
    RgbSpan::shaded(base, |i| (1.0 + 0.5 * waves[i]).max(0.2))
}

/// Ice: cracks, clouds and trapped air.
pub(super) fn ice(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xB9_D6_E4);
    let at = input.at;
    let carried = at.swirled([1.6; 2], [input.seed(1), input.seed(2)], 4, 0.5, 0.16);
    let cells = carried.cells([2.2; 2], input.seed(3), 1.0);
    let fine = carried.cells([6.0; 2], input.seed(4), 1.0);
    let clouds = at.fbm([1.8; 2], input.seed(5), 5, 0.55);
    let footprint = at.footprint[0].max(at.footprint[1]);
    let mut light = RgbSpan::blend(scaled(base, 0.55), mix(base, [1.0; 3], 0.35), |i| smoothstep(-0.6, 0.7, clouds[i]));
    light.mix_color([0.95; 3], |i| {
        0.7 * line_coverage(cells.second[i] - cells.nearest[i], 0.012, (footprint * 2.2).max(0.012))
    });
    light.mix_color([0.95; 3], |i| {
        0.3 * line_coverage(fine.second[i] - fine.nearest[i], 0.012, (footprint * 6.0).max(0.02))
    });
    light
}

pub(super) fn chalkboard(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x2C_34_30);
    let at = input.at;
    let sway = at.fbm([0.7; 2], input.seed(1), 3, 0.5);
    let wiped = at.warped(&sway, &sway, 0.3).rotated(0.5, 0.866).fbm([0.8, 2.2], input.seed(2), 6, 0.65);
    let dust = at.grain(190.0, input.seed(3));
    let mut light = RgbSpan::uniform(base);
    light.mix_color([0.5, 0.52, 0.5], |i| 0.08 * smoothstep(-0.3, 0.9, wiped[i]) * (1.0 + 0.4 * dust[i]));
    light
}
