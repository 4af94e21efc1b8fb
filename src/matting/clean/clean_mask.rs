//! The mask that matting takes: what cleaning has made of the network's mask.

use crate::image::{Size, check_probabilities};

/// Probability of subject on the network's grid, after cleaning. Only [`clean`](super::clean) and
/// [`clean_with_colors`](super::clean_with_colors) make one.
#[derive(Clone, Debug, PartialEq)]
pub struct CleanMask {
    size: Size,
    values: Vec<f32>,
}

impl CleanMask {
    /// # Panics
    /// When these are no probabilities for each cell. Cleaning moves probabilities only within 0..=1.
    pub(in crate::matting) fn new(size: Size, values: Vec<f32>) -> Self {
        if let Err(error) = check_probabilities(size, &values) {
            panic!("cleaning made {error}");
        }
        Self { size, values }
    }

    /// Columns and rows of the grid.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// Probability of subject, row after row.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}
