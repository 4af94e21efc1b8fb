//! Paints open-sky views: sky, stars, nebula, sea and lake, mountains, dunes and snowfields.

use super::ViewContext;
use crate::generate::falloff::{exp_falloff, smoothstep};
use crate::generate::linear_rgb::{Rgb, luminance, mix, scaled, srgb};
use crate::generate::render::illumination::scatter_random;
use crate::generate::render::plate::Plate;
use crate::generate::render::span::{RgbSpan, SPAN, ScalarSpan, TexCoords, fast_floor, per_pixel, sin_turns};
use crate::generate::render::sprite::{Sprite, SpriteShape};
use crate::generate::scene::{Hour, Place};

/// Colours of the sky from top to horizon, of the sun's glow, and of clouds in light and in shade.
pub(super) struct Colors {
    pub(super) top: Rgb,
    pub(super) middle: Rgb,
    pub(super) low: Rgb,
    pub(super) glow: Rgb,
    pub(super) cloud: Rgb,
    pub(super) shade: Rgb,
    /// Height of the sun above the horizon in picture heights.
    pub(super) sun: f32,
}

pub(super) fn colors(hour: Hour) -> Colors {
    let of = |[top, middle, low, glow, cloud, shade]: [u32; 6], sun| Colors {
        top: srgb(top),
        middle: srgb(middle),
        low: srgb(low),
        glow: srgb(glow),
        cloud: srgb(cloud),
        shade: srgb(shade),
        sun,
    };
    match hour {
        Hour::Dawn => of([0x6F_86_B4, 0xC3_A9_C0, 0xF7_CF_B4, 0xFF_DE_B8, 0xF6_D9_D3, 0x9A_96_B4], 0.05),
        Hour::Day => of([0x35_72_BE, 0x6F_A5_DC, 0xC4_DD_EF, 0xFF_F6_E4, 0xFB_FB_FB, 0xA9_B6_C6], 0.75),
        Hour::Golden => of([0x6C_93_C2, 0xC9_BE_B0, 0xFA_D3_96, 0xFF_CE_7C, 0xFF_E6_C0, 0xB4_98_8C], 0.16),
        Hour::Sunset => of([0x3D_4C_83, 0xB8_62_78, 0xFB_9A_4E, 0xFF_B0_48, 0xF2_8C_68, 0x62_48_6C], 0.035),
        Hour::Dusk => of([0x14_22_48, 0x35_4C_86, 0xB4_86_96, 0xD8_94_7A, 0x5E_62_8C, 0x26_30_54], -0.06),
        Hour::Night => of([0x03_06_12, 0x08_10_26, 0x18_26_48, 0x2A_3A_66, 0x20_2A_48, 0x08_0E_1E], -0.5),
    }
}

/// The sky above a horizon at `horizon`.
pub(super) fn sky(context: &ViewContext<'_>, at: &TexCoords) -> RgbSpan {
    let mut colors = colors(context.view.hour);
    if let [color, ..] = context.view.colors[..]
        && context.view.place == Place::Sky
    {
        colors.top = mix(colors.top, scaled(color, 0.6), 0.8);
        colors.middle = mix(colors.middle, color, 0.8);
        colors.low = mix(colors.low, mix(color, [1.0; 3], 0.45), 0.7);
    }
    let overcast = smoothstep(0.6, 1.0, context.view.clouds);
    let grey = luminance(colors.middle);
    for color in [&mut colors.top, &mut colors.middle, &mut colors.low, &mut colors.cloud, &mut colors.shade] {
        *color = mix(*color, mix([grey * 0.9, grey * 0.95, grey], *color, 0.25), overcast);
    }
    let up = per_pixel(|i| ((context.horizon - at.y[i]) / context.horizon.max(0.2)).clamp(0.0, 1.0));
    let mut light = RgbSpan::blend(colors.low, colors.middle, |i| smoothstep(0.0, 0.42, up[i]));
    light.mix_color(colors.top, |i| smoothstep(0.25, 1.1, up[i]));
    let (su, sv) = (0.42 * context.side, context.horizon - colors.sun);
    let near = per_pixel(|i| ((at.x[i] - su).powi(2) * 0.55 + (at.y[i] - sv).powi(2)).sqrt());
    light.mix_color(colors.glow, |i| {
        (1.0 - 0.8 * overcast) * 0.75 * exp_falloff(near[i] * near[i] * 9.0 + near[i] * 1.5)
    });
    clouds(context, at, &colors, &near, &mut light);
    let disc = if matches!(context.view.hour, Hour::Golden | Hour::Sunset | Hour::Dawn) { 1.0 - overcast } else { 0.0 };
    light.add(scaled(colors.glow, 2.2), |i| {
        disc * (0.5 * exp_falloff(near[i] * 24.0) + smoothstep(0.035, 0.024, near[i]))
    });
    light
}

