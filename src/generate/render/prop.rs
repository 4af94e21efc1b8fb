//! What the subject is put on: a podium, a shelf.

use super::camera::Camera;
use super::light::on_wall;
use super::material;
use super::span::{Light, Patch, SPAN, plane};
use crate::generate::palette::{fading, scaled, smooth};
use crate::generate::scene::{Prop, Scene};
use crate::generate::surface::Surface;

/// The podium's upper face: its middle, and half its width and depth.
pub(in crate::generate) const PODIUM_TOP: f32 = 0.845;
const PODIUM_WIDE: f32 = 0.46;
const PODIUM_DEEP: f32 = 0.062;
/// Its height on the picture.
const PODIUM_TALL: f32 = 0.085;
/// The shelf's upper face, from its far to its near edge, and its front.
pub(in crate::generate) const SHELF_BACK: f32 = 0.775;
const SHELF_FRONT: f32 = 0.875;
const SHELF_THICK: f32 = 0.045;

/// Draws the scene's prop over part of a row.
pub(super) fn draw(scene: &Scene, camera: &Camera, at: &Patch, light: &mut Light) {
    match &scene.prop {
        None => {}
        Some(Prop::Podium(surface)) => podium(scene, surface, camera, at, light),
        Some(Prop::Shelf(surface)) => shelf(scene, surface, camera, at, light),
    }
}

fn podium(scene: &Scene, surface: &Surface, camera: &Camera, at: &Patch, light: &mut Light) {
    let v = at.y[0];
    if v < PODIUM_TOP - PODIUM_DEEP - 0.02 {
        return;
    }
    let lamp = &scene.lamp;
    let pixel = camera.pixel.max(0.0008);
    let reach = plane(|i| (1.0 - (at.x[i] / PODIUM_WIDE).powi(2)).max(0.0).sqrt());
    // Its shadow on the ground, away from the light and all around.
    let low = PODIUM_TOP + PODIUM_TALL;
    light.scale(&plane(|i| {
        let (x, y) = ((at.x[i] + 0.09 * lamp.side) / (PODIUM_WIDE * 1.22), (v - low) / (PODIUM_DEEP * 1.8));
        1.0 - 0.6 * lamp.shadow.max(0.25) * smooth(1.25, 0.6, (x * x + y * y).sqrt())
    }));
    let towards = [0.8 * lamp.side + 0.15, -0.45];
    let world = camera.ground(at);
    let mut top = material::color(surface, &world, towards, at);
    let mut falling = super::light::on_ground(lamp, at, &world, scene.seed);
    falling.scale(&plane(|i| 1.04 + 0.1 * lamp.side * at.x[i] / PODIUM_WIDE));
    top.times(&falling);
    // Around the side the material goes on.
    let around = Patch {
        x: plane(|i| 0.5 * PODIUM_WIDE * 3.0 * (at.x[i] / PODIUM_WIDE).clamp(-1.0, 1.0)),
        y: plane(|i| v - PODIUM_TOP - PODIUM_DEEP * reach[i]),
        foot: [at.foot[0] * 1.5, at.foot[1]],
    };
    let mut side = material::color(surface, &around, [lamp.side, -0.7], at);
    side.times(&Light::of(std::array::from_fn(|c| lamp.ambient[c] + 0.8 * lamp.key[c])));
    if let Some([left, right]) = lamp.neon {
        side.add(left, &plane(|i| 0.35 * smooth(0.2, -1.0, at.x[i] / PODIUM_WIDE)));
        side.add(right, &plane(|i| 0.35 * smooth(-0.2, 1.0, at.x[i] / PODIUM_WIDE)));
    }
    side.scale(&plane(|i| {
        let turn = (at.x[i] / PODIUM_WIDE).clamp(-1.0, 1.0);
        let facing = 0.74 * reach[i] + 0.5 * lamp.side * turn;
        let down = ((v - PODIUM_TOP - PODIUM_DEEP * reach[i]) / PODIUM_TALL).clamp(0.0, 1.0);
        (0.26 + 0.5 * facing.max(0.0)) * (1.0 - 0.28 * down)
    }));
    let within = |value: f32| (value / pixel + 0.5).clamp(0.0, 1.0);
    light.mix(
        &side,
        &plane(|i| {
            let (upper, lower) = (PODIUM_TOP, PODIUM_TOP + PODIUM_TALL + PODIUM_DEEP * reach[i]);
            within(v - upper) * within(lower - v) * within(PODIUM_WIDE - at.x[i].abs())
        }),
    );
    let half = |i: usize| PODIUM_DEEP * reach[i] - (v - PODIUM_TOP).abs();
    light.mix(&top, &plane(|i| within(half(i)) * within(PODIUM_WIDE - at.x[i].abs())));
    // Its rim catches the light.
    let rim = plane(|i| {
        if v > PODIUM_TOP { 0.3 * fading((half(i) / 0.0016).abs()) * within(PODIUM_WIDE - at.x[i].abs()) } else { 0.0 }
    });
    light.add(lamp.key, &rim);
}

fn shelf(scene: &Scene, surface: &Surface, camera: &Camera, at: &Patch, light: &mut Light) {
    let v = at.y[0];
    let lamp = &scene.lamp;
    let within = |value: f32| (value / camera.pixel.max(0.0008) + 0.5).clamp(0.0, 1.0);
    let base = SHELF_FRONT + SHELF_THICK;
    // Above, the wall sees less light near the board; below it lies in its shadow.
    if v < SHELF_BACK + 0.01 {
        light.scale(&[1.0 - 0.25 * fading((SHELF_BACK - v).max(0.0) / 0.03); SPAN]);
    } else if v > base - 0.01 {
        light.scale(&[1.0 - 0.62 * lamp.shadow.max(0.3) * fading((v - base).max(0.0) / 0.07); SPAN]);
    }
    let top_share = within(v - SHELF_BACK) * within(SHELF_FRONT - v);
    if top_share > 0.0 {
        let down = (v - SHELF_BACK) / (SHELF_FRONT - SHELF_BACK);
        let scale = 1.12 - 0.12 * down;
        let board = Patch {
            x: plane(|i| at.x[i] * scale),
            y: [0.34 * down - 0.05; SPAN],
            foot: [at.foot[0] * scale, at.foot[1] * 3.4],
        };
        let mut top = material::color(surface, &board, [0.8 * lamp.side + 0.15, -0.45], at);
        top.times(&on_wall(lamp, at, scene.seed));
        top.scale(&[(0.82 + 0.25 * down) * 1.08; SPAN]);
        light.mix_all(&top, top_share);
    }
    let front_share = within(v - SHELF_FRONT) * within(base - v);
    if front_share > 0.0 {
        let board = Patch { x: at.x, y: plane(|i| at.y[i] * 0.8 + 3.0), foot: at.foot };
        let mut front = material::color(surface, &board, [lamp.side, -0.7], at);
        front.times(&on_wall(lamp, at, scene.seed));
        let down = (v - SHELF_FRONT) / SHELF_THICK;
        front.scale(&[0.72 - 0.2 * down; SPAN]);
        front.add(scaled(lamp.key, 0.12), &[fading(down * 14.0); SPAN]);
        light.mix_all(&front, front_share);
    }
}
