//! Streets, lights, stages.

use super::Canvas;
use crate::generate::palette::{Rgb, fading, mix, scaled, smooth, srgb};
use crate::generate::render::light::{chosen, strewn};
use crate::generate::render::plate::Plate;
use crate::generate::render::span::{Light, Patch, Plane, plane, whole};
use crate::generate::render::sprite::{Form, Sprite};

/// Lamps, windows, traffic.
const LAMPS: [u32; 6] = [0xFF_C8_7A, 0xFF_E6_BC, 0xFF_9A_4A, 0xFF_5A_3C, 0x8A_C4_FF, 0xFF_D8_9A];

/// Houses as columns of random heights; answers how much of each pixel they cover, and a number of each house.
fn houses(canvas: &Canvas<'_>, at: &Patch, layer: u32, many: f32, tall: f32) -> (Plane, Plane) {
    let own = |column: f32, which| strewn(column as i32 as usize, which, canvas.seed(20 + layer));
    let number = plane(|i| own(whole(at.x[i] * many), 1));
    let cover = plane(|i| {
        let column = whole(at.x[i] * many);
        let top = canvas.edge - tall * (0.35 + 0.65 * own(column, 2));
        smooth(-0.002, 0.002, at.y[i] - top)
    });
    (cover, number)
}

/// Towers under the sky, lit from within at night.
pub(super) fn skyline(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let colors = super::sky::colors(canvas.view.hour);
    let dark = canvas.is_dark();
    let plate = Plate::painted(canvas.aspect, |at| {
        let mut light = super::sky::sky(canvas, at);
        for layer in 0..3_u32 {
            let share = layer as f32 / 2.0;
            let many = 11.0 - 3.0 * layer as f32;
            let (cover, own) = houses(canvas, at, layer, many, 0.42 - 0.09 * share);
            let wall = if dark { srgb(0x10_16_26) } else { srgb(0x5E_66_70) };
            let mut house = Light::between(
                mix(colors.low, wall, 0.35 + 0.5 * share),
                mix(colors.low, scaled(wall, 1.5), 0.3 + 0.5 * share),
                &own,
            );
            let (columns, rows) = (many * 6.0, 46.0);
            let windows = plane(|i| {
                let (x, y) = (at.x[i] * columns, at.y[i] * rows);
                let lit =
                    strewn((whole(x) as i32 + 4096) as usize, (whole(y) as i32 + 64) as u32, canvas.seed(30 + layer));
                let within = |value: f32| smooth(0.46, 0.3, (value - whole(value) - 0.5).abs());
                let on = if lit > if dark { 0.62 } else { 0.3 } { 1.0 } else { 0.0 };
                within(x) * within(y) * on * (0.4 + 0.6 * lit)
            });
            let glass = if dark { scaled(srgb(0xFF_CE_86), 1.1) } else { mix(colors.middle, [1.0; 3], 0.3) };
            house.mix_color(glass, &plane(|i| windows[i] * (0.25 + 0.55 * share)));
            light.mix(&house, &cover);
        }
        light
    });
    let lamps = canvas.colors_or(&LAMPS);
    let sprites = if dark {
        super::bokeh(canvas, 34.0, [canvas.edge - 0.34, canvas.edge], [0.006, 0.024], &lamps, 0.7)
    } else {
        Vec::new()
    };
    (plate, sprites)
}

