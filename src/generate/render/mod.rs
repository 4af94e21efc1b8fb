//! From a scene to a picture.
//!
//! Everything is computed in linear light, row by row, spans of a row at a time; rows do not depend on each other, so the
//! picture is the same however many threads draw it. Coordinates are shares of the picture's height, so that it is the same
//! scene at every size; small pictures are drawn larger and averaged.

mod air;
mod camera;
mod light;
mod material;
mod plate;
mod prop;
pub(super) use prop::{PODIUM_TOP, SHELF_BACK};
mod span;
mod sprite;
mod view;

use super::palette::{Rgb, fading, luminance, mix, smooth};
use super::scene::{Behind, Lamp, Scene};
use super::surface::{Material, Surface};
use crate::image::{Frame, Size};
use backdrop_kernels::noise::cpu::random;
use camera::{Camera, FEET};
use plate::Plate;
use rayon::prelude::*;
use span::{Light, Patch, SPAN, plane};
use sprite::Sprite;

/// Pictures of fewer pixels are drawn with more samples a pixel.
const FEW_PIXELS: usize = 500_000;
/// Samples along a pixel's side, at most.
const MOST_SAMPLES: usize = 4;

/// A scene, made ready to be drawn at one aspect.
struct Stage<'a> {
    scene: &'a Scene,
    camera: Camera,
    aspect: f32,
    /// What is behind, and the same as a glossy ground mirrors it.
    plate: Plate,
    mirrored: Option<Plate>,
    sprites: Vec<Sprite>,
}

/// Draws `scene`; the picture is opaque.
pub(super) fn draw(scene: &Scene, size: Size) -> Frame {
    let (width, height) = (size.width as usize, size.height as usize);
    let mut pixels = vec![0; size.area() * 4];
    if pixels.is_empty() {
        return Frame::new(size, pixels.into());
    }
    let samples =
        (1..MOST_SAMPLES).find(|samples| size.area() * samples * samples >= FEW_PIXELS).unwrap_or(MOST_SAMPLES);
    let step = 1.0 / (height * samples) as f32;
    let stage = Stage::new(scene, width as f32 / height as f32, step);
    let columns = width * samples;
    let scratch = || [0, 1, 2].map(|_| vec![0.0_f32; columns]);
    pixels.par_chunks_mut(width * 4).enumerate().for_each_init(scratch, |rows, (y, pixels)| {
        let mut sums = vec![[0.0_f32; 3]; width];
        for sample in 0..samples {
            let v = ((y * samples + sample) as f32 + 0.5) * step;
            stage.row(v, step, rows);
            for (column, sum) in sums.iter_mut().enumerate() {
                for (sum, row) in sum.iter_mut().zip(rows.iter()) {
                    *sum += row[column * samples..][..samples].iter().sum::<f32>();
                }
            }
        }
        let share = 1.0 / (samples * samples) as f32;
        for (x, (pixel, sum)) in pixels.as_chunks_mut::<4>().0.iter_mut().zip(sums).enumerate() {
            *pixel = encoded(sum.map(|sum| sum * share), x, y);
        }
    });
    Frame::new(size, pixels.into())
}

