//! The cleaned mask, from which matting starts.

use crate::image::{RawMask, Size, check_probabilities};
use crate::matting::error::{NoSubject, check_area};
use backdrop_kernels::recycled::Recycled;

/// Probability of subject on the network's grid, after cleaning.
#[derive(Clone, Debug, PartialEq)]
pub struct CleanMask {
    size: Size,
    values: Recycled<Vec<f32>>,
}

impl CleanMask {
    /// # Panics
    /// Unless `values` holds a probability for each cell. Cleaning moves probabilities only within 0..=1.
    pub(in crate::matting) fn new(size: Size, values: Recycled<Vec<f32>>) -> Self {
        if let Err(error) = check_probabilities(size, &values) {
            panic!("cleaning made {error}");
        }
        Self { size, values }
    }

    /// A network's matte, which needs no cleaning.
    ///
    /// # Errors
    /// [`NoSubject`] when less than a ten-thousandth of it is subject.
    pub(in crate::matting) fn of_matte(matte: &RawMask) -> Result<Self, NoSubject> {
        let subject = matte.values().iter().filter(|&&value| value >= 0.5).count();
        check_area(subject, matte.values().len())?;
        Ok(Self::new(matte.size(), Recycled::collected(matte.values().iter().copied())))
    }

    /// The larger of both values in each cell.
    ///
    /// # Panics
    /// When `other` is on another grid.
    pub(in crate::matting) fn union(mut self, other: &Self) -> Self {
        assert_eq!(self.size, other.size, "masks of two grids");
        self.values.iter_mut().zip(&*other.values).for_each(|(value, other)| *value = value.max(*other));
        self
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

impl From<CleanMask> for RawMask {
    fn from(CleanMask { size, values }: CleanMask) -> Self {
        Self::new(size, values).expect("cleaning makes probabilities")
    }
}
