//! The error of all of matting: a picture without a subject.

/// Minimum share of the picture that a subject covers; less is a single cell of the network's grid.
pub(super) const MIN_AREA: f64 = 1e-4;

/// The picture has no subject that can be separated from its background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no subject can be separated from the background")]
pub struct NoSubject;

/// Checks that enough of the `cells` of a mask are `subject`.
///
/// # Errors
/// [`NoSubject`] when the share is below [`MIN_AREA`].
pub(super) fn check_area(subject: usize, cells: usize) -> Result<(), NoSubject> {
    if (subject as f64) < MIN_AREA * cells as f64 { Err(NoSubject) } else { Ok(()) }
}
