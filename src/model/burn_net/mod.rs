//! The networks as burn modules: what runs on a GPU, and a second opinion on our CPU kernels.

mod face;
mod fgnet;
mod layers;
mod restore;
mod upscale;

pub use face::BurnFace;
pub use fgnet::BurnNet;
pub use restore::BurnRestore;
pub use upscale::BurnUpscale;
