//! Makes backdrops from a text prompt: by the built-in procedural generator (`render`) or image APIs ([`Providers`]).
//!
//! The built-in generator is not a diffusion model. It parses the prompt with a fixed vocabulary, builds a scene from
//! it (ground, background, light, depth of field) and renders the scene from procedural noise and simple shapes. Words
//! outside the vocabulary are ignored.

mod cache;
mod config;
mod falloff;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod linear_rgb;
mod picture_size;
mod prompt;
mod providers;
mod render;
mod scene;
mod scene_builder;
mod single_flight;
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

/// A backdrop, and the data for placing a subject in it.
#[derive(Clone, Debug)]
pub struct Backdrop {
    /// The opaque picture.
    pub frame: Frame,
    /// Ground and light of the picture.
    pub grounding: Grounding,
}

/// A backdrop of the built-in generator.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The backdrop.
    pub backdrop: Backdrop,
    /// The recognized words of the prompt, in their order; empty for the neutral studio.
    pub understood: Vec<String>,
}

/// Draws the scene that the known words of `prompt` describe.
///
/// Deterministic: equal prompts and sizes give equal pixels, and sizes of one aspect ratio show one scene. Letter case,
/// accents and punctuation other than separators are ignored. Needs up to 35 MB in addition to the picture, at any
/// size. Noise is computed on the CPU, by the plain twin of the `noise` kernel.
#[must_use]
pub fn render(prompt: &str, size: Size) -> Rendered {
    let parsed = prompt::parse(prompt);
    let scene = scene_builder::scene(&parsed, seed(&prompt::normalised(prompt)));
    let grounding = scene_builder::grounding(&scene);
    let frame = render::draw(&scene, size);
    Rendered { backdrop: Backdrop { frame, grounding }, understood: parsed.understood }
}

/// FNV-1a, 32 bits.
fn seed(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
