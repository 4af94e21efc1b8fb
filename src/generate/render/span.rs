//! Spans of a row: planes of scalars and linear RGB, texture coordinates, and the noise evaluated at them.

use crate::generate::linear_rgb::Rgb;
use backdrop_kernels::noise::{Fbm, cpu};

/// Pixels in a span.
pub(super) const SPAN: usize = 256;

pub(super) type ScalarSpan = [f32; SPAN];

/// Linear RGB, one plane per channel.
#[derive(Clone)]
pub(super) struct RgbSpan(pub(super) [ScalarSpan; 3]);

impl RgbSpan {
    pub(super) fn uniform(color: Rgb) -> Self {
        Self(color.map(|value| [value; SPAN]))
    }

    /// `color` with this brightness.
    pub(super) fn shaded(color: Rgb, brightness: impl Fn(usize) -> f32) -> Self {
        let mut light = Self::uniform(color);
        light.scale(brightness);
        light
    }

    /// `first` to `second` by `share`.
    pub(super) fn blend(first: Rgb, second: Rgb, share: impl Fn(usize) -> f32) -> Self {
        let mut light = Self::uniform(first);
        light.mix_color(second, share);
        light
    }

    pub(super) fn mix_color(&mut self, color: Rgb, share: impl Fn(usize) -> f32) {
        self.mix(&Self::uniform(color), share);
    }

    pub(super) fn mix(&mut self, other: &Self, share: impl Fn(usize) -> f32) {
        let share = per_pixel(share);
        for (plane, other) in self.0.iter_mut().zip(&other.0) {
            for at in 0..SPAN {
                plane[at] += share[at] * (other[at] - plane[at]);
            }
        }
    }

    pub(super) fn scale(&mut self, factor: impl Fn(usize) -> f32) {
        let factor = per_pixel(factor);
        for plane in &mut self.0 {
            for at in 0..SPAN {
                plane[at] *= factor[at];
            }
        }
    }

    pub(super) fn multiply(&mut self, other: &Self) {
        for (plane, other) in self.0.iter_mut().zip(&other.0) {
            for at in 0..SPAN {
                plane[at] *= other[at];
            }
        }
    }

    pub(super) fn add(&mut self, color: Rgb, amount: impl Fn(usize) -> f32) {
        let amount = per_pixel(amount);
        for (plane, color) in self.0.iter_mut().zip(color) {
            for at in 0..SPAN {
                plane[at] += color * amount[at];
            }
        }
    }
}

#[inline(always)]
pub(super) fn per_pixel(value: impl Fn(usize) -> f32) -> ScalarSpan {
    let mut plane = [0.0; SPAN];
    for (at, slot) in plane.iter_mut().enumerate() {
        *slot = value(at);
    }
    plane
}

/// Cellular (Worley) noise: distances to the nearest and second nearest feature point, and a random number of the cell.
pub(super) struct Cells {
    pub(super) nearest: ScalarSpan,
    pub(super) second: ScalarSpan,
    pub(super) own: ScalarSpan,
}

/// Texture coordinates of a span, in picture heights, and the footprint of a pixel there.
#[derive(Clone)]
pub(super) struct TexCoords {
    pub(super) x: ScalarSpan,
    pub(super) y: ScalarSpan,
    /// Along x and along y.
    pub(super) footprint: [f32; 2],
}

impl TexCoords {
    /// Filter width in coordinates scaled by `scale`. Slightly less than the longer side of the footprint: detail along
    /// the shorter side stays visible, and waves along the longer side still fade early enough.
    fn footprint(&self, [across, down]: [f32; 2]) -> f32 {
        let (x, y) = (self.footprint[0] * across, self.footprint[1] * down);
        x.max(y) * 0.7 + x.min(y) * 0.3
    }

    fn scaled(&self, [across, down]: [f32; 2]) -> (ScalarSpan, ScalarSpan) {
        (per_pixel(|at| self.x[at] * across), per_pixel(|at| self.y[at] * down))
    }

    /// Fractal Brownian motion with `scale` waves per picture height along x and y.
    pub(super) fn fbm(&self, scale: [f32; 2], seed: u32, octaves: u32, gain: f32) -> ScalarSpan {
        let (x, y) = self.scaled(scale);
        let mut out = [0.0; SPAN];
        cpu::fbm(&x, &y, &Fbm { seed, octaves, gain, footprint: self.footprint(scale) }, &mut out);
        out
    }

