//! Shades the prop under the subject: a cylindrical podium or a shelf board.

use super::camera::Camera;
use super::illumination::on_wall;
use super::material;
use super::span::{RgbSpan, SPAN, TexCoords, per_pixel};
use crate::generate::falloff::{exp_falloff, smoothstep};
use crate::generate::linear_rgb::scaled;
use crate::generate::scene::{Prop, Scene};
use crate::generate::surface::Surface;

/// Centre of the podium's upper face; its half width and half depth follow.
pub(in crate::generate) const PODIUM_TOP: f32 = 0.845;
const PODIUM_HALF_WIDTH: f32 = 0.46;
const PODIUM_HALF_DEPTH: f32 = 0.062;
/// Height of the podium's side in the picture.
const PODIUM_HEIGHT: f32 = 0.085;
/// The shelf's upper face, from its far to its near edge, and its front.
pub(in crate::generate) const SHELF_BACK: f32 = 0.775;
const SHELF_FRONT: f32 = 0.875;
const SHELF_THICKNESS: f32 = 0.045;

/// Draws the scene's prop over part of a row.
pub(super) fn draw(scene: &Scene, camera: &Camera, at: &TexCoords, light: &mut RgbSpan) {
    match &scene.prop {
        None => {}
        Some(Prop::Podium(surface)) => podium(scene, surface, camera, at, light),
        Some(Prop::Shelf(surface)) => shelf(scene, surface, camera, at, light),
    }
}

fn podium(scene: &Scene, surface: &Surface, camera: &Camera, at: &TexCoords, light: &mut RgbSpan) {
    let v = at.y[0];
    if v < PODIUM_TOP - PODIUM_HALF_DEPTH - 0.02 {
        return;
    }
    let lighting = &scene.lighting;
    let pixel = camera.pixel.max(0.0008);
    let reach = per_pixel(|i| (1.0 - (at.x[i] / PODIUM_HALF_WIDTH).powi(2)).max(0.0).sqrt());
    // Shadow on the ground: a contact shadow all around, offset away from the light.
    let low = PODIUM_TOP + PODIUM_HEIGHT;
    light.scale(|i| {
        let (x, y) =
            ((at.x[i] + 0.09 * lighting.side) / (PODIUM_HALF_WIDTH * 1.22), (v - low) / (PODIUM_HALF_DEPTH * 1.8));
        1.0 - 0.6 * lighting.shadow.max(0.25) * smoothstep(1.25, 0.6, (x * x + y * y).sqrt())
    });
    let light_direction = [0.8 * lighting.side + 0.15, -0.45];
    let world = camera.ground(at);
    let mut top = material::color(surface, &world, light_direction, at);
    let mut irradiance = super::illumination::on_ground(lighting, at, &world, scene.seed);
    irradiance.scale(|i| 1.04 + 0.1 * lighting.side * at.x[i] / PODIUM_HALF_WIDTH);
    top.multiply(&irradiance);
    // Texture coordinates wrapped around the side.
    let around = TexCoords {
        x: per_pixel(|i| 0.5 * PODIUM_HALF_WIDTH * 3.0 * (at.x[i] / PODIUM_HALF_WIDTH).clamp(-1.0, 1.0)),
        y: per_pixel(|i| v - PODIUM_TOP - PODIUM_HALF_DEPTH * reach[i]),
        footprint: [at.footprint[0] * 1.5, at.footprint[1]],
    };
    let mut side = material::color(surface, &around, [lighting.side, -0.7], at);
    side.multiply(&RgbSpan::uniform(std::array::from_fn(|c| lighting.ambient[c] + 0.8 * lighting.key[c])));
    if let Some([left, right]) = lighting.neon {
        side.add(left, |i| 0.35 * smoothstep(0.2, -1.0, at.x[i] / PODIUM_HALF_WIDTH));
        side.add(right, |i| 0.35 * smoothstep(-0.2, 1.0, at.x[i] / PODIUM_HALF_WIDTH));
    }
    side.scale(|i| {
        let turn = (at.x[i] / PODIUM_HALF_WIDTH).clamp(-1.0, 1.0);
        let facing = 0.74 * reach[i] + 0.5 * lighting.side * turn;
        let down = ((v - PODIUM_TOP - PODIUM_HALF_DEPTH * reach[i]) / PODIUM_HEIGHT).clamp(0.0, 1.0);
        (0.26 + 0.5 * facing.max(0.0)) * (1.0 - 0.28 * down)
    });
    let coverage = |value: f32| (value / pixel + 0.5).clamp(0.0, 1.0);
    light.mix(&side, |i| {
        let (upper, lower) = (PODIUM_TOP, PODIUM_TOP + PODIUM_HEIGHT + PODIUM_HALF_DEPTH * reach[i]);
        coverage(v - upper) * coverage(lower - v) * coverage(PODIUM_HALF_WIDTH - at.x[i].abs())
    });
    let half = |i: usize| PODIUM_HALF_DEPTH * reach[i] - (v - PODIUM_TOP).abs();
    light.mix(&top, |i| coverage(half(i)) * coverage(PODIUM_HALF_WIDTH - at.x[i].abs()));
    // Specular highlight on the rim.
    let rim = per_pixel(|i| {
        if v > PODIUM_TOP {
            0.3 * exp_falloff((half(i) / 0.0016).abs()) * coverage(PODIUM_HALF_WIDTH - at.x[i].abs())
        } else {
            0.0
        }
    });
    light.add(lighting.key, |i| rim[i]);
}

