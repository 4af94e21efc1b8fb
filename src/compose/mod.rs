//! Composites a cutout into the finished picture: layout, background, shadows, outline, watermark.
//!
//! [`Scene::layout`] computes rectangles only, before any pixel is decoded; [`flatten`] composites the pixels.

mod anchor;
mod background;
mod border_contact;
mod brightness_saturation;
mod canvas;
mod flatten;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
mod ground_shadow;
mod head_framing;
mod layout;
mod mark_area;
mod outline;
mod resample;
mod scene;
mod shadow;
mod subject_placement;
#[cfg(test)]
mod tests;
mod text;
mod watermark;
mod white_background;

pub use background::Plate;
pub use border_contact::{Anchor, BorderContact};
pub use canvas::{CanvasLimit, Layout, MAX_SIDE, OutputTooLarge, Resize};
pub use flatten::{Flattened, Materials, flatten};
pub use head_framing::Head;
pub use scene::{
    Aspect, Background, Enhance, Fit, Framing, Grounding, Light, Mark, Outline, Padding, Scene, Shadow, Watermark,
};
pub use subject_placement::{Length, Margins, Placement};
pub use text::has_glyphs;
pub use white_background::flatten_onto_white;

/// Coverage, of 255, from which a pixel counts as subject: 3 %; below it lie a matte's invisible remains.
pub const SUBJECT_ALPHA: u8 = 8;