/// sRGB with half a step of noise either way, so that gradients have no steps.
///
/// `1.055 x^(1/2.4) - 0.055` is close to a sum of roots; within a step of 255.
fn encoded(light: Rgb, x: usize, y: usize) -> [u8; 4] {
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

impl<'a> Stage<'a> {
    fn new(scene: &'a Scene, aspect: f32, pixel: f32) -> Self {
        let camera = Camera { vanish: scene.vanish, blur: scene.blur, pixel };
        let (plate, mut sprites) = match &scene.behind {
            Behind::View(view) => view::paint(&view::Canvas {
                view,
                aspect,
                edge: scene.edge,
                vanish: scene.vanish.max(scene.edge - 0.14),
                seed: scene.seed,
                side: scene.lamp.side,
                blur: 0.0025 + 0.016 * scene.blur,
            }),
            Behind::Sweep(_) | Behind::Gradient(_) | Behind::Wall(_) => {
                (Plate::painted(aspect, |at| behind(scene, at)), Vec::new())
            }
        };
        let gloss = scene.ground.map_or((0.0, 1.0), |ground| ground.gloss());
        let mirrored = (gloss.0 > 0.0).then(|| {
            let mut mirrored = match &scene.behind {
                Behind::View(view) => {
                    view::paint(&view::Canvas {
                        view,
                        aspect,
                        edge: scene.edge,
                        vanish: scene.vanish.max(scene.edge - 0.14),
                        seed: scene.seed,
                        side: scene.lamp.side,
                        blur: 0.004,
                    })
                    .0
                }
                Behind::Sweep(_) | Behind::Gradient(_) | Behind::Wall(_) => {
                    Plate::painted(aspect, |at| behind(scene, at))
                }
            };
            for sprite in &sprites {
                mirrored.glow(
                    sprite.at,
                    sprite.half[0].max(0.004),
                    sprite.color.map(|value| value * sprite.share * 0.6),
                );
            }
            mirrored.blur(0.006 + 0.07 * gloss.1);
            mirrored
        });
        sprites.extend(air::sprites(scene, aspect));
        Self { scene, camera, aspect, plate, mirrored, sprites }
    }

    /// A row of the picture, in linear light.
    fn row(&self, v: f32, step: f32, rows: &mut [Vec<f32>; 3]) {
        let scene = self.scene;
        let width = rows[0].len();
        let left = 0.5 * step - 0.5 * self.aspect;
        let soft = match scene.behind {
            Behind::Sweep(_) | Behind::Gradient(_) => 0.2,
            Behind::Wall(_) | Behind::View(_) => step.max(1.3 * self.camera.confusion(scene.edge)),
        };
        let front = if scene.ground.is_some() { smooth(-0.5, 0.5, (v - scene.edge) / soft) } else { 0.0 };
        let plate = self.plate.row(v);
        let mirrored = self.mirrored.as_ref().map(|plate| {
            let away = v - scene.edge;
            [plate.row(scene.edge - away), plate.row(scene.edge - 1.7 * away - 0.03)]
        });
        let far = self.plate.row(scene.edge - 0.01).mean();
        for first in (0..width).step_by(SPAN) {
            let seen = step + if front < 1.0 { 1.5 * self.camera.confusion(scene.edge - 0.05) } else { 0.0 };
            let screen = Patch { x: plane(|at| left + (first + at) as f32 * step), y: [v; SPAN], foot: [seen, seen] };
            let mut light = match &scene.behind {
                _ if front >= 1.0 => Light::of([0.0; 3]),
                Behind::View(_) => plate.sample(&screen.x),
                Behind::Sweep(_) | Behind::Gradient(_) | Behind::Wall(_) => behind(scene, &screen),
            };
            if let Some(ground) = &scene.ground
                && front > 0.0
            {
                let lit = self.ground(ground, &screen, mirrored.as_ref(), far);
                light.mix_all(&lit, front);
            }
            let end = (first + SPAN).min(width);
            for (row, plane) in rows.iter_mut().zip(&light.0) {
                row[first..end].copy_from_slice(&plane[..end - first]);
            }
        }
        // Lights that are far away are behind the ground.
        let (there, air): (Vec<&Sprite>, Vec<&Sprite>) = self.sprites.iter().partition(|sprite| sprite.behind);
        if front < 1.0 {
            there.iter().for_each(|sprite| sprite.draw(v, left, step, rows, 1.0 - front));
        }
        for first in (0..width).step_by(SPAN) {
            let end = (first + SPAN).min(width);
            let patch = Patch { x: plane(|at| left + (first + at) as f32 * step), y: [v; SPAN], foot: [step; 2] };
            let mut light = Light::of([0.0; 3]);
            for (row, plane) in rows.iter().zip(&mut light.0) {
                plane[..end - first].copy_from_slice(&row[first..end]);
            }
            prop::draw(scene, &self.camera, &patch, &mut light);
            air::haze(scene, &patch, &mut light);
            for (row, plane) in rows.iter_mut().zip(&light.0) {
                row[first..end].copy_from_slice(&plane[..end - first]);
            }
        }
        air.iter().for_each(|sprite| sprite.draw(v, left, step, rows, 1.0));
        for first in (0..width).step_by(SPAN) {
            let end = (first + SPAN).min(width);
            self.grade(v, left + first as f32 * step, step, rows, first..end);
        }
    }

    /// The ground, lit, with what it mirrors.
    fn ground(&self, ground: &Surface, screen: &Patch, mirrored: Option<&[plate::Row; 2]>, far: Rgb) -> Light {
        let scene = self.scene;
        let v = screen.y[0];
        let away = (v - scene.edge).max(0.0);
        let own = Patch { foot: [self.camera.pixel; 2], ..screen.clone() };
        let world = self.camera.ground(&own);
        let towards = [0.8 * scene.lamp.side + 0.15, if scene.lamp.behind { -0.8 } else { -0.45 }];
        let mut color = material::color(ground, &world, towards, &own);
        let mut falling = light::on_ground(&scene.lamp, &own, &world, scene.seed);
        if let Behind::Wall(wall) = &scene.behind {
            // The corner with the wall sees less of everything, and something of the wall's colour.
            let bounce = mix([1.0; 3], super::palette::as_tint(wall.color.unwrap_or([0.5; 3])), 0.2);
            falling.times(&Light::of(mix([1.0; 3], bounce, fading(away / 0.08))));
            falling.scale(&[1.0 - 0.42 * fading(away / 0.035); SPAN]);
        }
        color.times(&falling);
        let (gloss, rough) = ground.gloss();
        if let Some([near, further]) = mirrored {
            let waves = if ground.material == Material::Water {
                world.fbm([2.4, 7.0], scene.seed ^ 0x77, 4, 0.6)
            } else if ground.material == Material::Ice {
                world.fbm([3.0; 2], scene.seed ^ 0x77, 3, 0.6)
            } else {
                [0.0; SPAN]
            };
            let moved = plane(|at| screen.x[at] + 0.05 * waves[at]);
            let mut seen = near.sample(&moved);
            if rough < 0.5 {
                seen.mix(
                    &further.sample(&moved),
                    &plane(|at| smooth(-0.3, 0.6, waves[at]) * if waves[at] == 0.0 { 0.0 } else { 1.0 }),
                );
            }
            // Fresnel: the flatter one looks, the more.
            let share = gloss * (0.22 + 0.78 * fading(away / 0.17)) * (1.0 - 0.35 * rough);
            color.mix_all(&seen, share);
        }
        if matches!(scene.behind, Behind::View(_)) {
            // A ground that goes on to the horizon; that of a room ends at a wall.
            let open = scene.edge - scene.vanish < 0.15;
            let haze = if open { 0.75 * fading(away / 0.05) } else { 0.12 * fading(away / 0.05) };
            color.mix_color(far, &[haze; SPAN]);
        }
        color
    }

    /// The last touch on part of a row.
    fn grade(&self, v: f32, left: f32, step: f32, rows: &mut [Vec<f32>; 3], part: std::ops::Range<usize>) {
        let grade = &self.scene.grade;
        let [reds, greens, blues] = rows;
        let tall = (v - 0.5) * 2.0;
        let across = 2.0 / self.aspect.max(0.2);
        let gain = grade.tint.map(|tint| tint * grade.exposure);
        let pixels = reds[part.clone()].iter_mut().zip(&mut greens[part.clone()]).zip(&mut blues[part]);
        for (at, ((red, green), blue)) in pixels.enumerate() {
            let wide = (left + at as f32 * step) * across;
            let corner = smooth(0.5, 2.1, wide * wide + tall * tall);
            let vignette = 1.0 - grade.vignette * corner;
            let light = [*red * gain[0], *green * gain[1], *blue * gain[2]].map(|light| shoulder(light * vignette));
            let grey = luminance(light);
            let [r, g, b] = light.map(|light| {
                let rich = (grey + (light - grey) * grade.saturation).max(0.0);
                let root = rich.sqrt();
                // Around middle grey, where the eye judges.
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

/// Highlights roll off instead of clipping.
#[inline(always)]
fn shoulder(light: f32) -> f32 {
    let over = (light - 0.7).max(0.0) / 0.3;
    light.min(0.7) + 0.3 * over / (1.0 + over)
}

/// What is behind the ground where that is not a view: `at` in (u, v).
fn behind(scene: &Scene, at: &Patch) -> Light {
    let lamp: &Lamp = &scene.lamp;
    let mut light = match &scene.behind {
        Behind::Sweep(color) => material::color(&Surface::painted(*color, scene.seed), at, [lamp.side, -0.6], at),
        Behind::Gradient(colors) => gradient(colors, at, scene),
        Behind::Wall(wall) => {
            let mut color = material::color(wall, at, [0.8 * lamp.side + 0.1, -0.7], at);
            if scene.ground.is_some() {
                color.scale(&plane(|i| 1.0 - 0.3 * fading((scene.edge - at.y[i]).max(0.0) / 0.06)));
            }
            color
        }
        Behind::View(_) => Light::of([0.0; 3]),
    };
    light.times(&light::on_wall(lamp, at, scene.seed));
    if lamp.pool > 0.75 {
        let beam = light::beam(lamp, at);
        light.add(lamp.key, &beam);
    }
    light
}

/// Colours that run into each other, along a line that leans a little and bends.
fn gradient(colors: &[Rgb], at: &Patch, scene: &Scene) -> Light {
    let sway = at.fbm([0.5; 2], scene.seed ^ 0x6D, 2, 0.4);
    let lean = 0.35 * (random(1, 2, scene.seed) - 0.5);
    let along = plane(|i| {
        (at.y[i] / FEET + lean * at.x[i] + 0.16 * sway[i]).clamp(0.0, 1.0) * (colors.len().max(2) - 1) as f32
    });
    let mut light = Light::of(colors.first().copied().unwrap_or([0.7; 3]));
    for (index, color) in colors.iter().enumerate().skip(1) {
        light.mix_color(*color, &plane(|i| smooth(index as f32 - 1.0, index as f32, along[i])));
    }
    light
}
