//! From a cutout to a finished picture.
//!
//! [`layout`](Resize::layout) decides in rectangles only, before any pixel is decoded; [`flatten`] carries it out.

mod flatten;
mod layout;
mod resample;

pub use flatten::flatten;
pub use layout::{Layout, MAX_SIDE, OutputTooLarge, Resize};
