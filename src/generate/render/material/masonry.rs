//! Procedural masonry and repeating patterns: bricks, tiles, mosaic, cobbles, checker, stripes, dots, gingham.

use super::ShadingInput;
use crate::generate::falloff::smoothstep;
use crate::generate::linear_rgb::{luminance, mix, scaled, srgb};
use crate::generate::render::span::{
    RgbSpan, ScalarSpan, distance_to_integer, fast_floor, line_coverage, per_pixel, sin_turns,
};
use backdrop_kernels::noise::cpu::random;
use std::f32::consts::FRAC_1_SQRT_2;

/// Coordinates in a course of equal pieces, odd rows offset by `bond` of a piece.
struct Course {
    /// Distance to the centre of the nearest joint, in pieces.
    across: ScalarSpan,
    down: ScalarSpan,
    own: ScalarSpan,
    x: ScalarSpan,
    y: ScalarSpan,
}

fn course(x: &ScalarSpan, y: &ScalarSpan, scale: [f32; 2], bond: f32, seed: u32) -> Course {
    let row = per_pixel(|i| fast_floor(y[i] * scale[1]));
    let along = per_pixel(|i| x[i] * scale[0] + bond * (row[i] - 2.0 * fast_floor(0.5 * row[i])));
    let column = per_pixel(|i| fast_floor(along[i]));
    Course {
        across: per_pixel(|i| distance_to_integer(along[i])),
        down: per_pixel(|i| distance_to_integer(y[i] * scale[1])),
        own: per_pixel(|i| random(column[i] as i32, row[i] as i32, seed)),
        x: per_pixel(|i| along[i] - column[i] - 0.5),
        y: per_pixel(|i| y[i] * scale[1] - row[i] - 0.5),
    }
}

/// Running bond with recessed mortar and per-brick colour.
pub(super) fn brick(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x92_4E_3C);
    let at = input.at;
    let scale = [5.0, 15.0];
    let rough = at.fbm([34.0; 2], input.seed(1), 3, 0.6);
    let rough_too = at.fbm([34.0; 2], input.seed(2), 3, 0.6);
    let moved = at.warped(&rough, &rough_too, 0.0022);
    let bricks = course(&moved.x, &moved.y, scale, 0.5, input.seed(3));
    let mortar = joints(&bricks, scale, 0.0058, at.footprint);
    // The upper edge of the mortar lies in the shadow of the brick above.
    let shadow_of = course(&moved.x, &per_pixel(|i| moved.y[i] - 0.006), scale, 0.5, input.seed(3));
    let shaded = joints(&shadow_of, scale, 0.005, at.footprint);
    let clouds = at.fbm([9.0; 2], input.seed(4), 4, 0.6);
    let relief = at.relief([26.0; 2], input.seed(5), 4, 0.55, input.light);
    let grain = at.grain(120.0, input.seed(6));
    let pale = luminance(base) > 0.4;
    let (low, high) =
        if pale { (scaled(base, 0.86), base) } else { (scaled(base, 0.42), mix(base, srgb(0xB4_78_60), 0.6)) };
    let mut light = RgbSpan::blend(low, high, |i| (bricks.own[i] * 0.85 + 0.2 + 0.35 * clouds[i]).clamp(0.0, 1.0));
    light.mix_color(scaled(base, 0.22), |i| if bricks.own[i] > 0.9 && !pale { 0.45 } else { 0.0 });
    light.scale(|i| (1.0 + 0.3 * relief[i] + 0.1 * grain[i]).max(0.2));
    let mut joint = RgbSpan::uniform(if pale { scaled(base, 0.74) } else { srgb(0xB6_AE_A4) });
    joint.scale(|i| 0.8 + 0.22 * clouds[i] + 0.2 * grain[i] - 0.42 * mortar[i] * (1.0 - shaded[i]));
    light.mix(&joint, |i| mortar[i]);
    light
}

/// Coverage of each pixel by joints of half-width `half`.
fn joints(course: &Course, scale: [f32; 2], half: f32, footprint: [f32; 2]) -> ScalarSpan {
    per_pixel(|i| {
        let across = line_coverage(course.across[i] / scale[0], half, footprint[0].max(0.0015));
        let down = line_coverage(course.down[i] / scale[1], half, footprint[1].max(0.0015));
        across.max(down)
    })
}