/// Noise clouds on a plane in perspective, denser towards the horizon, lit at their edges towards the sun.
fn clouds(context: &ViewContext<'_>, at: &TexCoords, colors: &Colors, near: &ScalarSpan, light: &mut RgbSpan) {
    if context.view.clouds <= 0.0 {
        return;
    }
    let height = (context.horizon - at.y[0]).max(0.0) + 0.12;
    let ceiling = TexCoords {
        x: per_pixel(|i| 0.55 * at.x[i] / height),
        y: [0.85 / height; SPAN],
        footprint: [0.55 * at.footprint[0] / height, 0.85 * at.footprint[1] / (height * height)],
    };
    let carried = ceiling.swirled([1.2; 2], [context.seed(1), context.seed(2)], 3, 0.5, 0.16);
    let body = carried.fbm([0.85, 1.0], context.seed(3), 6, 0.52);
    let towards = carried.translated([0.16 * (context.side + 0.2), -0.2]).fbm([0.85, 1.0], context.seed(3), 4, 0.5);
    let threshold = 0.5 - 1.0 * context.view.clouds;
    let fade = smoothstep(0.0, 0.1, context.horizon - at.y[0]);
    let mut cloud = RgbSpan::blend(colors.cloud, colors.shade, |i| {
        smoothstep(-0.5, 0.5, (body[i] - threshold) * 0.55 - 0.75 * (body[i] - towards[i]))
    });
    cloud.mix_color(colors.glow, |i| 0.4 * exp_falloff(near[i] * 3.2));
    light.mix(&cloud, |i| fade * smoothstep(threshold - 0.12, threshold + 0.42, body[i]) * 0.94);
}

pub(super) fn open(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let plate = Plate::paint(context.aspect, |at| sky(context, at));
    (plate, stars_at_night(context, 0.6))
}

fn stars_at_night(context: &ViewContext<'_>, bright: f32) -> Vec<Sprite> {
    if context.view.hour == Hour::Night { stars(context, bright) } else { Vec::new() }
}

fn stars(context: &ViewContext<'_>, bright: f32) -> Vec<Sprite> {
    (0..context.count(190.0))
        .map(|index| {
            let number = |which: u32| context.random(index, 30 + which);
            let size = 0.0007 + 0.0016 * number(0).powi(6);
            Sprite {
                at: [context.random_u(index, 31), context.horizon * 1.02 * number(2)],
                half_size: [size * 1.6; 2],
                rotation: [0.0, 1.0],
                color: mix([1.0, 0.86, 0.7], [0.75, 0.85, 1.0], number(3)),
                share: bright * (0.25 + 0.9 * number(4).powi(3)),
                soft: size * 1.6,
                shape: SpriteShape::Glow,
                behind_ground: true,
            }
        })
        .collect()
}

pub(super) fn space(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let hues = context.colors_or(&[0x5A_2E_8C, 0x1E_5A_A8, 0xC8_4A_6A]);
    let plate = Plate::paint(context.aspect, |at| {
        let carried = at.swirled([1.3; 2], [context.seed(1), context.seed(2)], 4, 0.5, 0.35);
        let mut light = RgbSpan::uniform(srgb(0x05_06_10));
        for (index, hue) in hues.iter().enumerate() {
            let gas = carried.fbm([1.1, 1.6], context.seed(3 + index as u32), 6, 0.58);
            let band = per_pixel(|i| exp_falloff(((at.y[i] - 0.45 + 0.35 * at.x[i]) * 2.4).powi(2)));
            light.add(*hue, |i| 0.75 * smoothstep(-0.25, 0.9, gas[i]).powi(2) * (0.2 + 0.8 * band[i]));
        }
        let dust = carried.fbm([2.0, 2.6], context.seed(9), 6, 0.6);
        light.scale(|i| 1.0 - 0.75 * smoothstep(0.05, 0.6, dust[i]));
        light
    });
    (plate, stars(&ViewContext { horizon: 1.0, ..*context }, 1.0))
}

