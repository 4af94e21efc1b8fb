//! Paints city views: skyline, street, bokeh lights, neon, concert stage.

use super::ViewContext;
use crate::generate::falloff::{exp_falloff, smoothstep};
use crate::generate::linear_rgb::{Rgb, mix, scaled, srgb};
use crate::generate::render::illumination::{pick_color, scatter_random};
use crate::generate::render::plate::Plate;
use crate::generate::render::span::{RgbSpan, ScalarSpan, TexCoords, fast_floor, per_pixel};
use crate::generate::render::sprite::{Sprite, SpriteShape};

/// Colours of lamps, windows and traffic.
const LAMPS: [u32; 6] = [0xFF_C8_7A, 0xFF_E6_BC, 0xFF_9A_4A, 0xFF_5A_3C, 0x8A_C4_FF, 0xFF_D8_9A];

/// Houses as columns of random heights: pixel coverage and a random number per house.
fn houses(context: &ViewContext<'_>, at: &TexCoords, layer: u32, many: f32, tall: f32) -> (ScalarSpan, ScalarSpan) {
    let own = |column: f32, which| scatter_random(column as i32 as usize, which, context.seed(20 + layer));
    let number = per_pixel(|i| own(fast_floor(at.x[i] * many), 1));
    let cover = per_pixel(|i| {
        let column = fast_floor(at.x[i] * many);
        let top = context.edge - tall * (0.35 + 0.65 * own(column, 2));
        smoothstep(-0.002, 0.002, at.y[i] - top)
    });
    (cover, number)
}

/// Towers under the sky, lit from within at night.
pub(super) fn skyline(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let colors = super::sky::colors(context.view.hour);
    let dark = context.is_dark();
    let plate = Plate::paint(context.aspect, |at| {
        let mut light = super::sky::sky(context, at);
        for layer in 0..3_u32 {
            let share = layer as f32 / 2.0;
            let many = 11.0 - 3.0 * layer as f32;
            let (cover, own) = houses(context, at, layer, many, 0.42 - 0.09 * share);
            let wall = if dark { srgb(0x10_16_26) } else { srgb(0x5E_66_70) };
            let mut house = RgbSpan::blend(
                mix(colors.low, wall, 0.35 + 0.5 * share),
                mix(colors.low, scaled(wall, 1.5), 0.3 + 0.5 * share),
                |i| own[i],
            );
            let (columns, rows) = (many * 6.0, 46.0);
            let windows = per_pixel(|i| {
                let (x, y) = (at.x[i] * columns, at.y[i] * rows);
                let lit = scatter_random(
                    (fast_floor(x) as i32 + 4096) as usize,
                    (fast_floor(y) as i32 + 64) as u32,
                    context.seed(30 + layer),
                );
                let within = |value: f32| smoothstep(0.46, 0.3, (value - fast_floor(value) - 0.5).abs());
                let on = if lit > if dark { 0.62 } else { 0.3 } { 1.0 } else { 0.0 };
                within(x) * within(y) * on * (0.4 + 0.6 * lit)
            });
            let glass = if dark { scaled(srgb(0xFF_CE_86), 1.1) } else { mix(colors.middle, [1.0; 3], 0.3) };
            house.mix_color(glass, |i| windows[i] * (0.25 + 0.55 * share));
            light.mix(&house, |i| cover[i]);
        }
        light
    });
    let lamps = context.colors_or(&LAMPS);
    let sprites = if dark {
        super::bokeh(context, 34.0, [context.edge - 0.34, context.edge], [0.006, 0.024], &lamps, 0.7)
    } else {
        Vec::new()
    };
    (plate, sprites)
}

