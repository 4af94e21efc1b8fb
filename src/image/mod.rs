//! The values that travel through the pipeline, one type per stage, with no logic of ours below them.
//!
//! `EncodedBytes → Header → Frame → Mask → Trimap → AlphaMatte → Cutout → Composite → EncodedImage`.
//! A stage consumes one type and returns the next, so the compiler forbids any other order.

mod buffer;
pub mod color;
mod composite;
mod encoded;
mod face;
mod frame;
pub mod geometry;
mod matte;
mod source_url;

pub use buffer::{Buffer, BufferPool};
pub use composite::Composite;
pub use encoded::{EncodedImage, OutputFormat, Quality};
pub use face::Face;
pub use frame::Frame;
pub use geometry::{Rect, Size};
pub use matte::{AlphaMatte, Cutout, Mask, Trimap};
pub use source_url::{SourceUrl, UrlError};