/// Glazed tiles with per-tile brightness and a highlight along the rim.
pub(super) fn tiles(input: &ShadingInput<'_>, scale: [f32; 2], bond: f32) -> RgbSpan {
    let base = input.base(0xEC_EC_E8);
    let at = input.at;
    let tiles = course(&at.x, &at.y, scale, bond, input.seed(1));
    let grout = joints(&tiles, scale, 0.0032, at.footprint);
    let clouds = at.fbm([2.6; 2], input.seed(2), 3, 0.5);
    let glaze = at.fbm([11.0; 2], input.seed(3), 2, 0.5);
    let rim = 0.016;
    let mut light = RgbSpan::shaded(base, |i| {
        let tilt = (tiles.own[i] - 0.5) * (0.1 + 0.12 * tiles.x[i]) + 0.05 * tiles.y[i];
        let near = |away: f32| 1.0 - smoothstep(0.0, rim, away);
        let bevel = near(tiles.down[i] / scale[1]) * if tiles.y[i] * input.light[1] > 0.0 { 0.12 } else { -0.1 };
        let side = near(tiles.across[i] / scale[0]) * if tiles.x[i] * input.light[0] > 0.0 { 0.08 } else { -0.06 };
        1.0 + tilt + bevel + side + 0.03 * clouds[i] + 0.025 * glaze[i]
    });
    let dark = luminance(base) < 0.25;
    light.mix_color(if dark { mix(base, [0.4; 3], 0.35) } else { scaled(base, 0.62) }, |i| grout[i]);
    light
}

pub(super) fn mosaic(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x3E_8C_9A);
    let at = input.at;
    let scale = [22.0, 22.0];
    let wobble = at.fbm([14.0; 2], input.seed(1), 2, 0.5);
    let moved = at.warped(&wobble, &wobble, 0.0016);
    let stones = course(&moved.x, &moved.y, scale, 0.0, input.seed(2));
    let grout = joints(&stones, scale, 0.0026, at.footprint);
    let visibility = at.visibility(22.0);
    let mut light = RgbSpan::blend(scaled(base, 0.45), mix(base, [0.9, 0.93, 0.92], 0.45), |i| {
        0.5 + visibility * (stones.own[i] - 0.5)
    });
    light.scale(|i| 1.0 + visibility * 0.12 * (stones.x[i] * input.light[0] + stones.y[i] * input.light[1]));
    light.mix_color(mix(srgb(0xD8_D5_CE), base, 0.15), |i| grout[i]);
    light
}

pub(super) fn checker(input: &ShadingInput<'_>) -> RgbSpan {
    let base = input.base(0x22_22_24);
    let other = if luminance(base) > 0.45 { srgb(0x2A_2A_2C) } else { srgb(0xEE_EC_E6) };
    let at = input.at.rotated(FRAC_1_SQRT_2, FRAC_1_SQRT_2);
    let scale = [4.0, 4.0];
    let squares = course(&at.x, &at.y, scale, 0.0, input.seed(1));
    let veins = at.fbm([2.0; 2], input.seed(2), 5, 0.6);
    let odd = per_pixel(|i| {
        let (column, row) = (fast_floor(at.x[i] * scale[0]), fast_floor(at.y[i] * scale[1]));
        let sum = column + row;
        sum - 2.0 * fast_floor(0.5 * sum)
    });
    // Antialiasing across edges; far away, the mean of both colours.
    let mut light = RgbSpan::blend(base, other, |i| {
        let to_edge =
            (squares.across[i] / scale[0] / at.footprint[0]).min(squares.down[i] / scale[1] / at.footprint[1]);
        let own = (0.5 + to_edge).min(1.0);
        0.5 + (odd[i] * 2.0 - 1.0) * (own - 0.5)
    });
    light.scale(|i| 1.0 + 0.05 * veins[i] + 0.05 * (squares.own[i] - 0.5));
    let gap = joints(&squares, scale, 0.0012, at.footprint);
    light.mix_color(srgb(0x77_75_70), |i| 0.6 * gap[i]);
    light
}

