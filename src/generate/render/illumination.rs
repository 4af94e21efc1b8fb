//! Irradiance on walls and grounds: ambient and key light, light pools, neon and gobo shadows.

use super::span::{RgbSpan, ScalarSpan, TexCoords, distance_to_integer, fast_floor, per_pixel};
use crate::generate::falloff::{biweight, exp_falloff, smoothstep};
use crate::generate::linear_rgb::{Rgb, mix};
use crate::generate::scene::{Gobo, Lighting};
use backdrop_kernels::noise::cpu::random;

/// Irradiance on a wall; `at` in (u, v).
pub(super) fn on_wall(lighting: &Lighting, at: &TexCoords, seed: u32) -> RgbSpan {
    let (cu, cv) = (0.5 * lighting.side, 0.62 - 0.5 * lighting.height);
    let gobo = gobo(lighting, &at.x, &at.y, at.footprint[1], seed);
    let spot = smoothstep(0.75, 0.95, lighting.pool);
    let pool = per_pixel(|i| {
        let (x, y) = ((at.x[i] - cu) / 1.05, (at.y[i] - cv) / 0.85);
        let wide = 1.0 / (1.0 + 1.5 * (x * x + y * y));
        let (x, y) = (at.x[i] / 0.52, (at.y[i] - 0.5) / 0.52);
        let narrow = 1.0 - smoothstep(0.35, 1.25, (x * x + y * y).sqrt());
        wide + spot * (narrow - wide)
    });
    lit(lighting, at, &pool, &gobo)
}

/// Irradiance on a ground; `screen` in (u, v), `world` in picture heights, y towards the viewer.
pub(super) fn on_ground(lighting: &Lighting, screen: &TexCoords, world: &TexCoords, seed: u32) -> RgbSpan {
    let spot = smoothstep(0.75, 0.95, lighting.pool);
    let gobo = gobo(
        lighting,
        &per_pixel(|i| 0.9 * world.x[i]),
        &per_pixel(|i| 0.3 + 0.55 * world.y[i]),
        world.footprint[1] * 0.55,
        seed,
    );
    let pool = per_pixel(|i| {
        let (x, y) = ((screen.x[i] - 0.35 * lighting.side) / 1.1, (screen.y[i] - 0.88) / 0.62);
        let wide = 1.06 / (1.0 + 1.1 * (x * x + y * y));
        let (x, y) = (screen.x[i] / 0.58, (screen.y[i] - 0.87) / 0.15);
        let narrow = 1.15 * (1.0 - smoothstep(0.62, 1.3, (x * x + y * y).sqrt()));
        wide + spot * (narrow - wide)
    });
    lit(lighting, screen, &pool, &gobo)
}

fn lit(lighting: &Lighting, at: &TexCoords, pool: &ScalarSpan, gobo: &ScalarSpan) -> RgbSpan {
    let mut light = RgbSpan::uniform(lighting.ambient);
    light.add(lighting.key, |i| (1.0 + lighting.pool * (pool[i] - 1.0)) * gobo[i]);
    if let Some([left, right]) = lighting.neon {
        light.add(left, |i| 1.3 * exp_falloff(((at.x[i] + 0.75).powi(2) + (at.y[i] - 0.35).powi(2)) * 2.2));
        light.add(right, |i| 1.3 * exp_falloff(((at.x[i] - 0.75).powi(2) + (at.y[i] - 0.45).powi(2)) * 2.2));
    }
    light
}