/// Sky over water. A beach has a strip of water, with surf at the sand; a lake has hills beyond.
pub(super) fn sea(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let horizon = context.horizon;
    let colors = colors(context.view.hour);
    let day = matches!(context.view.hour, Hour::Day | Hour::Golden);
    let (deep, shallow) = if day {
        (srgb(0x17_5A_84), srgb(0x57_B4_BC))
    } else {
        (scaled(colors.top, 0.55), mix(colors.top, colors.low, 0.4))
    };
    let beach = context.view.place == Place::Beach;
    let lake = context.view.place == Place::Lake;
    let plate = Plate::paint(context.aspect, |at| {
        let mut light = sky(context, at);
        if lake {
            for layer in 0..2 {
                let ridge = at.fbm([1.3 + 1.1 * layer as f32, 0.01], context.seed(40 + layer), 4, 0.5);
                let hill =
                    mix(colors.low, scaled(srgb(0x3C_55_4A), if day { 1.0 } else { 0.2 }), 0.35 + 0.35 * layer as f32);
                let line = 0.075 - 0.03 * layer as f32;
                light.mix_color(hill, |i| smoothstep(-0.006, 0.006, at.y[i] - (horizon - line - 0.06 * ridge[i])));
            }
        }
        let below = (at.y[0] - horizon).max(0.0);
        let distance = 0.05 / (below + 0.004);
        let surface = TexCoords {
            x: per_pixel(|i| at.x[i] * distance * 4.0),
            y: [distance * 5.0; SPAN],
            footprint: [at.footprint[0] * distance * 4.0, 0.2],
        };
        let waves = surface.fbm([1.0, 1.0], context.seed(20), 4, 0.6);
        let reach = (context.edge - horizon).max(0.05);
        let mut water = RgbSpan::blend(deep, shallow, |i| smoothstep(0.1, 1.0, below / reach + 0.1 * waves[i]));
        water.mix_color(colors.low, |_| 0.4 * exp_falloff(below / 0.025));
        water.scale(|i| 1.0 + 0.22 * waves[i]);
        // The sun's glitter path on the water.
        let road = per_pixel(|i| exp_falloff(((at.x[i] - 0.42 * context.side) / (0.06 + 0.5 * below)).powi(2)));
        let bright = if matches!(context.view.hour, Hour::Night | Hour::Day) { 0.3 } else { 1.2 };
        water.add(colors.glow, |i| bright * road[i] * (0.35 + 1.2 * smoothstep(0.1, 0.7, waves[i])));
        if beach {
            let surf = at.fbm([2.5, 0.6], context.seed(21), 4, 0.55);
            for (back, strength) in [(0.006, 0.95), (0.035, 0.7), (0.058, 0.4)] {
                let away = per_pixel(|i| at.y[i] - (context.edge - back - 0.014 * surf[i]));
                water.mix_color([0.93; 3], |i| {
                    strength * exp_falloff((away[i] / 0.006).powi(2)) * smoothstep(-0.5, 0.2, surf[i] + waves[i])
                });
            }
        }
        light.mix(&water, |i| smoothstep(-0.002, 0.002, at.y[i] - horizon));
        light
    });
    (plate, stars_at_night(context, 0.5))
}

