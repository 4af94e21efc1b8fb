//! Part of a row, worked on together.

use crate::generate::palette::Rgb;
use backdrop_kernels::noise::{Fbm, cpu};

/// Pixels that are worked on together.
pub(super) const SPAN: usize = 256;

/// A value for each of them.
pub(super) type Plane = [f32; SPAN];

/// Linear light, a plane for each channel.
#[derive(Clone)]
pub(super) struct Light(pub(super) [Plane; 3]);

impl Light {
    pub(super) fn of(color: Rgb) -> Self {
        Self(color.map(|value| [value; SPAN]))
    }

    /// `first` to `second` by `share`.
    pub(super) fn between(first: Rgb, second: Rgb, share: &Plane) -> Self {
        let mut light = Self::of(first);
        light.mix_color(second, share);
        light
    }

    pub(super) fn mix_color(&mut self, color: Rgb, share: &Plane) {
        for (plane, color) in self.0.iter_mut().zip(color) {
            for at in 0..SPAN {
                plane[at] += share[at] * (color - plane[at]);
            }
        }
    }

    pub(super) fn mix(&mut self, other: &Self, share: &Plane) {
        for (plane, other) in self.0.iter_mut().zip(&other.0) {
            for at in 0..SPAN {
                plane[at] += share[at] * (other[at] - plane[at]);
            }
        }
    }

    pub(super) fn mix_all(&mut self, other: &Self, share: f32) {
        self.mix(other, &[share; SPAN]);
    }

    pub(super) fn scale(&mut self, factor: &Plane) {
        for plane in &mut self.0 {
            for at in 0..SPAN {
                plane[at] *= factor[at];
            }
        }
    }

    pub(super) fn times(&mut self, other: &Self) {
        for (plane, other) in self.0.iter_mut().zip(&other.0) {
            for at in 0..SPAN {
                plane[at] *= other[at];
            }
        }
    }

    pub(super) fn add(&mut self, color: Rgb, amount: &Plane) {
        for (plane, color) in self.0.iter_mut().zip(color) {
            for at in 0..SPAN {
                plane[at] += color * amount[at];
            }
        }
    }
}

/// What `value` says of each pixel.
#[inline(always)]
pub(super) fn plane(value: impl Fn(usize) -> f32) -> Plane {
    let mut plane = [0.0; SPAN];
    for (at, slot) in plane.iter_mut().enumerate() {
        *slot = value(at);
    }
    plane
}

/// Cells around each pixel.
pub(super) struct Cells {
    pub(super) nearest: Plane,
    pub(super) second: Plane,
    pub(super) own: Plane,
}

/// Where on a surface a span lies, in heights of the picture, and what a pixel stands for there.
#[derive(Clone)]
pub(super) struct Patch {
    pub(super) x: Plane,
    pub(super) y: Plane,
    /// Along x and along y.
    pub(super) foot: [f32; 2],
}

impl Patch {
    /// What a sample stands for in coordinates scaled by `scale`. A little less than the longer side: the shorter one
    /// still shows detail there, and waves along the longer one fade early enough.
    fn footprint(&self, [across, down]: [f32; 2]) -> f32 {
        let (x, y) = (self.foot[0] * across, self.foot[1] * down);
        x.max(y) * 0.7 + x.min(y) * 0.3
    }

    fn scaled(&self, [across, down]: [f32; 2]) -> (Plane, Plane) {
        (plane(|at| self.x[at] * across), plane(|at| self.y[at] * down))
    }

    /// Fractal noise of `scale` waves across and down.
    pub(super) fn fbm(&self, scale: [f32; 2], seed: u32, octaves: u32, gain: f32) -> Plane {
        let (x, y) = self.scaled(scale);
        let mut out = [0.0; SPAN];
        cpu::fbm(&x, &y, &Fbm { seed, octaves, gain, footprint: self.footprint(scale) }, &mut out);
        out
    }