/// Transmission of the key light through a gobo: window, blinds, leaves or water ripples.
fn gobo(lighting: &Lighting, u: &ScalarSpan, v: &ScalarSpan, footprint: f32, seed: u32) -> ScalarSpan {
    let Some(gobo) = lighting.gobo else { return [1.0; super::span::SPAN] };
    // Light from the left projects the window to the right, sheared to that side.
    let lean = if lighting.side > 0.0 { -1.0 } else { 1.0 };
    let soft = 0.012 + 0.03 * lighting.softness + footprint;
    let inside = |value: f32, half: f32, soft: f32| ((half - value.abs()) / soft + 0.5).clamp(0.0, 1.0);
    match gobo {
        Gobo::Window => per_pixel(|i| {
            // Two panes wide, three high; the penumbra is narrower at the bottom, nearer to the window.
            let x = u[i] - lean * (0.14 + 0.22 * (v[i] - 0.4));
            let y = v[i] - 0.42 + lean * 0.22 * (u[i] - 0.1 * lean);
            let soft = soft * (0.8 + 0.8 * (1.0 - v[i]).clamp(0.0, 1.0));
            let whole = inside(x, 0.34, soft) * inside(y, 0.36, soft);
            let bars = inside(x, 0.014, soft).max(inside(distance_to_integer((y + 0.36) / 0.24) * 0.24, 0.011, soft));
            0.2 + 0.95 * whole * (1.0 - 0.9 * bars)
        }),
        Gobo::Blinds => per_pixel(|i| {
            let x = u[i] - lean * 0.08;
            let y = v[i] + lean * 0.3 * u[i];
            let slat = smoothstep(0.12, 0.12 + (soft * 11.0).min(0.3), distance_to_integer(y * 11.0));
            let whole = inside(x, 0.55, 0.2) * inside(v[i] - 0.42, 0.5, 0.12);
            0.22 + 0.9 * slat * whole
        }),
        Gobo::Leaves => {
            let patch =
                TexCoords { x: per_pixel(|i| u[i] + 0.25 * lean * v[i]), y: *v, footprint: [footprint.max(0.004); 2] };
            let sway = patch.fbm([3.0; 2], seed ^ 0x51, 2, 0.5);
            let moved = patch.warped(&sway, &sway, 0.06);
            let large = moved.rotated(0.6, 0.8).fbm([2.6, 6.5], seed ^ 0x52, 3, 0.5);
            let small = moved.rotated(-0.5, 0.866).fbm([3.4, 9.0], seed ^ 0x53, 2, 0.5);
            per_pixel(|i| {
                let shade = smoothstep(0.02, 0.34, large[i].max(small[i] - 0.05));
                0.3 + 0.8 * (1.0 - 0.85 * shade)
            })
        }
        Gobo::Ripples => {
            let patch = TexCoords { x: *u, y: *v, footprint: [footprint.max(0.002); 2] };
            let moved = patch.swirled([2.2; 2], [seed ^ 0x61, seed ^ 0x62], 2, 0.5, 0.16);
            let (net, fine) = (moved.fbm([3.4; 2], seed ^ 0x63, 2, 0.5), moved.fbm([5.2; 2], seed ^ 0x64, 2, 0.5));
            per_pixel(|i| 0.66 + 0.4 * exp_falloff(net[i].abs() / 0.055) + 0.26 * exp_falloff(fine[i].abs() / 0.06))
        }
    }
}

/// Volumetric beam of a spotlight from above.
pub(super) fn beam(lighting: &Lighting, at: &TexCoords) -> ScalarSpan {
    let spot = smoothstep(0.75, 0.95, lighting.pool);
    per_pixel(|i| {
        let wide = 0.05 + 0.5 * at.y[i];
        let x = (at.x[i] - 0.3 * lighting.side * (1.0 - at.y[i])) / wide;
        spot * 0.1 * biweight(x) * exp_falloff(at.y[i] * 1.2)
    })
}

/// Random number 0..1 of scattered element `index`, stream `which`.
pub(super) fn scatter_random(index: usize, which: u32, seed: u32) -> f32 {
    random(index as i32, which as i32, seed)
}

/// Picks from `colors` by a number in 0..1, mixing up to a quarter of the next.
pub(super) fn pick_color(colors: &[Rgb], number: f32) -> Rgb {
    let at = number * colors.len() as f32;
    let first = (fast_floor(at).max(0.0) as usize).min(colors.len() - 1);
    mix(colors[first], colors[(first + 1) % colors.len()], 0.25 * (at - first as f32))
}
