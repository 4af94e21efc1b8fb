//! Backdrops from a prompt: drawn by the built-in generator ([`render`]), or made by an image API ([`Studio`]).
//!
//! The built-in generator is procedural: it knows the words of its vocabulary, sets up a scene from them (a ground, what is
//! behind, light, depth of field) and draws it from noise and a few shapes. It is no diffusion model, and what it has no
//! word for it does not draw.

mod cache;
mod config;
mod palette;
mod picture_size;
mod prompt;
mod providers;
mod render;
mod scene;
mod single_flight;
mod staging;
mod surface;
#[cfg(test)]
mod tests;
mod upstream;
mod vocabulary;

pub use config::{GenerateConfig, UpstreamConfig};
pub use providers::{AccountScope, GeneratedImage, ProviderError, ProviderSetupError, Providers};
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

/// Draws the scene that `prompt` describes, as well as its vocabulary goes.
///
/// The same prompt and size always give the same pixels, and the same prompt at another size of that shape the same scene.
/// Letter case, accents and punctuation but for breaks do not matter. Beside the picture it needs up to 35 MB, whatever the
/// size. The noise is computed on the CPU, by the plain twin of the `noise` kernel.
#[must_use]
pub fn render(prompt: &str, size: Size) -> Rendered {
    let reading = prompt::read(prompt);
    let scene = staging::scene(&reading, seed(&prompt::normalised(prompt)));
    let grounding = staging::grounding(&scene);
    let frame = render::draw(&scene, size);
    Rendered { backdrop: Backdrop { frame, grounding }, understood: reading.understood }
}

/// FNV-1a, 32 bits.
fn seed(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
