//! Faces: which of them count, how one is turned upright, and how what was restored gets back into its picture.
//!
//! ```text
//! Face           Similarity     five landmarks onto a template, least squares
//! Frame          FaceCrop       turned upright, 256×256, averaged where it shrinks
//! FaceCrop       FaceCrop       the network's business: what is to be added
//! that, back     Frame          times strength and a feathered ellipse
//! ```
//!
//! What is added travels back, and not the picture: a pixel of the source is never resampled, so nothing moves, nothing
//! outside of the ellipse changes, and a face that needs nothing stays as it is.

mod align;
mod choose;
mod restore;
mod similarity;

pub use align::{aligned, to_template};
pub use choose::{LEAST_FACE, enlarged, share_of_alpha, share_of_mask, sitter, usable};
pub use restore::restored;
pub use similarity::Similarity;
