//! The networks on a burn device, layer by layer: on a GPU, or on the host in tests.

mod face;
mod fgnet;
mod layers;
mod restore;
mod upscale;

pub use face::BurnFace;
pub use fgnet::{BurnNet, Prediction, Squares};
pub use restore::BurnRestore;
pub use upscale::BurnUpscale;
