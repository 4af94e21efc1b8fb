//! Renders a scene to RGBA8: background, ground with reflections, prop, air, sprites and grading.
//!
//! All shading is `f32` in linear light, one [`span`] of a row at a time. Rows are independent, so the output does not
//! depend on threads. Coordinates are in picture heights, so every size shows one scene; small ones are supersampled.

mod air;
mod camera;
mod illumination;
mod material;
mod plate;
mod prop;
pub(super) use prop::{PODIUM_TOP, SHELF_BACK};
mod span;
mod sprite;
mod view;

use super::falloff::{exp_falloff, smoothstep};
use super::linear_rgb::{Rgb, luminance, mix};
use super::scene::{Background, Lighting, Scene};
use super::surface::{Material, Surface};
use crate::image::{Frame, Size};
use backdrop_kernels::noise::cpu::random;
use camera::{Camera, SUBJECT_V};
use plate::Plate;
use rayon::prelude::*;
use span::{RgbSpan, SPAN, TexCoords, per_pixel};
use sprite::Sprite;

/// Pictures with fewer pixels are supersampled.
const MIN_SAMPLES: usize = 500_000;
/// Maximum samples along a pixel's side.
const MAX_SAMPLES_PER_SIDE: usize = 4;

/// A scene prepared for rendering at one aspect ratio.
struct Renderer<'a> {
    scene: &'a Scene,
    camera: Camera,
    aspect: f32,
    /// The background, and a blurred copy for reflections in a glossy ground.
    plate: Plate,
    mirrored: Option<Plate>,
    sprites: Vec<Sprite>,
}

pub(super) fn draw(scene: &Scene, size: Size) -> Frame {
    let (width, height) = (size.width as usize, size.height as usize);
    let mut pixels = vec![0; size.area() * 4];
    if pixels.is_empty() {
        return Frame::new(size, pixels.into());
    }
    let samples = (1..MAX_SAMPLES_PER_SIDE)
        .find(|samples| size.area() * samples * samples >= MIN_SAMPLES)
        .unwrap_or(MAX_SAMPLES_PER_SIDE);
    let step = 1.0 / (height * samples) as f32;
    let renderer = Renderer::new(scene, width as f32 / height as f32, step);
    let columns = width * samples;
    let scratch = || [0, 1, 2].map(|_| vec![0.0_f32; columns]);
    pixels.par_chunks_mut(width * 4).enumerate().for_each_init(scratch, |rows, (y, pixels)| {
        let mut sums = vec![[0.0_f32; 3]; width];
        for sample in 0..samples {
            let v = ((y * samples + sample) as f32 + 0.5) * step;
            renderer.render_row(v, step, rows);
            for (column, sum) in sums.iter_mut().enumerate() {
                for (sum, row) in sum.iter_mut().zip(rows.iter()) {
                    *sum += row[column * samples..][..samples].iter().sum::<f32>();
                }
            }
        }
        let share = 1.0 / (samples * samples) as f32;
        for (x, (pixel, sum)) in pixels.as_chunks_mut::<4>().0.iter_mut().zip(sums).enumerate() {
            *pixel = encode_srgb8(sum.map(|sum| sum * share), x, y);
        }
    });
    Frame::new(size, pixels.into())
}

/// Encodes linear light as sRGB, with half a step of dither noise in both directions against banding.
///
/// `1.055 x^(1/2.4) - 0.055` is approximated by a sum of roots, within a step of 255.
fn encode_srgb8(light: Rgb, x: usize, y: usize) -> [u8; 4] {
    let noise = random(x as i32, y as i32, 0x00D1_7E12);
    let [red, green, blue] = [0.0_f32, 0.37, 0.71].map(|moved| {
        let noise = noise + moved;
        if noise >= 1.0 { noise - 1.0 } else { noise }
    });
    let code = |light: f32, noise: f32| {
        let light = light.clamp(0.0, 1.0);
        let (half, quarter) = (light.sqrt(), light.sqrt().sqrt());
        let value = if light < 0.003_130_8 {
            12.92 * light
        } else {
            0.585_122_4 * half + 0.783_140_36 * quarter - 0.368_262_74 * quarter.sqrt()
        };
        (value * 255.0 + noise).clamp(0.0, 255.0) as u8
    };
    [code(light[0], red), code(light[1], green), code(light[2], blue), 255]
}

