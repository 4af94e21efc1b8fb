//! The networks as burn modules: they run on a GPU, and are the reference of our CPU kernels in tests.

mod face;
mod fgnet;
mod layers;
mod restore;
mod upscale;

pub use face::BurnFace;
pub use fgnet::BurnNet;
pub use restore::BurnRestore;
pub use upscale::BurnUpscale;
