//! From a cutout to a finished picture.
//!
//! [`layout`](Resize::layout) decides in rectangles only, before any pixel is decoded; [`flatten`] carries it out.

mod anchor;
mod background;
mod enhance;
mod flatten;
#[cfg(test)]
mod golden;
mod grounding;
mod layout;
mod on_white;
mod outline;
mod overlay;
mod placement;
mod portrait;
mod resample;
mod scene;
mod shadow;
mod text;
mod watermark;

pub use anchor::{Anchor, Contact};
pub use background::Plate;
pub use flatten::{Flattened, Materials, SUBJECT_ALPHA, flatten};
pub use layout::{CanvasLimit, Layout, MAX_SIDE, OutputTooLarge, Resize};
pub use on_white::on_white;
pub use placement::{Length, Margins, Placement};
pub use portrait::Head;
pub use scene::{
    Aspect, Background, Enhance, Fit, Framing, Grounding, Light, Mark, Outline, Padding, Scene, Shadow, Watermark,
};