/// Mountain ridges in layers with aerial perspective.
pub(super) fn mountains(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let colors = colors(context.view.hour);
    let dark = context.is_dark();
    let near = scaled(srgb(0x2F_46_3A), if dark { 0.2 } else { 0.9 });
    let plate = Plate::paint(context.aspect, |at| {
        let mut light = sky(context, at);
        for layer in 0..4_u32 {
            let share = layer as f32 / 3.0;
            let ridge = TexCoords { y: [0.37 * share; SPAN], ..at.clone() }.turbulence(
                [1.0 + 0.5 * share, 1.0],
                context.seed(30 + layer),
                6,
                0.5,
            );
            let top = per_pixel(|i| {
                context.edge - 0.1 * (1.0 - share) - (0.34 - 0.22 * share) * (0.95 - 0.9 * ridge[i]).max(0.0)
            });
            let rock = at.relief([5.0, 3.0], context.seed(40 + layer), 5, 0.6, [context.side + 0.4, -0.6]);
            let hazy = mix(mix(colors.low, colors.middle, 0.5), near, 0.2 + 0.65 * share);
            let mut slope = RgbSpan::uniform(hazy);
            if layer == 0 || layer == 1 {
                let snow = mix(colors.low, [0.95; 3], if dark { 0.1 } else { 0.6 });
                slope.mix_color(snow, |i| 0.85 * smoothstep(0.1, -0.02, at.y[i] - top[i] - 0.05 * rock[i]));
            }
            slope.scale(|i| 1.0 + 0.3 * rock[i] * (0.4 + 0.6 * share));
            // Mist in the valleys.
            slope.mix_color(mix(colors.low, colors.middle, 0.3), |i| {
                0.5 * (1.0 - share) * smoothstep(0.02, 0.2, at.y[i] - top[i])
            });
            light.mix(&slope, |i| smoothstep(-0.003, 0.003, at.y[i] - top[i]));
        }
        light
    });
    (plate, stars_at_night(context, 0.5))
}

/// Soft hills of sand or snow.
pub(super) fn dunes(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let colors = colors(context.view.hour);
    let snow = context.view.place == Place::Snowfield;
    let (lit, shade) = if snow { (srgb(0xF4_F7_FB), srgb(0x9E_B4_D2)) } else { (srgb(0xE4_BE_88), srgb(0xA8_6E_42)) };
    let day = if context.is_dark() { 0.25 } else { 1.0 };
    let plate = Plate::paint(context.aspect, |at| {
        let mut light = sky(context, at);
        for layer in 0..3_u32 {
            let share = layer as f32 / 2.0;
            let crest = at.fbm([0.7 + 0.3 * share, 0.02], context.seed(30 + layer), 3, 0.4);
            let top = per_pixel(|i| context.edge - 0.1 + 0.05 * share - 0.1 * crest[i]);
            let slope = at.fbm([0.9, 0.5], context.seed(50 + layer), 2, 0.4);
            let mut hill = RgbSpan::blend(
                scaled(mix(mix(lit, colors.low, 0.35), lit, share), day),
                scaled(mix(mix(shade, colors.low, 0.4), shade, share), day),
                |i| smoothstep(-0.35, 0.55, slope[i] + 1.2 * (at.y[i] - top[i]) * context.side),
            );
            hill.mix_color(scaled(colors.low, day), |_| 0.25 * (1.0 - share));
            light.mix(&hill, |i| smoothstep(-0.003, 0.003, at.y[i] - top[i]));
            if snow && layer < 2 {
                trees(
                    context,
                    at,
                    &top,
                    layer,
                    scaled(mix(srgb(0x2E_42_46), colors.low, 0.45 - 0.2 * share), day),
                    &mut light,
                );
            }
        }
        light
    });
    (plate, stars_at_night(context, 0.5))
}

fn trees(context: &ViewContext<'_>, at: &TexCoords, ridge: &ScalarSpan, layer: u32, color: Rgb, light: &mut RgbSpan) {
    let many = 15.0 - 4.0 * layer as f32;
    let tall = 0.085 + 0.05 * layer as f32;
    light.mix_color(color, |i| {
        let place = at.x[i] * many;
        let column = fast_floor(place);
        let own = |which| scatter_random(column as i32 as usize, which, context.seed(70 + layer));
        let height = tall * (0.45 + 0.55 * own(1)) * if own(2) < 0.75 { 1.0 } else { 0.0 };
        let up = (ridge[i] + 0.006 - at.y[i]) / height.max(1e-3);
        let half = 0.32 * (1.0 - up) * (0.85 + 0.15 * sin_turns(up * 6.0));
        let away = (place - column - 0.5 - 0.25 * (own(3) - 0.5)).abs();
        if (0.0..1.0).contains(&up) { ((half - away) * 12.0 + 0.5).clamp(0.0, 1.0) } else { 0.0 }
    });
}
