//! Paints views of plants: meadows and fields, forest, jungle, gardens and blossom.

#![expect(clippy::wildcard_enum_match_arm, reason = "places without a rule of their own use the default")]

use super::{ViewContext, bokeh};
use crate::generate::falloff::{exp_falloff, smoothstep};
use crate::generate::linear_rgb::{Rgb, mix, saturated, srgb};
use crate::generate::render::illumination::scatter_random;
use crate::generate::render::plate::Plate;
use crate::generate::render::span::{RgbSpan, TexCoords, fast_floor, per_pixel, sin_turns};
use crate::generate::render::sprite::Sprite;
use crate::generate::scene::{Hour, Place};

fn daylight(hour: Hour) -> Rgb {
    match hour {
        Hour::Day => [1.0; 3],
        Hour::Dawn => [0.85, 0.8, 0.85],
        Hour::Golden => [1.12, 0.95, 0.68],
        Hour::Sunset => [0.85, 0.55, 0.42],
        Hour::Dusk => [0.26, 0.32, 0.5],
        Hour::Night => [0.06, 0.09, 0.17],
    }
}

fn lit(color: Rgb, hour: Hour) -> Rgb {
    crate::generate::linear_rgb::product(color, daylight(hour))
}

/// Distant grass, bounded by trees, under the sky.
pub(super) fn open(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let hour = context.view.hour;
    let place = context.view.place;
    let flowers = context.colors_or(match place {
        Place::Field => &[0xD6_B0_5A],
        Place::Flowers => &[0x8E_6A_C8, 0xB4_8A_DC, 0xE2_A8_C8],
        _ => &[0xF2_E8_B8],
    });
    let green = lit(srgb(0x74_9A_42), hour);
    let sky = super::sky::colors(hour);
    let plate = Plate::paint(context.aspect, |at| {
        let mut light = super::sky::sky(context, at);
        // Two rows of trees; the farther row is pale.
        for layer in 0..2_u32 {
            let share = layer as f32;
            let crown = at.turbulence([3.0 - share, 0.02], context.seed(30 + layer), 4, 0.55);
            let top =
                per_pixel(|i| context.edge - 0.075 - 0.05 * share + 0.02 - (0.07 + 0.05 * share) * (1.0 - crown[i]));
            let leaf = at.fbm([16.0, 16.0], context.seed(34 + layer), 4, 0.6);
            let mut tree = RgbSpan::uniform(lit(mix(srgb(0x8F_A8_9A), srgb(0x35_52_28), 0.35 + 0.45 * share), hour));
            tree.mix_color(sky.low, |_| 0.35 * (1.0 - share));
            tree.scale(|i| 1.0 + 0.4 * leaf[i]);
            light.mix(&tree, |i| smoothstep(-0.006, 0.006, at.y[i] - top[i]));
        }
        let far = (at.y[0] - (context.edge - 0.085)).max(0.0);
        let patches = at.fbm([2.0, 40.0], context.seed(40), 4, 0.6);
        let mut grass = RgbSpan::uniform(green);
        grass.scale(|i| 0.92 + 0.22 * patches[i]);
        if place != Place::Meadow {
            let rows = at.fbm([7.0, 70.0], context.seed(41), 3, 0.6);
            let share = if place == Place::Field { 0.85 } else { 0.7 };
            let color = lit(crate::generate::render::illumination::pick_color(&flowers, 0.2), hour);
            grass.mix_color(color, |i| share * smoothstep(-0.6, 0.4, rows[i]));
        }
        grass.mix_color(sky.low, |_| 0.3 * exp_falloff(far / 0.03));
        light.mix(&grass, |i| smoothstep(-0.004, 0.004, at.y[i] - (context.edge - 0.07)));
        light
    });
    let mut sprites = Vec::new();
    if place == Place::Flowers {
        let colors: Vec<Rgb> = flowers.iter().map(|color| lit(*color, hour)).collect();
        sprites = bokeh(context, 90.0, [context.edge - 0.08, context.edge + 0.12], [0.004, 0.016], &colors, 0.5);
        for sprite in &mut sprites {
            sprite.shape = crate::generate::render::sprite::SpriteShape::Round;
        }
    }
    (plate, sprites)
}

