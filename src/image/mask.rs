//! The segmentation network's mask: probability of subject on the network's grid.

use super::{EdgeKinds, Size};
use backdrop_kernels::recycled::Recycled;

/// Tolerance beyond 0..=1 for rounding in the network's last layer; values farther out are an error.
const ROUNDING: f32 = 1e-3;

/// The network's output for one picture, stretched to a grid: the probability of subject in each cell.
///
/// Matting takes a [`CleanMask`](crate::matting::CleanMask), which is made from this mask.
#[derive(Clone, Debug, PartialEq)]
pub struct RawMask {
    size: Size,
    values: Recycled<Vec<f32>>,
    edge: Option<EdgeKinds>,
    is_matte: bool,
}

/// Why values are no mask.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidMask {
    /// The number of values is not the number of cells, or the grid is empty.
    #[error("a mask of {size} with {values} values")]
    Length {
        /// The grid.
        size: Size,
        /// Number of values.
        values: usize,
    },
    /// A value outside 0..=1.
    #[error("a mask value of {0}")]
    Value(f32),
}

impl RawMask {
    /// A mask of `values` in 0..=1, row-major, on a grid of `size`.
    ///
    /// # Errors
    /// When the number of values is not the number of cells, the grid is empty, or a value is not within 0..=1 up to
    /// rounding.
    pub fn new(size: Size, values: impl Into<Recycled<Vec<f32>>>) -> Result<Self, InvalidMask> {
        let values = values.into();
        check_probabilities(size, &values)?;
        Ok(Self { size, values, edge: None, is_matte: false })
    }

    /// This mask with the kinds of the subject's outline.
    #[must_use]
    pub const fn with_edge(mut self, edge: Option<EdgeKinds>) -> Self {
        self.edge = edge;
        self
    }

    /// The kinds of the subject's outline; `None` when the weights have no classifier.
    #[must_use]
    pub const fn edge(&self) -> Option<EdgeKinds> {
        self.edge
    }

    /// This mask with changed values. Panics when `change` leaves a value that is no probability.
    #[must_use]
    pub(crate) fn changed(mut self, change: impl FnOnce(&mut [f32])) -> Self {
        change(&mut self.values);
        if let Err(error) = check_probabilities(self.size, &self.values) {
            panic!("a changed mask is {error}");
        }
        self
    }

    /// Marks the values as coverage by the subject, which needs no matting.
    #[must_use]
    pub const fn as_matte(mut self) -> Self {
        self.is_matte = true;
        self
    }

    /// Whether the values are coverage by the subject instead of probability.
    #[must_use]
    pub const fn is_matte(&self) -> bool {
        self.is_matte
    }

    /// Columns and rows of the grid.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// Probability of subject, row-major.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}

/// Whether `values` are probabilities for all cells of a grid of `size`.
pub(crate) fn check_probabilities(size: Size, values: &[f32]) -> Result<(), InvalidMask> {
    if values.is_empty() || values.len() != size.area() {
        return Err(InvalidMask::Length { size, values: values.len() });
    }
    // A range check, so that NaN fails too.
    let is_valid = |value: f32| (-ROUNDING..=1.0 + ROUNDING).contains(&value);
    // Without an early exit, which would prevent vectorisation.
    if values.iter().fold(true, |valid, &value| valid & is_valid(value)) {
        return Ok(());
    }
    let invalid = values.iter().copied().find(|&value| !is_valid(value));
    Err(InvalidMask::Value(invalid.unwrap_or(f32::NAN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Size = Size::new(2, 2);

    #[test]
    fn a_mask_has_a_probability_for_each_cell() {
        assert!(RawMask::new(GRID, vec![0.0; 4]).is_ok(), "a picture without a subject");
        assert!(RawMask::new(GRID, vec![-0.0005, 0.5, 1.0, 1.0005]).is_ok(), "rounding");
        for values in [vec![0.5; 3], vec![0.5; 5], Vec::new()] {
            assert!(matches!(RawMask::new(GRID, values), Err(InvalidMask::Length { .. })));
        }
        assert!(RawMask::new(Size::new(0, 0), Vec::<f32>::new()).is_err(), "a grid without cells");
    }

    #[test]
    fn values_outside_of_zero_to_one_are_refused() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.5, 1.5] {
            let Err(InvalidMask::Value(found)) = RawMask::new(GRID, vec![0.0, 0.5, bad, 1.0]) else {
                panic!("{bad} was accepted");
            };
            assert_eq!(found.to_bits(), bad.to_bits());
        }
    }
}
