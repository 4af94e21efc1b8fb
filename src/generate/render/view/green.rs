//! Meadows, woods, gardens.

#![expect(clippy::wildcard_enum_match_arm, reason = "the vocabulary grows; what has no rule of its own gets the usual")]

use super::{Canvas, bokeh};
use crate::generate::palette::{Rgb, fading, mix, saturated, smooth, srgb};
use crate::generate::render::light::strewn;
use crate::generate::render::plate::Plate;
use crate::generate::render::span::{Light, Patch, plane, wave, whole};
use crate::generate::render::sprite::Sprite;
use crate::generate::scene::{Hour, Place};

/// How bright, and of what colour, everything is at this hour.
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
    crate::generate::palette::product(color, daylight(hour))
}

/// Far grass and the trees that end it, under the sky.
pub(super) fn open(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let hour = canvas.view.hour;
    let place = canvas.view.place;
    let flowers = canvas.colors_or(match place {
        Place::Field => &[0xD6_B0_5A],
        Place::Flowers => &[0x8E_6A_C8, 0xB4_8A_DC, 0xE2_A8_C8],
        _ => &[0xF2_E8_B8],
    });
    let green = lit(srgb(0x74_9A_42), hour);
    let sky = super::sky::colors(hour);
    let plate = Plate::painted(canvas.aspect, |at| {
        let mut light = super::sky::sky(canvas, at);
        // Two rows of trees, the far one pale.
        for layer in 0..2_u32 {
            let share = layer as f32;
            let crown = at.turbulence([3.0 - share, 0.02], canvas.seed(30 + layer), 4, 0.55);
            let top = plane(|i| canvas.edge - 0.075 - 0.05 * share + 0.02 - (0.07 + 0.05 * share) * (1.0 - crown[i]));
            let leaf = at.fbm([16.0, 16.0], canvas.seed(34 + layer), 4, 0.6);
            let mut tree = Light::of(lit(mix(srgb(0x8F_A8_9A), srgb(0x35_52_28), 0.35 + 0.45 * share), hour));
            tree.mix_color(sky.low, &plane(|_| 0.35 * (1.0 - share)));
            tree.scale(&plane(|i| 1.0 + 0.4 * leaf[i]));
            light.mix(&tree, &plane(|i| smooth(-0.006, 0.006, at.y[i] - top[i])));
        }
        let far = (at.y[0] - (canvas.edge - 0.085)).max(0.0);
        let patches = at.fbm([2.0, 40.0], canvas.seed(40), 4, 0.6);
        let mut grass = Light::of(green);
        grass.scale(&plane(|i| 0.92 + 0.22 * patches[i]));
        if place != Place::Meadow {
            let rows = at.fbm([7.0, 70.0], canvas.seed(41), 3, 0.6);
            let share = if place == Place::Field { 0.85 } else { 0.7 };
            let color = lit(crate::generate::render::light::chosen(&flowers, 0.2), hour);
            grass.mix_color(color, &plane(|i| share * smooth(-0.6, 0.4, rows[i])));
        }
        grass.mix_color(sky.low, &plane(|_| 0.3 * fading(far / 0.03)));
        light.mix(&grass, &plane(|i| smooth(-0.004, 0.004, at.y[i] - (canvas.edge - 0.07))));
        light
    });
    let mut sprites = Vec::new();
    if place == Place::Flowers {
        let colors: Vec<Rgb> = flowers.iter().map(|color| lit(*color, hour)).collect();
        sprites = bokeh(canvas, 90.0, [canvas.edge - 0.08, canvas.edge + 0.12], [0.004, 0.016], &colors, 0.5);
        for sprite in &mut sprites {
            sprite.form = crate::generate::render::sprite::Form::Round;
        }
    }
    (plate, sprites)
}

