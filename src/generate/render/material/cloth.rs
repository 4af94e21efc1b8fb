//! Procedural fabrics: woven and knitted cloth, velvet, silk, curtain, leather, fur, paper, rattan.

use super::ShadingInput;
use crate::generate::falloff::smoothstep;
use crate::generate::linear_rgb::{Rgb, mix, scaled, srgb};
use crate::generate::render::span::{RgbSpan, ScalarSpan, TexCoords, per_pixel, sin_turns};

/// Relief shading of wide, soft folds, about -1..1.
fn folds(input: &ShadingInput<'_>, at: &TexCoords, scale: [f32; 2], depth: f32) -> ScalarSpan {
    let swirled = at.swirled([0.7; 2], [input.seed(40), input.seed(41)], 3, 0.45, depth);
    swirled.relief(scale, input.seed(42), 2, 0.4, input.light)
}

/// Plain weave: threads over and under, thick and thin.
pub(super) fn weave(input: &ShadingInput<'_>, own: u32, threads: f32, rough: f32) -> RgbSpan {
    let base = input.base(own);
    let at = input.at;
    // Slubs: the thickness of each thread varies.
    let warp_slub = at.fbm([threads * 0.9, threads * 0.035], input.seed(1), 3, 0.6);
    let weft_slub = at.fbm([threads * 0.035, threads * 0.9], input.seed(2), 3, 0.6);
    let clouds = at.fbm([1.5; 2], input.seed(3), 3, 0.5);
    let folds = folds(input, at, [0.9, 1.1], 0.25);
    let visibility = at.visibility(threads * 1.2);
    RgbSpan::shaded(base, |i| {
        let over = sin_turns(at.x[i] * threads * 0.5 + 0.25) * sin_turns(at.y[i] * threads * 0.5 + 0.25);
        let thread = 0.5
            * (sin_turns(at.x[i] * threads) * (0.5 - 0.5 * over) + sin_turns(at.y[i] * threads) * (0.5 + 0.5 * over));
        let slub = 0.5
            * rough
            * (warp_slub[i] * (0.5 - 0.5 * over * visibility) + weft_slub[i] * (0.5 + 0.5 * over * visibility));
        (1.0 + visibility * 0.3 * thread * (0.4 + rough) + 0.32 * slub + 0.04 * clouds[i] + 0.16 * folds[i]).max(0.1)
    })
}

pub(super) fn knit(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xD6_CB_BD);
    let at = input.at;
    let (columns, rows) = (20.0, 24.0);
    let folds = folds(input, at, [0.8, 1.0], 0.2);
    let fuzz = at.grain(150.0, input.seed(1));
    let visibility = at.visibility(rows);
    RgbSpan::shaded(base, |i| {
        let across = sin_turns(at.x[i] * columns * 0.5 + 0.25).abs();
        // Legs slant up to both sides of the column's middle.
        let leg = sin_turns(at.y[i] * rows + 0.9 * across);
        let groove = smoothstep(0.0, 0.45, across);
        (1.0 + visibility * (0.3 * leg + 0.5 * (groove - 0.8)) + 0.14 * fuzz[i] + 0.14 * folds[i]).max(0.1)
    })
}

/// Velvet pile: bright at grazing angles, nearly black where it faces the viewer.
pub(super) fn velvet(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x5A_1F_2E);
    let at = input.at;
    let folds = folds(input, at, [1.0, 0.8], 0.6);
    let brushed = at.fbm([2.2, 5.0], input.seed(2), 3, 0.5);
    let pile = at.grain(190.0, input.seed(1));
    let mut light = RgbSpan::shaded(base, |i| {
        let sheen = smoothstep(-0.55, 0.8, folds[i] + 0.12 * brushed[i]);
        (0.3 + 1.5 * sheen * sheen) * (1.0 + 0.09 * pile[i])
    });
    light.add(mix(base, [1.0; 3], 0.15), |i| 0.16 * smoothstep(0.35, 0.95, folds[i] + 0.1 * brushed[i]));
    light
}

/// Smooth folds with a bright streak along each.
pub(super) fn silk(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xE4_D3_C0);
    let at = input.at;
    let (across, down) = (at.fbm([0.6; 2], input.seed(1), 3, 0.4), at.fbm([0.6; 2], input.seed(2), 3, 0.4));
    let ridges = at.warped(&across, &down, 0.7).fbm([0.9, 1.9], input.seed(3), 2, 0.35);
    let threads = at.fbm([20.0, 240.0], input.seed(4), 1, 0.5);
    let phase = per_pixel(|i| sin_turns(ridges[i] * 1.3 + 0.1));
    let mut light = RgbSpan::shaded(base, |i| {
        (0.5 + 0.42 * smoothstep(-1.0, 1.0, phase[i]) + 0.16 * across[i]) * (1.0 + 0.03 * threads[i])
    });
    light.add(mix(base, [1.0; 3], 0.6), |i| 0.3 * smoothstep(0.72, 1.0, phase[i]));
    light
}