/// Layers of trunks in haze, foliage above.
pub(super) fn forest(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let hour = context.view.hour;
    let (haze, leaf, dark) = match context.view.place {
        Place::Autumn => (0xF6_DC_A4, 0xD0_7A_24, 0x3A_20_10),
        Place::Jungle => (0xB8_D8_A8, 0x2F_7A_3A, 0x0C_24_14),
        _ => (0xD3_E2_B4, 0x5E_8C_3A, 0x001C_2816),
    };
    let [haze, leaf, dark] = [haze, leaf, dark].map(|code| lit(srgb(code), hour));
    let jungle = context.view.place == Place::Jungle;
    let plate = Plate::paint(context.aspect, |at| {
        let sun = per_pixel(|i| {
            exp_falloff(((at.x[i] - 0.35 * context.side).powi(2) * 1.6 + (at.y[i] - 0.22).powi(2) * 3.0) * 2.4)
        });
        let mut light = RgbSpan::blend(mix(haze, leaf, 0.62), mix(haze, [1.0; 3], 0.25), |i| sun[i]);
        light.mix_color(mix(leaf, dark, 0.5), |i| 0.55 * smoothstep(0.3, 0.75, at.y[i]));
        for layer in 0..4_u32 {
            let share = (layer as f32 + 0.6) / 4.0;
            if !jungle {
                trunks(context, at, layer, mix(mix(haze, leaf, 0.35), dark, share * 0.95), &mut light);
            }
            let clumps = at.fbm([2.0 + share, 2.6 + share], context.seed(20 + layer), 5, 0.55);
            let fine = at.fbm([12.0, 11.0], context.seed(24 + layer), 3, 0.6);
            let low = per_pixel(|i| {
                // Leaves hang from above and bushes stand below, with an open view between them.
                let hanging = smoothstep(0.52, 0.0, at.y[i]);
                let standing = smoothstep(context.edge - 0.22, context.edge + 0.02, at.y[i]);
                (hanging.max(standing) - 0.62 + if jungle { 0.3 } else { 0.0 }) * 1.1
            });
            let tone = mix(mix(haze, leaf, 0.55 + 0.3 * share), mix(leaf, dark, 0.6), share * share);
            let mut leaves = RgbSpan::uniform(tone);
            leaves.mix_color(mix(saturated(leaf, 1.1), haze, 0.45), |i| {
                0.7 * smoothstep(0.0, 0.8, fine[i]) * (0.25 + sun[i])
            });
            let soft = 0.16 + 0.25 * (1.0 - share);
            light.mix(&leaves, |i| 0.9 * smoothstep(-soft, soft, clumps[i] + low[i] + 0.22 * fine[i]));
        }
        if jungle {
            fronds(context, at, leaf, dark, &mut light);
        }
        light.add(haze, |i| 0.3 * sun[i]);
        light
    });
    let highlights = [mix(haze, [1.0; 3], 0.3), haze, mix(haze, leaf, 0.4)];
    let count = if context.is_dark() { 4.0 } else { 46.0 };
    (plate, bokeh(context, count, [-0.05, 0.5], [0.008, 0.042], &highlights, 0.24))
}

/// A layer of upright trunks, thicker and darker in nearer layers.
fn trunks(context: &ViewContext<'_>, at: &TexCoords, layer: u32, color: Rgb, light: &mut RgbSpan) {
    let many = [13.0, 8.0, 4.6, 2.4][layer as usize];
    let bark = at.fbm([30.0, 4.0], context.seed(50 + layer), 3, 0.6);
    let bend = at.fbm([0.5, 0.8], context.seed(55 + layer), 2, 0.5);
    let soft = 0.004 + 0.002 * layer as f32;
    let mut trunk = RgbSpan::uniform(color);
    trunk.scale(|i| 1.0 + 0.3 * bark[i]);
    light.mix(&trunk, |i| {
        let place = (at.x[i] + 0.03 * bend[i]) * many;
        let column = fast_floor(place);
        let own = |which| scatter_random(column as i32 as usize, which, context.seed(60 + layer));
        let middle = 0.5 + 0.5 * (own(1) - 0.5);
        let lean = 0.09 * (own(2) - 0.5) * (0.6 - at.y[i]) * many;
        let half = (0.1 + 0.09 * own(3)) * (1.0 + 0.5 * smoothstep(context.edge - 0.12, context.edge + 0.05, at.y[i]));
        let present = if own(4) < 0.72 { 1.0 } else { 0.0 };
        let ends = smoothstep(context.edge + 0.03, context.edge - 0.02 + 0.02 * layer as f32, at.y[i]);
        present * ends * (((half - (place - column - middle - lean).abs()) / many) / soft + 0.5).clamp(0.0, 1.0)
    });
}