fn shelf(scene: &Scene, surface: &Surface, camera: &Camera, at: &TexCoords, light: &mut RgbSpan) {
    let v = at.y[0];
    let lighting = &scene.lighting;
    let coverage = |value: f32| (value / camera.pixel.max(0.0008) + 0.5).clamp(0.0, 1.0);
    let base = SHELF_FRONT + SHELF_THICKNESS;
    // Ambient occlusion on the wall above the board; its shadow below.
    if v < SHELF_BACK + 0.01 {
        light.scale(|_| 1.0 - 0.25 * exp_falloff((SHELF_BACK - v).max(0.0) / 0.03));
    } else if v > base - 0.01 {
        light.scale(|_| 1.0 - 0.62 * lighting.shadow.max(0.3) * exp_falloff((v - base).max(0.0) / 0.07));
    }
    let top_share = coverage(v - SHELF_BACK) * coverage(SHELF_FRONT - v);
    if top_share > 0.0 {
        let down = (v - SHELF_BACK) / (SHELF_FRONT - SHELF_BACK);
        let scale = 1.12 - 0.12 * down;
        let board = TexCoords {
            x: per_pixel(|i| at.x[i] * scale),
            y: [0.34 * down - 0.05; SPAN],
            footprint: [at.footprint[0] * scale, at.footprint[1] * 3.4],
        };
        let mut top = material::color(surface, &board, [0.8 * lighting.side + 0.15, -0.45], at);
        top.multiply(&on_wall(lighting, at, scene.seed));
        top.scale(|_| (0.82 + 0.25 * down) * 1.08);
        light.mix(&top, |_| top_share);
    }
    let front_share = coverage(v - SHELF_FRONT) * coverage(base - v);
    if front_share > 0.0 {
        let board = TexCoords { x: at.x, y: per_pixel(|i| at.y[i] * 0.8 + 3.0), footprint: at.footprint };
        let mut front = material::color(surface, &board, [lighting.side, -0.7], at);
        front.multiply(&on_wall(lighting, at, scene.seed));
        let down = (v - SHELF_FRONT) / SHELF_THICKNESS;
        front.scale(|_| 0.72 - 0.2 * down);
        front.add(scaled(lighting.key, 0.12), |_| exp_falloff(down * 14.0));
        light.mix(&front, |_| front_share);
    }
}