pub(super) fn curtain(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xC9_C2_B8);
    let at = input.at;
    let sway = at.fbm([1.2, 0.35], input.seed(1), 3, 0.5);
    let depth = at.fbm([1.6, 0.15], input.seed(2), 2, 0.5);
    let fine = at.fbm([26.0, 0.6], input.seed(3), 2, 0.5);
    RgbSpan::shaded(base, |i| {
        let x = at.x[i] + 0.11 * sway[i];
        let fold = 0.6 * sin_turns(x * 4.3) + 0.4 * sin_turns(x * 7.7 + 0.3 + 0.25 * sway[i]);
        let shade = smoothstep(-1.1, 1.1, fold * (1.0 + 0.5 * depth[i]));
        0.3 + 0.78 * shade * shade + 0.03 * fine[i]
    })
}

pub(super) fn leather(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x7A_4A_2C);
    let at = input.at;
    let wobble = at.fbm([40.0; 2], input.seed(1), 2, 0.5);
    let moved = at.warped(&wobble, &wobble, 0.008);
    let cells = moved.cells([52.0; 2], input.seed(2), 1.0);
    let lit = moved.translated([input.light[0] * 0.004, input.light[1] * 0.004]).cells([52.0; 2], input.seed(2), 1.0);
    let clouds = at.fbm([1.6; 2], input.seed(3), 4, 0.55);
    let folds = folds(input, at, [1.2, 1.2], 0.4);
    let visibility = at.visibility(52.0);
    RgbSpan::shaded(base, |i| {
        let crease = smoothstep(0.0, 0.2, cells.second[i] - cells.nearest[i]);
        let slope = (cells.nearest[i] - lit.nearest[i]) * 1.2;
        (1.0 + visibility * (0.3 * (crease - 0.85) + 0.45 * slope) + 0.16 * clouds[i] + 0.2 * folds[i]).max(0.1)
    })
}

pub(super) fn fur(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xEC_E4_D8);
    let at = input.at;
    let tufts = at.swirled([5.0; 2], [input.seed(1), input.seed(2)], 3, 0.5, 0.05);
    let hairs = tufts.fbm([90.0, 16.0], input.seed(3), 3, 0.6);
    let depth = tufts.relief([7.0, 5.0], input.seed(4), 3, 0.5, input.light);
    RgbSpan::shaded(base, |i| (0.92 + 0.22 * hairs[i] + 0.4 * depth[i]).max(0.15))
}

pub(super) fn kraft(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xB8_91_66);
    let at = input.at;
    let grain = at.grain(170.0, input.seed(1));
    let clouds = at.fbm([2.5; 2], input.seed(2), 4, 0.5);
    let fibres = at.fbm([22.0, 150.0], input.seed(3), 2, 0.5);
    let more = at.rotated(0.8, 0.6).fbm([20.0, 150.0], input.seed(4), 2, 0.5);
    let mut light = RgbSpan::shaded(base, |i| 1.0 + 0.05 * grain[i] + 0.05 * clouds[i] + 0.08 * fibres[i]);
    light.mix_color(scaled(base, 0.5), |i| 0.45 * smoothstep(0.5, 0.75, more[i]));
    light.mix_color(mix(base, [0.9, 0.85, 0.75], 0.7), |i| 0.4 * smoothstep(0.55, 0.8, -fibres[i]));
    light
}

/// Crumpled paper: relief shading of turbulence, whose creases are sharp.
pub(super) fn crumpled(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xEC_E9_E3);
    let at = input.at;
    let folded = at.swirled([1.4; 2], [input.seed(1), input.seed(2)], 2, 0.5, 0.12);
    let step = 0.02;
    let towards = folded.translated([step * input.light[0], step * input.light[1]]);
    let height = |patch: &TexCoords, scale: f32, index: u32| patch.turbulence([scale; 2], input.seed(index), 3, 0.42);
    let (large, lit_large) = (height(&folded, 1.7, 3), height(&towards, 1.7, 3));
    let (small, lit_small) = (height(&folded.rotated(0.6, 0.8), 4.1, 4), height(&towards.rotated(0.6, 0.8), 4.1, 4));
    let grain = at.grain(180.0, input.seed(5));
    RgbSpan::shaded(base, |i| {
        let slope = 2.4 * (large[i] - lit_large[i]) + 0.7 * (small[i] - lit_small[i]);
        (0.9 + slope.clamp(-0.45, 0.3) + 0.02 * grain[i]).max(0.2)
    })
}

pub(super) fn rattan(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0xC6_9C_66);
    let at = input.at;
    let threads = 18.0;
    let fibres = at.fbm([70.0, 70.0], input.seed(1), 2, 0.6);
    let clouds = at.fbm([5.0; 2], input.seed(2), 3, 0.5);
    let visibility = at.visibility(threads);
    let mut light = RgbSpan::shaded(base, |i| {
        let (across, down) = (sin_turns(at.x[i] * threads * 0.5), sin_turns(at.y[i] * threads * 0.5));
        let over = smoothstep(-0.25, 0.25, across * down);
        let strip =
            over * sin_turns(at.x[i] * threads + 0.25).abs() + (1.0 - over) * sin_turns(at.y[i] * threads + 0.25).abs();
        (1.0 + visibility * 0.75 * (strip - 0.62) + 0.1 * fibres[i] + 0.1 * clouds[i]).max(0.08)
    });
    let gap: Rgb = srgb(0x3A_26_14);
    light.mix_color(gap, |i| {
        let hole = sin_turns(at.x[i] * threads + 0.25).abs().max(sin_turns(at.y[i] * threads + 0.25).abs());
        visibility * 0.7 * smoothstep(0.3, 0.1, hole)
    });
    light
}