impl<'a> Renderer<'a> {
    fn new(scene: &'a Scene, aspect: f32, pixel: f32) -> Self {
        let camera = Camera { horizon: scene.horizon, blur: scene.blur, pixel };
        let paint = |blur| match &scene.background {
            Background::View(view) => view::paint(&view::ViewContext {
                view,
                aspect,
                edge: scene.edge,
                horizon: scene.horizon.max(scene.edge - 0.14),
                seed: scene.seed,
                side: scene.lighting.side,
                blur,
            }),
            Background::Sweep(_) | Background::Gradient(_) | Background::Wall(_) => {
                (Plate::paint(aspect, |at| shade_background(scene, at)), Vec::new())
            }
        };
        let (plate, mut sprites) = paint(0.0025 + 0.016 * scene.blur);
        let gloss = scene.ground.map_or((0.0, 1.0), |ground| ground.gloss());
        let mirrored = (gloss.0 > 0.0).then(|| {
            let (mut mirrored, _) = paint(0.004);
            for sprite in &sprites {
                mirrored.add_glow(
                    sprite.at,
                    sprite.half_size[0].max(0.004),
                    sprite.color.map(|value| value * sprite.share * 0.6),
                );
            }
            mirrored.blur(0.006 + 0.07 * gloss.1);
            mirrored
        });
        sprites.extend(air::sprites(scene, aspect));
        Self { scene, camera, aspect, plate, mirrored, sprites }
    }

    /// Renders the row at `v`, in linear light.
    fn render_row(&self, v: f32, step: f32, rows: &mut [Vec<f32>; 3]) {
        let scene = self.scene;
        let width = rows[0].len();
        let left = 0.5 * step - 0.5 * self.aspect;
        let soft = match scene.background {
            Background::Sweep(_) | Background::Gradient(_) => 0.2,
            Background::Wall(_) | Background::View(_) => step.max(1.3 * self.camera.circle_of_confusion(scene.edge)),
        };
        let ground_coverage = if scene.ground.is_some() { smoothstep(-0.5, 0.5, (v - scene.edge) / soft) } else { 0.0 };
        let plate = self.plate.row(v);
        let mirrored = self.mirrored.as_ref().map(|plate| {
            let away = v - scene.edge;
            [plate.row(scene.edge - away), plate.row(scene.edge - 1.7 * away - 0.03)]
        });
        let far = self.plate.row(scene.edge - 0.01).mean();
        for first in (0..width).step_by(SPAN) {
            let footprint = step
                + if ground_coverage < 1.0 { 1.5 * self.camera.circle_of_confusion(scene.edge - 0.05) } else { 0.0 };
            let screen = TexCoords {
                x: per_pixel(|at| left + (first + at) as f32 * step),
                y: [v; SPAN],
                footprint: [footprint; 2],
            };
            let mut light = match &scene.background {
                _ if ground_coverage >= 1.0 => RgbSpan::uniform([0.0; 3]),
                Background::View(_) => plate.sample(&screen.x),
                Background::Sweep(_) | Background::Gradient(_) | Background::Wall(_) => {
                    shade_background(scene, &screen)
                }
            };
            if let Some(ground) = &scene.ground
                && ground_coverage > 0.0
            {
                let lit = self.ground(ground, &screen, mirrored.as_ref(), far);
                light.mix(&lit, |_| ground_coverage);
            }
            let end = (first + SPAN).min(width);
            for (row, plane) in rows.iter_mut().zip(&light.0) {
                row[first..end].copy_from_slice(&plane[..end - first]);
            }
        }
        // The ground hides distant lights.
        let (distant, near): (Vec<&Sprite>, Vec<&Sprite>) =
            self.sprites.iter().partition(|sprite| sprite.behind_ground);
        if ground_coverage < 1.0 {
            distant.iter().for_each(|sprite| sprite.draw(v, left, step, rows, 1.0 - ground_coverage));
        }
        for first in (0..width).step_by(SPAN) {
            let end = (first + SPAN).min(width);
            let patch =
                TexCoords { x: per_pixel(|at| left + (first + at) as f32 * step), y: [v; SPAN], footprint: [step; 2] };
            let mut light = RgbSpan::uniform([0.0; 3]);
            for (row, plane) in rows.iter().zip(&mut light.0) {
                plane[..end - first].copy_from_slice(&row[first..end]);
            }
            prop::draw(scene, &self.camera, &patch, &mut light);
            air::haze(scene, &patch, &mut light);
            for (row, plane) in rows.iter_mut().zip(&light.0) {
                row[first..end].copy_from_slice(&plane[..end - first]);
            }
        }
        near.iter().for_each(|sprite| sprite.draw(v, left, step, rows, 1.0));
        for first in (0..width).step_by(SPAN) {
            let end = (first + SPAN).min(width);
            self.grade(v, left + first as f32 * step, step, rows, first..end);
        }
    }

