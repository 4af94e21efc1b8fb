//! What lies behind the subject.

use super::Scene;
use crate::image::Frame;

/// A reduced copy of a source, taken before its background is lost.
#[derive(Debug)]
pub struct Plate {}

impl Plate {
    pub(super) fn most_pixels(source: crate::image::Size, intensity: u8) -> usize {
        let _ = (source, intensity);
        0
    }
}

impl Scene {
    /// What of `frame` has to be kept for the background, taken before it is cut out.
    #[must_use]
    pub fn plate(&self, frame: &Frame) -> Option<Plate> {
        let _ = frame;
        None
    }
}
