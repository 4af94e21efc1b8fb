//! Background layer: transparent, a colour, a fitted picture or the source's own background, blurred.

mod blur;
mod fit;
mod layer;
mod replicate;

pub use blur::Plate;
#[cfg(feature = "gpu")]
pub(super) use fit::fitted;
pub(super) use layer::{BackgroundLayer, Scratch};
pub(super) use replicate::replicate_border;