    /// The lit ground with its reflections.
    fn ground(&self, ground: &Surface, screen: &TexCoords, mirrored: Option<&[plate::Row; 2]>, far: Rgb) -> RgbSpan {
        let scene = self.scene;
        let v = screen.y[0];
        let away = (v - scene.edge).max(0.0);
        let own = TexCoords { footprint: [self.camera.pixel; 2], ..screen.clone() };
        let world = self.camera.ground(&own);
        let light_direction = [0.8 * scene.lighting.side + 0.15, if scene.lighting.backlit { -0.8 } else { -0.45 }];
        let mut color = material::color(ground, &world, light_direction, &own);
        let mut irradiance = illumination::on_ground(&scene.lighting, &own, &world, scene.seed);
        if let Background::Wall(wall) = &scene.background {
            // Ambient occlusion and colour bounce in the corner with the wall.
            let bounce = mix([1.0; 3], super::linear_rgb::as_tint(wall.color.unwrap_or([0.5; 3])), 0.2);
            irradiance.multiply(&RgbSpan::uniform(mix([1.0; 3], bounce, exp_falloff(away / 0.08))));
            irradiance.scale(|_| 1.0 - 0.42 * exp_falloff(away / 0.035));
        }
        color.multiply(&irradiance);
        let (gloss, rough) = ground.gloss();
        if let Some([near, further]) = mirrored {
            let waves = if ground.material == Material::Water {
                world.fbm([2.4, 7.0], scene.seed ^ 0x77, 4, 0.6)
            } else if ground.material == Material::Ice {
                world.fbm([3.0; 2], scene.seed ^ 0x77, 3, 0.6)
            } else {
                [0.0; SPAN]
            };
            let moved = per_pixel(|at| screen.x[at] + 0.05 * waves[at]);
            let mut reflection = near.sample(&moved);
            if rough < 0.5 {
                reflection.mix(&further.sample(&moved), |at| {
                    smoothstep(-0.3, 0.6, waves[at]) * if waves[at] == 0.0 { 0.0 } else { 1.0 }
                });
            }
            // Fresnel: reflection grows towards grazing angles.
            let share = gloss * (0.22 + 0.78 * exp_falloff(away / 0.17)) * (1.0 - 0.35 * rough);
            color.mix(&reflection, |_| share);
        }
        if matches!(scene.background, Background::View(_)) {
            // Aerial perspective on a ground that reaches the horizon; the ground of a room ends at a wall.
            let open = scene.edge - scene.horizon < 0.15;
            let haze = if open { 0.75 * exp_falloff(away / 0.05) } else { 0.12 * exp_falloff(away / 0.05) };
            color.mix_color(far, |_| haze);
        }
        color
    }

