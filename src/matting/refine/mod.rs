//! Refinement of the mask: parts of the picture are segmented again at a higher resolution.
//!
//! The network's input is the whole picture stretched to its own grid, which keeps little detail of the edge in a large
//! photo or of a small product. So the subject's box is segmented again, with overlapping tiles along the edge where
//! the box too is larger than the grid ([`plan`]), and the masks of these parts are merged with the first mask on a
//! finer grid ([`merged`]). The first mask determines the subject, the parts only the exact position of its edge: a
//! tile shows texture, not the product. The merged mask depends on the masks alone, bit for bit.
//!
//! The caller's marks correct the mask in a further pass, by the guided network (`guided`).

mod crop;
mod guided;
mod merge;
mod part;
mod tiling;

pub use crop::cropped;
pub use guided::{corrected, crop, hints};
pub use merge::merged;
pub use part::{Part, Scope};
pub use tiling::{most_pixels, plan};