/// Between the houses of a street, which end in a bright sky.
pub(super) fn street(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let colors = super::sky::colors(canvas.view.hour);
    let dark = canvas.is_dark();
    let plate = Plate::painted(canvas.aspect, |at| {
        let mut light = super::sky::sky(canvas, at);
        let vanish = canvas.edge - 0.06;
        // A façade in perspective: how far along it a column is goes with the inverse of its distance from the middle.
        let depth = plane(|i| 1.0 / (at.x[i].abs() + 0.1));
        let facade =
            Patch { x: depth, y: plane(|i| (at.y[i] - vanish) * depth[i]), foot: [at.foot[0] * 8.0, at.foot[1] * 8.0] };
        let cover = plane(|i| smooth(-0.01, 0.01, at.x[i].abs() - 0.1 - 0.16 * smooth(0.0, 0.0001, at.x[i]) * 0.4));
        let own = plane(|i| {
            strewn((whole(facade.x[i] * 1.4) as i32 + if at.x[i] > 0.0 { 99 } else { 0 }) as usize, 3, canvas.seed(5))
        });
        let walls = if dark { [srgb(0x1C_1C_24), srgb(0x2E_28_2A)] } else { [srgb(0xB8_A0_86), srgb(0x86_7C_76)] };
        let mut house = Light::between(walls[0], walls[1], &own);
        let grime = facade.fbm([1.5, 1.5], canvas.seed(6), 4, 0.5);
        house.scale(&plane(|i| {
            (0.72 + 0.2 * grime[i] + if at.x[i] * canvas.side < 0.0 { 0.25 } else { -0.1 }).max(0.05)
        }));
        let windows = plane(|i| {
            let (x, y) = (facade.x[i] * 5.0, facade.y[i] * 3.2);
            let within = |value: f32, half: f32| smooth(half + 0.08, half - 0.04, (value - whole(value) - 0.5).abs());
            let lit = strewn((whole(x) as i32 + 64) as usize, (whole(y) as i32 + 64) as u32, canvas.seed(7));
            within(x, 0.26) * within(y, 0.32) * if lit > 0.35 || !dark { 1.0 } else { 0.2 }
        });
        house.mix_color(if dark { srgb(0xF2_B4_62) } else { srgb(0x3E_48_54) }, &plane(|i| 0.75 * windows[i]));
        let shop = plane(|i| smooth(-0.16, -0.1, facade.y[i] * 0.5) * smooth(0.3, 0.1, facade.y[i]));
        house.mix_color(if dark { srgb(0xFF_C6_7C) } else { srgb(0xD8_C4_A4) }, &plane(|i| 0.4 * shop[i]));
        house.mix_color(colors.low, &plane(|i| 0.55 * smooth(3.0, 9.0, facade.x[i])));
        light.mix(&house, &cover);
        light.mix_color(
            if dark { srgb(0x16_16_1C) } else { srgb(0x84_80_7C) },
            &plane(|i| smooth(-0.02, 0.03, at.y[i] - vanish - 0.01)),
        );
        light
    });
    let lamps = canvas.colors_or(&LAMPS);
    let (each, share) = if dark { (46.0, 0.8) } else { (10.0, 0.28) };
    (plate, super::bokeh(canvas, each, [canvas.edge - 0.4, canvas.edge + 0.02], [0.008, 0.034], &lamps, share))
}

/// A city at night so far out of focus that only its lights are left.
pub(super) fn bokeh(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let lamps = canvas.colors_or(&LAMPS);
    let glow = mix(lamps[0], lamps[lamps.len() / 2], 0.5);
    let plate = Plate::painted(canvas.aspect, |at| {
        let mut light = Light::between(srgb(0x0A_0E_1C), srgb(0x1A_1A_2C), &plane(|i| smooth(0.0, 0.6, at.y[i])));
        let blocks = at.fbm([2.6, 1.2], canvas.seed(1), 3, 0.5);
        light.scale(&plane(|i| 1.0 + 0.6 * blocks[i]));
        light.add(
            glow,
            &plane(|i| 0.12 * fading(((at.y[i] - canvas.edge + 0.1) * 4.5).powi(2)) * (1.0 + 0.6 * blocks[i])),
        );
        light
    });
    let mut sprites = super::bokeh(canvas, 38.0, [0.02, canvas.edge + 0.02], [0.02, 0.085], &lamps, 0.42);
    sprites.extend(super::bokeh(
        &Canvas { seed: canvas.seed(9), ..*canvas },
        64.0,
        [canvas.edge - 0.34, canvas.edge + 0.02],
        [0.008, 0.03],
        &lamps,
        0.75,
    ));
    sprites.truncate(400);
    (plate, sprites)
}

