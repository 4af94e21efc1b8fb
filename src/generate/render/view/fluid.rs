//! Paints fluids filling the view: underwater, smoke, fire.

use super::{ViewContext, bokeh};
use crate::generate::falloff::{exp_falloff, smoothstep};
use crate::generate::linear_rgb::{Rgb, mix, scaled, srgb};
use crate::generate::render::plate::Plate;
use crate::generate::render::span::{RgbSpan, per_pixel};
use crate::generate::render::sprite::{Sprite, SpriteShape};

pub(super) fn underwater(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let [shallow, deep] = [srgb(0x5A_C4_CE), srgb(0x06_2C_4C)];
    let plate = Plate::paint(context.aspect, |at| {
        let mut light = RgbSpan::blend(shallow, deep, |i| smoothstep(-0.1, 0.95, at.y[i]));
        // Rays fan out from a point above.
        let fan = per_pixel(|i| (at.x[i] - 0.25 * context.side) / (at.y[i] + 0.55));
        let rays = crate::generate::render::span::TexCoords {
            x: fan,
            y: per_pixel(|i| 0.2 * at.y[i]),
            footprint: at.footprint,
        }
        .fbm([5.0, 1.0], context.seed(1), 4, 0.55);
        light.add(mix(shallow, [1.0; 3], 0.5), |i| 0.42 * smoothstep(0.0, 0.8, rays[i]) * exp_falloff(at.y[i] * 2.2));
        let murk = at.fbm([1.4, 1.6], context.seed(2), 4, 0.5);
        light.scale(|i| 1.0 + 0.16 * murk[i]);
        light
    });
    let mut sprites = bokeh(context, 34.0, [0.0, 1.0], [0.003, 0.014], &[[0.8, 0.95, 1.0]], 0.2);
    for (index, sprite) in sprites.iter_mut().enumerate() {
        if index % 3 == 0 {
            sprite.shape = SpriteShape::Ring;
        }
    }
    (plate, sprites)
}

pub(super) fn smoke(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let hues = context.colors_or(&[0xC9_CC_D2]);
    let plate = Plate::paint(context.aspect, |at| {
        let once = at.swirled([1.1; 2], [context.seed(1), context.seed(2)], 4, 0.5, 0.4);
        let twice = once.swirled([1.7; 2], [context.seed(3), context.seed(4)], 4, 0.5, 0.28);
        let mut light = RgbSpan::uniform(srgb(0x0B_0C_10));
        for (index, hue) in hues.iter().take(3).enumerate() {
            let body = twice.fbm([1.4, 1.1], context.seed(5 + index as u32), 5, 0.5);
            let place = (index as f32 - 0.5 * (hues.len().min(3) - 1) as f32) * 0.5;
            light.add(*hue, |i| {
                let lit = if hues.len() > 1 { exp_falloff(((at.x[i] - place) * 2.4).powi(2)) } else { 1.0 };
                0.75 * smoothstep(-0.25, 0.9, body[i] + 0.5 * (at.y[i] - 0.55)).powi(2) * (0.3 + 0.7 * lit)
            });
        }
        light
    });
    (plate, Vec::new())
}

pub(super) fn fire(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let plate = Plate::paint(context.aspect, |at| {
        let carried = at.swirled([2.2, 1.2], [context.seed(1), context.seed(2)], 4, 0.55, 0.2);
        let tongues = carried.fbm([2.6, 0.9], context.seed(3), 4, 0.5);
        let heat = per_pixel(|i| smoothstep(-0.45, 0.75, tongues[i] + 1.7 * (at.y[i] - 0.62)));
        let mut light = RgbSpan::uniform(srgb(0x0E_06_04));
        light.add(srgb(0xC8_2A_06), |i| 0.9 * smoothstep(0.05, 0.6, heat[i]));
        light.add(srgb(0xFF_8A_1E), |i| 0.9 * smoothstep(0.35, 0.85, heat[i]));
        light.add(srgb(0xFF_E0_8A), |i| 0.9 * smoothstep(0.65, 1.0, heat[i]));
        light
    });
    let sparks: [Rgb; 2] = [scaled(srgb(0xFF_B0_4A), 1.4), srgb(0xFF_7A_2A)];
    (plate, bokeh(context, 46.0, [0.0, context.edge], [0.002, 0.012], &sparks, 0.8))
}