/// A street between two façades in perspective, open to the sky.
pub(super) fn street(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let colors = super::sky::colors(context.view.hour);
    let dark = context.is_dark();
    let plate = Plate::paint(context.aspect, |at| {
        let mut light = super::sky::sky(context, at);
        let horizon = context.edge - 0.06;
        // A façade in perspective: the depth of a column is inverse to its distance from the middle.
        let depth = per_pixel(|i| 1.0 / (at.x[i].abs() + 0.1));
        let facade = TexCoords {
            x: depth,
            y: per_pixel(|i| (at.y[i] - horizon) * depth[i]),
            footprint: [at.footprint[0] * 8.0, at.footprint[1] * 8.0],
        };
        let walls = if dark { [srgb(0x1C_1C_24), srgb(0x2E_28_2A)] } else { [srgb(0xB8_A0_86), srgb(0x86_7C_76)] };
        let mut house = RgbSpan::blend(walls[0], walls[1], |i| {
            scatter_random(
                (fast_floor(facade.x[i] * 1.4) as i32 + if at.x[i] > 0.0 { 99 } else { 0 }) as usize,
                3,
                context.seed(5),
            )
        });
        let grime = facade.fbm([1.5, 1.5], context.seed(6), 4, 0.5);
        house.scale(|i| (0.72 + 0.2 * grime[i] + if at.x[i] * context.side < 0.0 { 0.25 } else { -0.1 }).max(0.05));
        let windows = per_pixel(|i| {
            let (x, y) = (facade.x[i] * 5.0, facade.y[i] * 3.2);
            let within =
                |value: f32, half: f32| smoothstep(half + 0.08, half - 0.04, (value - fast_floor(value) - 0.5).abs());
            let lit = scatter_random(
                (fast_floor(x) as i32 + 64) as usize,
                (fast_floor(y) as i32 + 64) as u32,
                context.seed(7),
            );
            within(x, 0.26) * within(y, 0.32) * if lit > 0.35 || !dark { 1.0 } else { 0.2 }
        });
        house.mix_color(if dark { srgb(0xF2_B4_62) } else { srgb(0x3E_48_54) }, |i| 0.75 * windows[i]);
        let shop = per_pixel(|i| smoothstep(-0.16, -0.1, facade.y[i] * 0.5) * smoothstep(0.3, 0.1, facade.y[i]));
        house.mix_color(if dark { srgb(0xFF_C6_7C) } else { srgb(0xD8_C4_A4) }, |i| 0.4 * shop[i]);
        house.mix_color(colors.low, |i| 0.55 * smoothstep(3.0, 9.0, facade.x[i]));
        light.mix(&house, |i| {
            smoothstep(-0.01, 0.01, at.x[i].abs() - 0.1 - 0.16 * smoothstep(0.0, 0.0001, at.x[i]) * 0.4)
        });
        light.mix_color(if dark { srgb(0x16_16_1C) } else { srgb(0x84_80_7C) }, |i| {
            smoothstep(-0.02, 0.03, at.y[i] - horizon - 0.01)
        });
        light
    });
    let lamps = context.colors_or(&LAMPS);
    let (each, share) = if dark { (46.0, 0.8) } else { (10.0, 0.28) };
    (plate, super::bokeh(context, each, [context.edge - 0.4, context.edge + 0.02], [0.008, 0.034], &lamps, share))
}

/// A defocused city at night: bokeh discs over a dark gradient.
pub(super) fn bokeh(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let lamps = context.colors_or(&LAMPS);
    let glow = mix(lamps[0], lamps[lamps.len() / 2], 0.5);
    let plate = Plate::paint(context.aspect, |at| {
        let mut light = RgbSpan::blend(srgb(0x0A_0E_1C), srgb(0x1A_1A_2C), |i| smoothstep(0.0, 0.6, at.y[i]));
        let blocks = at.fbm([2.6, 1.2], context.seed(1), 3, 0.5);
        light.scale(|i| 1.0 + 0.6 * blocks[i]);
        light.add(glow, |i| {
            0.12 * exp_falloff(((at.y[i] - context.edge + 0.1) * 4.5).powi(2)) * (1.0 + 0.6 * blocks[i])
        });
        light
    });
    let mut sprites = super::bokeh(context, 38.0, [0.02, context.edge + 0.02], [0.02, 0.085], &lamps, 0.42);
    sprites.extend(super::bokeh(
        &ViewContext { seed: context.seed(9), ..*context },
        64.0,
        [context.edge - 0.34, context.edge + 0.02],
        [0.008, 0.03],
        &lamps,
        0.75,
    ));
    sprites.truncate(400);
    (plate, sprites)
}