/// Stems one behind the other in a haze of light, leaves above.
pub(super) fn forest(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let hour = canvas.view.hour;
    let (haze, leaf, dark) = match canvas.view.place {
        Place::Autumn => (0xF6_DC_A4, 0xD0_7A_24, 0x3A_20_10),
        Place::Jungle => (0xB8_D8_A8, 0x2F_7A_3A, 0x0C_24_14),
        _ => (0xD3_E2_B4, 0x5E_8C_3A, 0x001C_2816),
    };
    let [haze, leaf, dark] = [haze, leaf, dark].map(|code| lit(srgb(code), hour));
    let jungle = canvas.view.place == Place::Jungle;
    let plate = Plate::painted(canvas.aspect, |at| {
        let sun =
            plane(|i| fading(((at.x[i] - 0.35 * canvas.side).powi(2) * 1.6 + (at.y[i] - 0.22).powi(2) * 3.0) * 2.4));
        let mut light = Light::between(mix(haze, leaf, 0.62), mix(haze, [1.0; 3], 0.25), &sun);
        light.mix_color(mix(leaf, dark, 0.5), &plane(|i| 0.55 * smooth(0.3, 0.75, at.y[i])));
        for layer in 0..4_u32 {
            let share = (layer as f32 + 0.6) / 4.0;
            if !jungle {
                stems(canvas, at, layer, mix(mix(haze, leaf, 0.35), dark, share * 0.95), &mut light);
            }
            let clumps = at.fbm([2.0 + share, 2.6 + share], canvas.seed(20 + layer), 5, 0.55);
            let fine = at.fbm([12.0, 11.0], canvas.seed(24 + layer), 3, 0.6);
            let low = plane(|i| {
                // Leaves hang from above and bushes stand below; between them one sees through.
                let hanging = smooth(0.52, 0.0, at.y[i]);
                let standing = smooth(canvas.edge - 0.22, canvas.edge + 0.02, at.y[i]);
                (hanging.max(standing) - 0.62 + if jungle { 0.3 } else { 0.0 }) * 1.1
            });
            let tone = mix(mix(haze, leaf, 0.55 + 0.3 * share), mix(leaf, dark, 0.6), share * share);
            let mut leaves = Light::of(tone);
            leaves.mix_color(
                mix(saturated(leaf, 1.1), haze, 0.45),
                &plane(|i| 0.7 * smooth(0.0, 0.8, fine[i]) * (0.25 + sun[i])),
            );
            let soft = 0.16 + 0.25 * (1.0 - share);
            light.mix(&leaves, &plane(|i| 0.9 * smooth(-soft, soft, clumps[i] + low[i] + 0.22 * fine[i])));
        }
        if jungle {
            fronds(canvas, at, leaf, dark, &mut light);
        }
        light.add(haze, &plane(|i| 0.3 * sun[i]));
        light
    });
    let highlights = [mix(haze, [1.0; 3], 0.3), haze, mix(haze, leaf, 0.4)];
    let count = if canvas.is_dark() { 4.0 } else { 46.0 };
    (plate, bokeh(canvas, count, [-0.05, 0.5], [0.008, 0.042], &highlights, 0.24))
}

/// A row of upright stems, thicker and darker the nearer.
fn stems(canvas: &Canvas<'_>, at: &Patch, layer: u32, color: Rgb, light: &mut Light) {
    let many = [13.0, 8.0, 4.6, 2.4][layer as usize];
    let bark = at.fbm([30.0, 4.0], canvas.seed(50 + layer), 3, 0.6);
    let bend = at.fbm([0.5, 0.8], canvas.seed(55 + layer), 2, 0.5);
    let soft = 0.004 + 0.002 * layer as f32;
    let mut stem = Light::of(color);
    stem.scale(&plane(|i| 1.0 + 0.3 * bark[i]));
    light.mix(
        &stem,
        &plane(|i| {
            let place = (at.x[i] + 0.03 * bend[i]) * many;
            let column = whole(place);
            let own = |which| strewn(column as i32 as usize, which, canvas.seed(60 + layer));
            let middle = 0.5 + 0.5 * (own(1) - 0.5);
            let lean = 0.09 * (own(2) - 0.5) * (0.6 - at.y[i]) * many;
            let half = (0.1 + 0.09 * own(3)) * (1.0 + 0.5 * smooth(canvas.edge - 0.12, canvas.edge + 0.05, at.y[i]));
            let present = if own(4) < 0.72 { 1.0 } else { 0.0 };
            let ends = smooth(canvas.edge + 0.03, canvas.edge - 0.02 + 0.02 * layer as f32, at.y[i]);
            present * ends * (((half - (place - column - middle - lean).abs()) / many) / soft + 0.5).clamp(0.0, 1.0)
        }),
    );
}

