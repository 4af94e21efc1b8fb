//! A detected face: its box, five landmarks and score.

/// A face: its box, and the five landmarks that determine its pose. All lengths in pixels of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Face {
    /// Left edge of its box; may lie outside the picture, as may the others.
    pub left: f32,
    /// Upper edge.
    pub top: f32,
    /// Right edge.
    pub right: f32,
    /// Lower edge.
    pub bottom: f32,
    /// `[x, y]` of the eye on the picture's left side when the face is upright, the other eye, the tip of the nose, the
    /// corner of the mouth on the left, the other corner.
    pub landmarks: [[f32; 2]; 5],
    /// The detector's confidence, 0 to 1.
    pub score: f32,
}

impl Face {
    /// Pixels that its box covers.
    #[must_use]
    pub fn area(&self) -> f32 {
        (self.right - self.left).max(0.0) * (self.bottom - self.top).max(0.0)
    }
}