/// Neon tubes on a dark wall and their glow.
pub(super) fn neon(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let hues = context.colors_or(&[0xFF_2E_9A, 0x22_C8_FF, 0x8A_4A_FF]);
    let (first, second) = (hues[0], hues[1 % hues.len()]);
    let mut plate = Plate::paint(context.aspect, |at| {
        let wall = at.fbm([3.0, 3.0], context.seed(1), 5, 0.55);
        let mut light = RgbSpan::uniform(srgb(0x12_10_1C));
        light.add(first, |i| 0.2 * exp_falloff(((at.x[i] + 0.5).powi(2) + (at.y[i] - 0.35).powi(2)) * 3.0));
        light.add(second, |i| 0.2 * exp_falloff(((at.x[i] - 0.5).powi(2) + (at.y[i] - 0.35).powi(2)) * 3.0));
        light.scale(|i| 1.0 + 0.35 * wall[i]);
        light
    });
    for (index, side) in [-0.62_f32, -0.48, 0.5, 0.66].into_iter().enumerate() {
        let hue = hues[index % hues.len()];
        let (top, bottom) =
            (0.08 + 0.1 * context.random(index, 1), context.edge - 0.04 - 0.14 * context.random(index, 2));
        for step in 0..12 {
            let v = top + (bottom - top) * (step as f32 + 0.5) / 12.0;
            plate.add_glow([side, v], 0.09, scaled(hue, 0.055));
        }
        plate.fill_box([side - 0.007, top, side + 0.007, bottom], 0.006, mix(scaled(hue, 1.4), [1.3; 3], 0.45), 1.0);
    }
    // A horizontal tube.
    let (v, hue) = (0.16 + 0.06 * context.random(9, 1), hues[hues.len() - 1]);
    for step in 0..14 {
        plate.add_glow([-0.3 + 0.6 * (step as f32 + 0.5) / 14.0, v], 0.09, scaled(hue, 0.05));
    }
    plate.fill_box([-0.3, v - 0.006, 0.3, v + 0.006], 0.006, mix(scaled(hue, 1.4), [1.3; 3], 0.45), 1.0);
    (plate, Vec::new())
}

/// Concert stage: volumetric beams from above.
pub(super) fn stage(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let hues = context.colors_or(&[0x4A_7A_FF, 0xFF_4A_8A, 0xFF_C4_6A]);
    let beams = 5;
    let plate = Plate::paint(context.aspect, |at| {
        let haze = at.fbm([1.6, 1.8], context.seed(1), 4, 0.55);
        let mut light = RgbSpan::uniform(srgb(0x07_07_0D));
        for index in 0..beams {
            let from = (index as f32 + 0.5) / beams as f32 - 0.5;
            let (start, lean) = (from * context.aspect.min(2.4), (context.random(index, 2) - 0.5) * 0.5 - from * 0.5);
            let hue = hues[index % hues.len()];
            light.add(hue, |i| {
                let wide = 0.025 + 0.16 * at.y[i];
                let x = (at.x[i] - start - lean * at.y[i]) / wide;
                0.5 * exp_falloff(x * x * 2.5) * exp_falloff(at.y[i] * 1.3) * (1.0 + 0.5 * haze[i])
            });
        }
        light.add(mix(hues[0], [1.0; 3], 0.2), |i| 0.06 * (1.0 + haze[i]) * smoothstep(0.2, 1.0, at.y[i]));
        light
    });
    let mut sprites = Vec::new();
    for index in 0..beams {
        let from = (index as f32 + 0.5) / beams as f32 - 0.5;
        sprites.push(Sprite {
            at: [from * context.aspect.min(2.4), 0.015],
            half_size: [0.09; 2],
            rotation: [0.0, 1.0],
            color: bright_color(&hues, index),
            share: 1.0,
            soft: 0.01,
            shape: SpriteShape::Glow,
            behind_ground: true,
        });
    }
    (plate, sprites)
}

fn bright_color(hues: &[Rgb], index: usize) -> Rgb {
    mix(pick_color(hues, (index % hues.len()) as f32 / hues.len() as f32), [1.6; 3], 0.5)
}
