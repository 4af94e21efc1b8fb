//! Priors of the matte: from the network's mask, from a clip's previous frame, from opaque subjects.

mod color_distance;
mod mask;
pub(super) mod opaque;
mod previous_frame;

pub use mask::MaskPrior;
#[cfg(feature = "gpu")]
pub(super) use mask::{CONTRAST, POWER, least_gamma};
pub use previous_frame::TemporalPrior;

/// Priors of closed-form matting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Priors<'a> {
    /// The network's mask inside the band.
    pub mask: Option<&'a MaskPrior>,
    /// Weighted start of the finest level, in place of the coarser level's solution.
    pub temporal: Option<&'a TemporalPrior>,
}
