//! Perspective of the ground plane: camera height and horizon to ground coordinates and circle of confusion.
//!
//! With focal length `f` and camera height `h`, a row at `v` maps to the ground at distance `z = f h / (v - horizon)`,
//! and a column at `u` to `u z / f` off the middle. `h` is chosen so that at the subject's row ([`SUBJECT_V`]) lengths
//! on the ground equal lengths on the picture.

use super::span::{SPAN, TexCoords, per_pixel};

/// Row of the subject and of the lens's focus, as a share of the height from the top.
pub(super) const SUBJECT_V: f32 = 0.88;
/// Focal length in picture heights: about 60 mm on full frame.
const FOCAL: f32 = 1.7;

#[derive(Clone, Copy)]
pub(super) struct Camera {
    pub(super) horizon: f32,
    /// Strength of the depth-of-field blur, 0..1.
    pub(super) blur: f32,
    /// Height of a pixel.
    pub(super) pixel: f32,
}

impl Camera {
    /// Radius in picture heights of the circle of confusion on the ground at `v`. It is proportional to the difference
    /// of inverse distances, hence to the difference of rows.
    pub(super) fn circle_of_confusion(&self, v: f32) -> f32 {
        0.045 * self.blur * (v - SUBJECT_V).abs()
    }

    /// Ground coordinates of a span of a row; `screen.x` contains its columns, `screen.y` its row.
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