/// Large leaves from the sides.
fn fronds(canvas: &Canvas<'_>, at: &Patch, leaf: Rgb, dark: Rgb, light: &mut Light) {
    for index in 0..canvas.count(9.0) {
        let number = |which: u32| canvas.number(index, 80 + which);
        let (u, v) = (canvas.across(index, 80), number(1) * 0.75);
        let angle = (number(2) - 0.5) * 0.45;
        let (sine, cosine) = (wave(angle), wave(angle + 0.25));
        let (long, wide) = (0.2 + 0.16 * number(3), 0.035 + 0.04 * number(4));
        let color = mix(mix(leaf, dark, number(5) * 0.9), [0.6, 0.75, 0.4], 0.12 * number(6));
        light.mix_color(
            color,
            &plane(|i| {
                let (dx, dy) = (at.x[i] - u, at.y[i] - v);
                let (x, y) = ((cosine * dx + sine * dy) / long, (cosine * dy - sine * dx) / wide);
                // A lens: two arcs that meet at the tips.
                let half = (1.0 - x * x).max(0.0);
                let rib = 0.25 * fading(y.abs() * 14.0);
                (((half - y.abs()) * wide / 0.012 + 0.5).clamp(0.0, 1.0) * if x.abs() < 1.0 { 0.85 } else { 0.0 })
                    * (1.0 - rib)
            }),
        );
    }
}

/// Leaves in soft sun, and flowers among them.
pub(super) fn garden(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let hour = canvas.view.hour;
    let blossom = canvas.view.place == Place::Blossom;
    let petals = canvas.colors_or(if blossom {
        &[0xF6_C6_D6, 0xFB_E2_EA, 0xEE_A4_C0]
    } else {
        &[0xF0_A8_B8, 0xF6_E0_8A, 0xFF_FF_FF, 0xD8_8A_C8]
    });
    let (pale, green, dark) =
        if blossom { (0xFB_EE_F0, 0xD8_B4_BE, 0x8C_6A_66) } else { (0xE4_EE_C4, 0x7F_A6_54, 0x2C_46_22) };
    let [pale, green, dark] = [pale, green, dark].map(|code| lit(srgb(code), hour));
    let plate = Plate::painted(canvas.aspect, |at| {
        let large = at.fbm([1.3, 1.5], canvas.seed(1), 4, 0.5);
        let middle = at.fbm([4.0, 4.4], canvas.seed(2), 4, 0.55);
        let sun = plane(|i| fading(((at.x[i] - 0.4 * canvas.side).powi(2) + (at.y[i] - 0.1).powi(2)) * 2.2));
        let mut light = Light::between(dark, green, &plane(|i| smooth(-0.7, 0.55, large[i] + 0.55 * middle[i] + 0.15)));
        light.mix_color(
            pale,
            &plane(|i| (0.8 * smooth(-0.1, 0.9, large[i] + 0.35 * middle[i] + 0.9 * sun[i] - 0.2)).min(0.9)),
        );
        light
            .mix_color(mix(green, dark, 0.4), &plane(|i| 0.6 * smooth(canvas.edge - 0.2, canvas.edge + 0.05, at.y[i])));
        light
    });
    let shine = [pale, mix(pale, [1.0; 3], 0.4), mix(pale, green, 0.3)];
    let mut sprites = bokeh(canvas, 44.0, [-0.05, canvas.edge * 0.95], [0.012, 0.055], &shine, 0.2);
    let petals: Vec<Rgb> = petals.iter().map(|color| lit(*color, hour)).collect();
    let (each, top) = if blossom { (110.0, -0.1) } else { (44.0, canvas.edge - 0.4) };
    for mut flower in
        bokeh(&Canvas { seed: canvas.seed(7), ..*canvas }, each, [top, canvas.edge], [0.012, 0.045], &petals, 0.8)
    {
        flower.form = crate::generate::render::sprite::Form::Round;
        flower.soft = flower.half[0] * 0.9;
        sprites.push(flower);
    }
    sprites.truncate(400);
    (plate, sprites)
}
