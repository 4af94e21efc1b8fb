//! Prior knowledge of the matte: from the network's mask, from the frame before, from subjects that are opaque.

mod color_distance;
mod mask;
pub(super) mod opaque;
mod previous_frame;

pub use mask::MaskPrior;
#[cfg(feature = "gpu")]
pub(super) use mask::{CONTRAST, POWER, least_gamma};
pub use previous_frame::TemporalPrior;

/// What closed-form matting takes into account besides picture and trimap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Priors<'a> {
    /// The network's mask inside the band.
    pub mask: Option<&'a MaskPrior>,
    /// Where the finest level starts from, weighted, instead of the coarser level's solution.
    pub temporal: Option<&'a TemporalPrior>,
}