    /// The same, creased.
    pub(super) fn turbulence(&self, scale: [f32; 2], seed: u32, octaves: u32, gain: f32) -> Plane {
        let (x, y) = self.scaled(scale);
        let mut out = [0.0; SPAN];
        cpu::turbulence(&x, &y, &Fbm { seed, octaves, gain, footprint: self.footprint(scale) }, &mut out);
        out
    }

    /// How much brighter a bumpy surface is where it faces the light, from `light`'s direction (x to the right, y away):
    /// about -1..1.
    pub(super) fn relief(&self, scale: [f32; 2], seed: u32, octaves: u32, gain: f32, light: [f32; 2]) -> Plane {
        let step = [0.18 / scale[0], 0.18 / scale[1]];
        let here = self.fbm(scale, seed, octaves, gain);
        let there = self.moved([light[0] * step[0], light[1] * step[1]]).fbm(scale, seed, octaves, gain);
        plane(|at| 1.8 * (here[at] - there[at]))
    }

    /// Fine, even speckle, gone where it would be finer than a pixel.
    pub(super) fn grain(&self, scale: f32, seed: u32) -> Plane {
        self.fbm([scale; 2], seed, 2, 0.8)
    }

    pub(super) fn cells(&self, scale: [f32; 2], seed: u32, jitter: f32) -> Cells {
        let (x, y) = self.scaled(scale);
        let mut cells = Cells { nearest: [0.0; SPAN], second: [0.0; SPAN], own: [0.0; SPAN] };
        let Cells { nearest, second, own } = &mut cells;
        cpu::cells(&x, &y, seed, jitter, &mut cpu::Cells { nearest, second, own });
        cells
    }

    /// How visible detail of a size of `1 / scale` still is: 1 near, 0 where it is finer than a pixel.
    pub(super) fn shows(&self, scale: f32) -> f32 {
        ((0.7 - self.footprint([scale; 2])) / 0.5).clamp(0.0, 1.0)
    }

    pub(super) fn moved(&self, [dx, dy]: [f32; 2]) -> Self {
        Self { x: plane(|at| self.x[at] + dx), y: plane(|at| self.y[at] + dy), foot: self.foot }
    }

    pub(super) fn warped(&self, dx: &Plane, dy: &Plane, amount: f32) -> Self {
        Self {
            x: plane(|at| self.x[at] + amount * dx[at]),
            y: plane(|at| self.y[at] + amount * dy[at]),
            foot: self.foot,
        }
    }

    /// Turned by an angle with this sine and cosine.
    pub(super) fn turned(&self, sine: f32, cosine: f32) -> Self {
        let [x, y] = self.foot;
        Self {
            x: plane(|at| cosine * self.x[at] - sine * self.y[at]),
            y: plane(|at| sine * self.x[at] + cosine * self.y[at]),
            foot: [(cosine * x).hypot(sine * y), (sine * x).hypot(cosine * y)],
        }
    }
}

/// The largest whole number not above, without a call.
#[inline(always)]
pub(super) fn whole(value: f32) -> f32 {
    let cut = value as i32 as f32;
    if cut > value { cut - 1.0 } else { cut }
}

/// How far the triangle wave of period 1 is from its nearest whole number, 0..0.5.
#[inline(always)]
pub(super) fn from_whole(value: f32) -> f32 {
    let fraction = value - whole(value);
    fraction.min(1.0 - fraction)
}

/// Sine of a turn, without a call: within 0.001.
#[inline(always)]
pub(super) fn wave(turns: f32) -> f32 {
    let t = turns - whole(turns + 0.5);
    let parabola = 8.0 * t - 16.0 * t * t.abs();
    parabola * (0.775 + 0.225 * parabola.abs())
}

/// How much of a pixel of width `foot` a line of half-width `half` covers at `distance` from its middle.
#[inline(always)]
pub(super) fn line(distance: f32, half: f32, foot: f32) -> f32 {
    let foot = foot.max(1e-5);
    ((half - distance) / foot + 0.5).clamp(0.0, 1.0) * (2.0 * half / foot).min(1.0)
}
