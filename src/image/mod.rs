//! Value types of the pipeline, one for the result of each stage.
//!
//! `EncodedBytes → Header → Frame → RawMask → CleanMask → Trimap → AlphaMatte → Cutout → Composite → EncodedImage`. A
//! stage consumes one type and returns the next, and only a stage makes its type, so the compiler forbids any other
//! order. `Header` is in [`codec`](crate::codec) and [`CleanMask`](crate::matting::CleanMask) in matting, which alone
//! can make them. Composing takes a [`Subject`]: a cutout, or the uncut source.

mod alpha;
mod buffer_pool;
pub mod color;
mod composite;
mod cutout;
#[cfg(feature = "gpu")]
mod device_copy;
#[cfg(feature = "gpu")]
mod device_session;
mod edge_kinds;
mod encoded;
mod face;
mod frame;
pub mod geometry;
mod hints;
mod mask;
mod matte;
#[cfg(target_os = "linux")]
pub mod shared_memory;
mod source_url;
#[cfg(test)]
pub(crate) mod tests;
mod transferred;
mod trimap;

pub use alpha::Alpha;
pub use buffer_pool::{Buffer, BufferPool};
pub use composite::Composite;
pub use cutout::{Cutout, Subject};
#[cfg(feature = "gpu")]
pub use device_copy::DeviceCopy;
#[cfg(feature = "gpu")]
pub use device_session::{DeviceLimits, DeviceSession, Reservation};
pub use edge_kinds::EdgeKinds;
pub use encoded::{EncodedImage, OutputFormat, Quality};
pub use face::Face;
pub use frame::Frame;
pub use geometry::{Rect, Size};
pub use hints::Hints;
pub(crate) use mask::check_probabilities;
pub use mask::{InvalidMask, RawMask};
pub use matte::AlphaMatte;
pub use source_url::{SourceUrl, UrlError};
pub use transferred::{TransferCounter, Transferred};
pub use trimap::Trimap;
