//! A trimap: known background, known foreground, and the unknown band between them, at source size.

use super::Size;

/// A label for each pixel of the picture; matting solves the unknown pixels only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trimap {
    size: Size,
    labels: Vec<u8>,
}

impl Trimap {
    /// Certainly background.
    pub const BACKGROUND: u8 = 0;
    /// To be solved by matting.
    pub const UNKNOWN: u8 = 128;
    /// Certainly subject.
    pub const FOREGROUND: u8 = 255;

    /// A trimap of `labels`, row-major.
    ///
    /// # Panics
    /// When the number of labels is not the number of pixels, or a label is not [`Trimap::BACKGROUND`],
    /// [`Trimap::UNKNOWN`] or [`Trimap::FOREGROUND`].
    #[must_use]
    pub fn new(size: Size, labels: Vec<u8>) -> Self {
        assert_eq!(labels.len(), size.area(), "a trimap of {size} needs a label for each pixel");
        let is_label = |label: u8| label == Self::BACKGROUND || label == Self::UNKNOWN || label == Self::FOREGROUND;
        // Without an early exit, which would prevent vectorisation.
        assert!(labels.iter().fold(true, |valid, &label| valid & is_label(label)), "a trimap has three labels");
        Self { size, labels }
    }

    /// Width and height of the picture.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// The label of each pixel, row after row.
    #[must_use]
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }
}