pub(super) fn stones(input: &ShadingInput<'_>, scale: f32, own: u32, mixed: f32) -> RgbSpan {
    let base = input.base(own);
    let at = input.at;
    let wobble = at.fbm([scale * 1.3; 2], input.seed(1), 2, 0.5);
    let cells = at.warped(&wobble, &wobble, 0.12 / scale).cells([scale; 2], input.seed(2), 0.8);
    // Gradient of the dome: difference to a point towards the light.
    let step = 0.12 / scale;
    let towards = at.warped(&wobble, &wobble, 0.12 / scale).translated([input.light[0] * step, input.light[1] * step]);
    let lit = towards.cells([scale; 2], input.seed(2), 0.8);
    let grain = at.fbm([scale * 5.0; 2], input.seed(3), 3, 0.6);
    let visibility = at.visibility(scale);
    let warm = mix(scaled(base, 1.25).map(|value| value.min(1.0)), srgb(0xB9_A0_82), 0.35 * mixed);
    let mut light = RgbSpan::blend(scaled(base, 1.0 - 0.45 * mixed), warm, |i| 0.5 + visibility * (cells.own[i] - 0.5));
    light.scale(|i| {
        let slope = (cells.nearest[i] - lit.nearest[i]) * 3.6;
        let gap = smoothstep(0.02, 0.26, cells.second[i] - cells.nearest[i]);
        (1.0 + visibility * (0.5 * slope + 0.6 * (gap - 0.8)) + 0.12 * grain[i]).max(0.04)
    });
    light
}

fn pair(input: &ShadingInput<'_>) -> ([f32; 3], [f32; 3]) {
    let base = input.base(0x9C_B4_B8);
    let ground = if luminance(base) > 0.6 { srgb(0xC8_B9_A6) } else { srgb(0xF3_F0_EA) };
    (base, ground)
}

pub(super) fn stripes(input: &ShadingInput<'_>) -> RgbSpan {
    let (base, ground) = pair(input);
    let at = input.at;
    let footprint = (at.footprint[0] * 8.0).max(0.01);
    let mut light = RgbSpan::blend(ground, base, |i| {
        let away = distance_to_integer(at.x[i] * 8.0);
        let own = ((0.25 - away) / footprint + 0.5).clamp(0.0, 1.0);
        own + (0.5 - own) * smoothstep(0.5, 1.0, footprint)
    });
    paper_grain(input, &mut light);
    light
}

/// Polka dots, every other row offset by half a period.
pub(super) fn dots(input: &ShadingInput<'_>) -> RgbSpan {
    let (base, ground) = pair(input);
    let at = input.at;
    let row = per_pixel(|i| fast_floor(at.y[i] * 11.0));
    let footprint = (at.footprint[0].max(at.footprint[1]) * 11.0).max(0.02);
    let mut light = RgbSpan::blend(base, ground, |i| {
        let along = at.x[i] * 11.0 + 0.5 * (row[i] - 2.0 * fast_floor(0.5 * row[i]));
        let (x, y) = (along - fast_floor(along) - 0.5, at.y[i] * 11.0 - row[i] - 0.5);
        let own = ((0.26 - (x * x + y * y).sqrt()) / footprint + 0.5).clamp(0.0, 1.0);
        own + (0.21 - own) * smoothstep(0.5, 1.0, footprint)
    });
    paper_grain(input, &mut light);
    light
}

pub(super) fn checks(input: &ShadingInput<'_>) -> RgbSpan {
    let (base, ground) = pair(input);
    let at = input.at;
    let band = |value: f32, footprint: f32| {
        let footprint = footprint.max(0.02);
        let own = ((0.25 - distance_to_integer(value)) / footprint + 0.5).clamp(0.0, 1.0);
        own + (0.5 - own) * smoothstep(0.5, 1.0, footprint)
    };
    let threads = at.visibility(130.0);
    let mut light = RgbSpan::blend(ground, base, |i| {
        0.5 * (band(at.x[i] * 7.0, at.footprint[0] * 7.0) + band(at.y[i] * 7.0, at.footprint[1] * 7.0))
    });
    light.scale(|i| 1.0 + 0.06 * threads * sin_turns(at.x[i] * 130.0) * sin_turns(at.y[i] * 130.0));
    paper_grain(input, &mut light);
    light
}

fn paper_grain(input: &ShadingInput<'_>, light: &mut RgbSpan) {
    let grain = input.at.grain(180.0, input.seed(9));
    light.scale(|i| 1.0 + 0.025 * grain[i]);
}
