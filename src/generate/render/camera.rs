//! Perspective of the ground plane: camera height and horizon to ground coordinates and circle of confusion.
//!
//! With `f` the focal length and `h` the camera's height, a row at `v` maps to the ground at distance
//! `z = f h / (v - horizon)`, and a column at `u` is `u z / f` off the middle. `h` is such that a length on the ground where
//! the subject stands ([`SUBJECT_V`]) is as long on the picture.

use super::span::{SPAN, TexCoords, per_pixel};

/// Where the subject stands and the lens is focused, as a share of the height from the top.
pub(super) const SUBJECT_V: f32 = 0.88;
/// Focal length, in heights of the picture: about 60 mm on full frame.
const FOCAL: f32 = 1.7;

/// A camera above flat ground.
#[derive(Clone, Copy)]
pub(super) struct Camera {
    pub(super) horizon: f32,
    /// Strength of the depth-of-field blur, 0..1.
    pub(super) blur: f32,
    /// Height of a pixel.
    pub(super) pixel: f32,
}

impl Camera {
    /// Radius of the circle of confusion on the ground at `v`, in heights of the picture: it grows with the difference of
    /// the inverse distances, which is that of the rows.
    pub(super) fn circle_of_confusion(&self, v: f32) -> f32 {
        0.045 * self.blur * (v - SUBJECT_V).abs()
    }

    /// Ground coordinates of a span of a row: `screen.x` holds its columns, `screen.y` its row.
    pub(super) fn ground(&self, screen: &TexCoords) -> TexCoords {
        let v = screen.y[0];
        let height = (SUBJECT_V - self.horizon).max(0.05);
        let below = (v - self.horizon).max(0.004);
        let scale = height / below;
        let distance = FOCAL * scale;
        let footprint = self.pixel + 1.3 * self.circle_of_confusion(v);
        TexCoords {
            x: per_pixel(|at| screen.x[at] * scale),
            // Grows towards the viewer, 0 at the subject.
            y: [FOCAL - distance; SPAN],
            footprint: [footprint * scale, footprint * FOCAL * scale * scale / height],
        }
    }
}
