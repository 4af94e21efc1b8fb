//! A detected face: its box, five landmarks and score.

/// A face: box, and five landmarks that determine the pose. Lengths are in pixels of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Face {
    /// Left edge of the box. Any edge may lie outside the picture.
    pub left: f32,
    /// Upper edge.
    pub top: f32,
    /// Right edge.
    pub right: f32,
    /// Lower edge.
    pub bottom: f32,
    /// `[x, y]` each, named by the side of an upright face in the picture: left eye, right eye, tip of the nose, left
    /// and right corner of the mouth.
    pub landmarks: [[f32; 2]; 5],
    /// The detector's confidence, 0 to 1.
    pub score: f32,
}

impl Face {
    /// Area of the box in square pixels.
    #[must_use]
    pub fn area(&self) -> f32 {
        (self.right - self.left).max(0.0) * (self.bottom - self.top).max(0.0)
    }
}