    /// Grades part of a row: exposure, tint, vignette, shoulder, saturation, contrast, fade.
    fn grade(&self, v: f32, left: f32, step: f32, rows: &mut [Vec<f32>; 3], part: std::ops::Range<usize>) {
        let grade = &self.scene.grade;
        let [reds, greens, blues] = rows;
        let tall = (v - 0.5) * 2.0;
        let across = 2.0 / self.aspect.max(0.2);
        let gain = grade.tint.map(|tint| tint * grade.exposure);
        let pixels = reds[part.clone()].iter_mut().zip(&mut greens[part.clone()]).zip(&mut blues[part]);
        for (at, ((red, green), blue)) in pixels.enumerate() {
            let wide = (left + at as f32 * step) * across;
            let corner = smoothstep(0.5, 2.1, wide * wide + tall * tall);
            let vignette = 1.0 - grade.vignette * corner;
            let light = [*red * gain[0], *green * gain[1], *blue * gain[2]].map(|light| shoulder(light * vignette));
            let grey = luminance(light);
            let [r, g, b] = light.map(|light| {
                let rich = (grey + (light - grey) * grade.saturation).max(0.0);
                let root = rich.sqrt();
                // Contrast pivots on middle grey.
                let bent = (root
                    + (grade.contrast - 1.0) * (root - 0.52) * (1.0 - (2.0 * root - 1.0).powi(2)).max(0.0))
                .max(0.0);
                let lifted = grade.fade * 0.16 + bent * (1.0 - grade.fade * 0.16);
                lifted * lifted
            });
            (*red, *green, *blue) = (r, g, b);
        }
    }
}

/// Tone curve shoulder: highlights roll off instead of clipping.
#[inline(always)]
fn shoulder(light: f32) -> f32 {
    let over = (light - 0.7).max(0.0) / 0.3;
    light.min(0.7) + 0.3 * over / (1.0 + over)
}

/// Shades a background other than a view: sweep, gradient or wall; `at` in (u, v).
fn shade_background(scene: &Scene, at: &TexCoords) -> RgbSpan {
    let lighting: &Lighting = &scene.lighting;
    let mut light = match &scene.background {
        Background::Sweep(color) => {
            material::color(&Surface::painted(*color, scene.seed), at, [lighting.side, -0.6], at)
        }
        Background::Gradient(colors) => gradient(colors, at, scene),
        Background::Wall(wall) => {
            let mut color = material::color(wall, at, [0.8 * lighting.side + 0.1, -0.7], at);
            if scene.ground.is_some() {
                color.scale(|i| 1.0 - 0.3 * exp_falloff((scene.edge - at.y[i]).max(0.0) / 0.06));
            }
            color
        }
        Background::View(_) => RgbSpan::uniform([0.0; 3]),
    };
    light.multiply(&illumination::on_wall(lighting, at, scene.seed));
    if lighting.pool > 0.75 {
        let beam = illumination::beam(lighting, at);
        light.add(lighting.key, |i| beam[i]);
    }
    light
}

/// Gradient through `colors` from top to bottom, tilted and bent by noise.
fn gradient(colors: &[Rgb], at: &TexCoords, scene: &Scene) -> RgbSpan {
    let sway = at.fbm([0.5; 2], scene.seed ^ 0x6D, 2, 0.4);
    let lean = 0.35 * (random(1, 2, scene.seed) - 0.5);
    let along = per_pixel(|i| {
        (at.y[i] / SUBJECT_V + lean * at.x[i] + 0.16 * sway[i]).clamp(0.0, 1.0) * (colors.len().max(2) - 1) as f32
    });
    let mut light = RgbSpan::uniform(colors.first().copied().unwrap_or([0.7; 3]));
    for (index, color) in colors.iter().enumerate().skip(1) {
        light.mix_color(*color, |i| smoothstep(index as f32 - 1.0, index as f32, along[i]));
    }
    light
}
