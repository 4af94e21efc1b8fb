//! Water from within, smoke, fire.

use super::{Canvas, bokeh};
use crate::generate::palette::{Rgb, fading, mix, scaled, smooth, srgb};
use crate::generate::render::plate::Plate;
use crate::generate::render::span::{Light, plane};
use crate::generate::render::sprite::{Form, Sprite};

/// Rays from the surface, plankton, bubbles.
pub(super) fn underwater(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let [shallow, deep] = [srgb(0x5A_C4_CE), srgb(0x06_2C_4C)];
    let plate = Plate::painted(canvas.aspect, |at| {
        let mut light = Light::between(shallow, deep, &plane(|i| smooth(-0.1, 0.95, at.y[i])));
        // Rays fan out from a place above.
        let fan = plane(|i| (at.x[i] - 0.25 * canvas.side) / (at.y[i] + 0.55));
        let rays = crate::generate::render::span::Patch { x: fan, y: plane(|i| 0.2 * at.y[i]), foot: at.foot }.fbm(
            [5.0, 1.0],
            canvas.seed(1),
            4,
            0.55,
        );
        light.add(mix(shallow, [1.0; 3], 0.5), &plane(|i| 0.42 * smooth(0.0, 0.8, rays[i]) * fading(at.y[i] * 2.2)));
        let murk = at.fbm([1.4, 1.6], canvas.seed(2), 4, 0.5);
        light.scale(&plane(|i| 1.0 + 0.16 * murk[i]));
        light
    });
    let mut sprites = bokeh(canvas, 34.0, [0.0, 1.0], [0.003, 0.014], &[[0.8, 0.95, 1.0]], 0.2);
    for (index, sprite) in sprites.iter_mut().enumerate() {
        if index % 3 == 0 {
            sprite.form = Form::Ring;
        }
    }
    (plate, sprites)
}

/// Smoke in the light of a lamp, before the dark.
pub(super) fn smoke(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let hues = canvas.colors_or(&[0xC9_CC_D2]);
    let plate = Plate::painted(canvas.aspect, |at| {
        let (across, down) = (at.fbm([1.1; 2], canvas.seed(1), 4, 0.5), at.fbm([1.1; 2], canvas.seed(2), 4, 0.5));
        let once = at.warped(&across, &down, 0.4);
        let (across, down) = (once.fbm([1.7; 2], canvas.seed(3), 4, 0.5), once.fbm([1.7; 2], canvas.seed(4), 4, 0.5));
        let twice = once.warped(&across, &down, 0.28);
        let mut light = Light::of(srgb(0x0B_0C_10));
        for (index, hue) in hues.iter().take(3).enumerate() {
            let body = twice.fbm([1.4, 1.1], canvas.seed(5 + index as u32), 5, 0.5);
            let place = (index as f32 - 0.5 * (hues.len().min(3) - 1) as f32) * 0.5;
            light.add(
                *hue,
                &plane(|i| {
                    let lit = if hues.len() > 1 { fading(((at.x[i] - place) * 2.4).powi(2)) } else { 1.0 };
                    0.75 * smooth(-0.25, 0.9, body[i] + 0.5 * (at.y[i] - 0.55)).powi(2) * (0.3 + 0.7 * lit)
                }),
            );
        }
        light
    });
    (plate, Vec::new())
}

/// Flames out of focus, and sparks.
pub(super) fn fire(canvas: &Canvas<'_>) -> (Plate, Vec<Sprite>) {
    let plate = Plate::painted(canvas.aspect, |at| {
        let (across, down) = (at.fbm([2.2, 1.2], canvas.seed(1), 4, 0.55), at.fbm([2.2, 1.2], canvas.seed(2), 4, 0.55));
        let tongues = at.warped(&across, &down, 0.2).fbm([2.6, 0.9], canvas.seed(3), 4, 0.5);
        let heat = plane(|i| smooth(-0.45, 0.75, tongues[i] + 1.7 * (at.y[i] - 0.62)));
        let mut light = Light::of(srgb(0x0E_06_04));
        light.add(srgb(0xC8_2A_06), &plane(|i| 0.9 * smooth(0.05, 0.6, heat[i])));
        light.add(srgb(0xFF_8A_1E), &plane(|i| 0.9 * smooth(0.35, 0.85, heat[i])));
        light.add(srgb(0xFF_E0_8A), &plane(|i| 0.9 * smooth(0.65, 1.0, heat[i])));
        light
    });
    let sparks: [Rgb; 2] = [scaled(srgb(0xFF_B0_4A), 1.4), srgb(0xFF_7A_2A)];
    (plate, bokeh(canvas, 46.0, [0.0, canvas.edge], [0.002, 0.012], &sparks, 0.8))
}
