//! Refinement of the mask: parts of the picture are segmented again at a higher resolution.
//!
//! The network's input is the whole picture stretched to its own grid; of a large photo, or of a small product in a photo,
//! that keeps little detail of the edge. So the subject's box is segmented again, and overlapping tiles along the edge where
//! the box is larger than the grid too ([`plan`]), and the masks of these parts are merged with the first mask on a finer grid
//! ([`merged`]). The first mask determines what the subject is, the parts only the exact position of its edge: a tile
//! shows texture, not the product. Nothing here is random, and sums run in one order: the same masks merge to the same mask,
//! bit for bit.

mod crop;
mod merge;
mod part;
mod tiling;

pub use crop::cropped;
pub use merge::merged;
pub use part::{Part, Scope};
pub use tiling::{most_pixels, plan};
