//! Faces: selection, alignment to a template, and restoration by a residual network.
//!
//! ```text
//! Face           → Similarity   five landmarks onto a template, least squares
//! Frame          → FaceCrop     aligned, 256×256, area-averaged where it shrinks
//! FaceCrop       → FaceCrop     the network's residual
//! residual       → Frame        warped back and added, times strength and a feathered ellipse
//! ```
//!
//! Only the residual is warped back. Pixels of the source are never resampled, so nothing is shifted, nothing outside
//! of the ellipse changes, and a zero residual leaves a face bit for bit.

mod align;
mod restore;
mod selection;
mod similarity_transform;

pub use align::{aligned, to_template};
pub use restore::restored;
pub use selection::{MIN_FACE_SIDE, enlarged, main_face, share_of_alpha, share_of_coverage, share_of_mask, usable};
pub use similarity_transform::Similarity;
