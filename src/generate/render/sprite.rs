//! Draws sprites into linear rows: bokeh discs, flakes, confetti, bubbles, glows.

use crate::generate::linear_rgb::Rgb;

/// An ellipse or rectangle with a soft edge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sprite {
    /// Centre, in (u, v).
    pub(super) at: [f32; 2],
    /// Half of width and height.
    pub(super) half_size: [f32; 2],
    /// Sine and cosine of the rotation.
    pub(super) rotation: [f32; 2],
    pub(super) color: Rgb,
    pub(super) share: f32,
    /// Width of the antialiased edge.
    pub(super) soft: f32,
    pub(super) shape: SpriteShape,
    /// Whether it is behind the edge of the ground instead of in front of the scene.
    pub(super) behind_ground: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpriteShape {
    /// A light out of focus: additive, with a slightly brighter rim.
    Bokeh,
    /// An opaque ellipse.
    Round,
    Square,
    Ring,
    /// Additive light that falls off to the edge.
    Glow,
}

impl Sprite {
    fn reach(&self) -> f32 {
        self.half_size[0].hypot(self.half_size[1]) + self.soft
    }

    /// Draws the sprite's part of the row at `v`. `left` is the u of the first pixel, `step` the distance between
    /// pixels, `visible` the unoccluded share.
    pub(super) fn draw(&self, v: f32, left: f32, step: f32, rows: &mut [Vec<f32>; 3], visible: f32) {
        let reach = self.reach();
        let dy = v - self.at[1];
        if dy.abs() > reach {
            return;
        }
        let width = rows[0].len();
        let column = |u: f32| (((u - left) / step).max(0.0) as usize).min(width);
        let [sine, cosine] = self.rotation;
        let soft = self.soft.max(step);
        let share = self.share * visible;
        for at in column(self.at[0] - reach)..(column(self.at[0] + reach) + 1).min(width) {
            let dx = left + at as f32 * step - self.at[0];
            let (x, y) = ((cosine * dx + sine * dy) / self.half_size[0], (cosine * dy - sine * dx) / self.half_size[1]);
            let least = self.half_size[0].min(self.half_size[1]);
            let distance = match self.shape {
                SpriteShape::Square => x.abs().max(y.abs()),
                SpriteShape::Bokeh | SpriteShape::Round | SpriteShape::Ring | SpriteShape::Glow => {
                    (x * x + y * y).sqrt()
                }
            };
            let coverage = ((1.0 - distance) * least / soft + 0.5).clamp(0.0, 1.0);
            if coverage <= 0.0 {
                continue;
            }
            match self.shape {
                SpriteShape::Bokeh => {
                    let rim = 0.78 + 0.22 * distance.min(1.0).powi(4);
                    add(rows, at, self.color, coverage * rim * share);
                }
                SpriteShape::Glow => {
                    let falling = (1.0 - distance * distance).max(0.0);
                    add(rows, at, self.color, falling * falling * share);
                }
                SpriteShape::Ring => {
                    let rim = distance.min(1.0).powi(6) * coverage;
                    mix(rows, at, self.color, rim * share);
                    let shine = ((0.2 - (x + 0.45).hypot(y + 0.45)) / 0.1).clamp(0.0, 1.0);
                    add(rows, at, [1.0; 3], shine * 0.5 * share);
                }
                SpriteShape::Round | SpriteShape::Square => mix(rows, at, self.color, coverage * share),
            }
        }
    }
}

fn add(rows: &mut [Vec<f32>; 3], at: usize, color: Rgb, share: f32) {
    for (row, color) in rows.iter_mut().zip(color) {
        row[at] += share * color;
    }
}

fn mix(rows: &mut [Vec<f32>; 3], at: usize, color: Rgb, share: f32) {
    for (row, color) in rows.iter_mut().zip(color) {
        row[at] += share * (color - row[at]);
    }
}