/// Large leaves that enter from the sides.
fn fronds(context: &ViewContext<'_>, at: &TexCoords, leaf: Rgb, dark: Rgb, light: &mut RgbSpan) {
    for index in 0..context.count(9.0) {
        let number = |which: u32| context.random(index, 80 + which);
        let (u, v) = (context.random_u(index, 80), number(1) * 0.75);
        let angle = (number(2) - 0.5) * 0.45;
        let (sine, cosine) = (sin_turns(angle), sin_turns(angle + 0.25));
        let (long, wide) = (0.2 + 0.16 * number(3), 0.035 + 0.04 * number(4));
        let color = mix(mix(leaf, dark, number(5) * 0.9), [0.6, 0.75, 0.4], 0.12 * number(6));
        light.mix_color(color, |i| {
            let (dx, dy) = (at.x[i] - u, at.y[i] - v);
            let (x, y) = ((cosine * dx + sine * dy) / long, (cosine * dy - sine * dx) / wide);
            // Lens shape: two arcs that meet at the tips.
            let half = (1.0 - x * x).max(0.0);
            let rib = 0.25 * exp_falloff(y.abs() * 14.0);
            (((half - y.abs()) * wide / 0.012 + 0.5).clamp(0.0, 1.0) * if x.abs() < 1.0 { 0.85 } else { 0.0 })
                * (1.0 - rib)
        });
    }
}

/// Leaves in soft sun, with flowers.
pub(super) fn garden(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let hour = context.view.hour;
    let blossom = context.view.place == Place::Blossom;
    let petals = context.colors_or(if blossom {
        &[0xF6_C6_D6, 0xFB_E2_EA, 0xEE_A4_C0]
    } else {
        &[0xF0_A8_B8, 0xF6_E0_8A, 0xFF_FF_FF, 0xD8_8A_C8]
    });
    let (pale, green, dark) =
        if blossom { (0xFB_EE_F0, 0xD8_B4_BE, 0x8C_6A_66) } else { (0xE4_EE_C4, 0x7F_A6_54, 0x2C_46_22) };
    let [pale, green, dark] = [pale, green, dark].map(|code| lit(srgb(code), hour));
    let plate = Plate::paint(context.aspect, |at| {
        let large = at.fbm([1.3, 1.5], context.seed(1), 4, 0.5);
        let middle = at.fbm([4.0, 4.4], context.seed(2), 4, 0.55);
        let sun = per_pixel(|i| exp_falloff(((at.x[i] - 0.4 * context.side).powi(2) + (at.y[i] - 0.1).powi(2)) * 2.2));
        let mut light = RgbSpan::blend(dark, green, |i| smoothstep(-0.7, 0.55, large[i] + 0.55 * middle[i] + 0.15));
        light.mix_color(pale, |i| {
            (0.8 * smoothstep(-0.1, 0.9, large[i] + 0.35 * middle[i] + 0.9 * sun[i] - 0.2)).min(0.9)
        });
        light.mix_color(mix(green, dark, 0.4), |i| 0.6 * smoothstep(context.edge - 0.2, context.edge + 0.05, at.y[i]));
        light
    });
    let shine = [pale, mix(pale, [1.0; 3], 0.4), mix(pale, green, 0.3)];
    let mut sprites = bokeh(context, 44.0, [-0.05, context.edge * 0.95], [0.012, 0.055], &shine, 0.2);
    let petals: Vec<Rgb> = petals.iter().map(|color| lit(*color, hour)).collect();
    let (each, top) = if blossom { (110.0, -0.1) } else { (44.0, context.edge - 0.4) };
    for mut flower in bokeh(
        &ViewContext { seed: context.seed(7), ..*context },
        each,
        [top, context.edge],
        [0.012, 0.045],
        &petals,
        0.8,
    ) {
        flower.shape = crate::generate::render::sprite::SpriteShape::Round;
        flower.soft = flower.half_size[0] * 0.9;
        sprites.push(flower);
    }
    sprites.truncate(400);
    (plate, sprites)
}