    /// Turbulence: as [`Self::fbm`], with the absolute value of each octave.
    pub(super) fn turbulence(&self, scale: [f32; 2], seed: u32, octaves: u32, gain: f32) -> ScalarSpan {
        let (x, y) = self.scaled(scale);
        let mut out = [0.0; SPAN];
        cpu::turbulence(&x, &y, &Fbm { seed, octaves, gain, footprint: self.footprint(scale) }, &mut out);
        out
    }

    /// Relief shading of a noise height field lit from direction `light` (x to the right, y away): about -1..1.
    pub(super) fn relief(&self, scale: [f32; 2], seed: u32, octaves: u32, gain: f32, light: [f32; 2]) -> ScalarSpan {
        let step = [0.18 / scale[0], 0.18 / scale[1]];
        let here = self.fbm(scale, seed, octaves, gain);
        let there = self.translated([light[0] * step[0], light[1] * step[1]]).fbm(scale, seed, octaves, gain);
        per_pixel(|at| 1.8 * (here[at] - there[at]))
    }

    /// Fine speckle, faded out if it is finer than a pixel.
    pub(super) fn grain(&self, scale: f32, seed: u32) -> ScalarSpan {
        self.fbm([scale; 2], seed, 2, 0.8)
    }

    pub(super) fn cells(&self, scale: [f32; 2], seed: u32, jitter: f32) -> Cells {
        let (x, y) = self.scaled(scale);
        let mut cells = Cells { nearest: [0.0; SPAN], second: [0.0; SPAN], own: [0.0; SPAN] };
        let Cells { nearest, second, own } = &mut cells;
        cpu::cells(&x, &y, seed, jitter, &mut cpu::Cells { nearest, second, own });
        cells
    }

    /// Visibility of detail of size `1 / scale`: 1 near, 0 if it is finer than a pixel.
    pub(super) fn visibility(&self, scale: f32) -> f32 {
        ((0.7 - self.footprint([scale; 2])) / 0.5).clamp(0.0, 1.0)
    }

    pub(super) fn translated(&self, [dx, dy]: [f32; 2]) -> Self {
        Self { x: per_pixel(|at| self.x[at] + dx), y: per_pixel(|at| self.y[at] + dy), footprint: self.footprint }
    }

    pub(super) fn warped(&self, dx: &ScalarSpan, dy: &ScalarSpan, amount: f32) -> Self {
        Self {
            x: per_pixel(|at| self.x[at] + amount * dx[at]),
            y: per_pixel(|at| self.y[at] + amount * dy[at]),
            footprint: self.footprint,
        }
    }

    /// The coordinates warped by two noises of the same kind, one along each axis.
    pub(super) fn swirled(&self, scale: [f32; 2], seeds: [u32; 2], octaves: u32, gain: f32, amount: f32) -> Self {
        let [dx, dy] = seeds.map(|seed| self.fbm(scale, seed, octaves, gain));
        self.warped(&dx, &dy, amount)
    }

    /// The coordinates rotated by the angle with this sine and cosine.
    pub(super) fn rotated(&self, sine: f32, cosine: f32) -> Self {
        let [x, y] = self.footprint;
        Self {
            x: per_pixel(|at| cosine * self.x[at] - sine * self.y[at]),
            y: per_pixel(|at| sine * self.x[at] + cosine * self.y[at]),
            footprint: [(cosine * x).hypot(sine * y), (sine * x).hypot(cosine * y)],
        }
    }
}

/// `floor` without a library call.
#[inline(always)]
pub(super) fn fast_floor(value: f32) -> f32 {
    let cut = value as i32 as f32;
    if cut > value { cut - 1.0 } else { cut }
}

/// Distance to the nearest integer, 0..0.5.
#[inline(always)]
pub(super) fn distance_to_integer(value: f32) -> f32 {
    let fraction = value - fast_floor(value);
    fraction.min(1.0 - fraction)
}

/// Sine of an angle in turns without a library call; error below 0.001.
#[inline(always)]
pub(super) fn sin_turns(turns: f32) -> f32 {
    let t = turns - fast_floor(turns + 0.5);
    let parabola = 8.0 * t - 16.0 * t * t.abs();
    parabola * (0.775 + 0.225 * parabola.abs())
}

/// Coverage of a pixel of width `footprint` by a line of half-width `half` whose centre is `distance` away.
#[inline(always)]
pub(super) fn line_coverage(distance: f32, half: f32, footprint: f32) -> f32 {
    let footprint = footprint.max(1e-5);
    ((half - distance) / footprint + 0.5).clamp(0.0, 1.0) * (2.0 * half / footprint).min(1.0)
}