/// Tubes of light on a dark wall, and their glow.
pub(super) fn neon(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let hues = canvas.colors_or(&[0xFF_2E_9A, 0x22_C8_FF, 0x8A_4A_FF]);
    let (first, second) = (hues[0], hues[1 % hues.len()]);
    let mut plate = Plate::painted(canvas.aspect, |at| {
        let wall = at.fbm([3.0, 3.0], canvas.seed(1), 5, 0.55);
        let mut light = Light::of(srgb(0x12_10_1C));
        light.add(first, &plane(|i| 0.2 * fading(((at.x[i] + 0.5).powi(2) + (at.y[i] - 0.35).powi(2)) * 3.0)));
        light.add(second, &plane(|i| 0.2 * fading(((at.x[i] - 0.5).powi(2) + (at.y[i] - 0.35).powi(2)) * 3.0)));
        light.scale(&plane(|i| 1.0 + 0.35 * wall[i]));
        light
    });
    for (index, side) in [-0.62_f32, -0.48, 0.5, 0.66].into_iter().enumerate() {
        let hue = hues[index % hues.len()];
        let (top, bottom) = (0.08 + 0.1 * canvas.number(index, 1), canvas.edge - 0.04 - 0.14 * canvas.number(index, 2));
        for step in 0..12 {
            let v = top + (bottom - top) * (step as f32 + 0.5) / 12.0;
            plate.glow([side, v], 0.09, scaled(hue, 0.055));
        }
        plate.area([side - 0.007, top, side + 0.007, bottom], 0.006, mix(scaled(hue, 1.4), [1.3; 3], 0.45), 1.0);
    }
    // A bar across, which every such room has.
    let (v, hue) = (0.16 + 0.06 * canvas.number(9, 1), hues[hues.len() - 1]);
    for step in 0..14 {
        plate.glow([-0.3 + 0.6 * (step as f32 + 0.5) / 14.0, v], 0.09, scaled(hue, 0.05));
    }
    plate.area([-0.3, v - 0.006, 0.3, v + 0.006], 0.006, mix(scaled(hue, 1.4), [1.3; 3], 0.45), 1.0);
    (plate, Vec::new())
}

/// Beams from above in haze.
pub(super) fn stage(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let hues = canvas.colors_or(&[0x4A_7A_FF, 0xFF_4A_8A, 0xFF_C4_6A]);
    let beams = 5;
    let plate = Plate::painted(canvas.aspect, |at| {
        let haze = at.fbm([1.6, 1.8], canvas.seed(1), 4, 0.55);
        let mut light = Light::of(srgb(0x07_07_0D));
        for index in 0..beams {
            let from = (index as f32 + 0.5) / beams as f32 - 0.5;
            let (start, lean) = (from * canvas.aspect.min(2.4), (canvas.number(index, 2) - 0.5) * 0.5 - from * 0.5);
            let hue = hues[index % hues.len()];
            light.add(
                hue,
                &plane(|i| {
                    let wide = 0.025 + 0.16 * at.y[i];
                    let x = (at.x[i] - start - lean * at.y[i]) / wide;
                    0.5 * fading(x * x * 2.5) * fading(at.y[i] * 1.3) * (1.0 + 0.5 * haze[i])
                }),
            );
        }
        light.add(mix(hues[0], [1.0; 3], 0.2), &plane(|i| 0.06 * (1.0 + haze[i]) * smooth(0.2, 1.0, at.y[i])));
        light
    });
    let mut sprites = Vec::new();
    for index in 0..beams {
        let from = (index as f32 + 0.5) / beams as f32 - 0.5;
        sprites.push(Sprite {
            at: [from * canvas.aspect.min(2.4), 0.015],
            half: [0.09; 2],
            turn: [0.0, 1.0],
            color: chosen_bright(&hues, index),
            share: 1.0,
            soft: 0.01,
            form: Form::Glow,
            behind: true,
        });
    }
    (plate, sprites)
}

fn chosen_bright(hues: &[Rgb], index: usize) -> Rgb {
    mix(chosen(hues, (index % hues.len()) as f32 / hues.len() as f32), [1.6; 3], 0.5)
}
