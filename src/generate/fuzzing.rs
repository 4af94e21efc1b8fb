//! Fuzz target of the prompt: its parser and the scene built from it.

use super::{prompt, scene_builder, seed};

/// Parses a prompt and builds its scene.
///
/// # Panics
/// When normalising is not idempotent, or more phrases are understood than the prompt has characters.
pub fn prompt(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let normal = prompt::normalised(text);
    assert_eq!(prompt::normalised(&normal), normal);
    let parsed = prompt::parse(text);
    assert!(parsed.understood.len() <= text.len());
    let scene = scene_builder::scene(&parsed, seed(&normal));
    let _ = scene_builder::grounding(&scene);
}

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_pass() {
        crate::fuzzing::replay("prompt", super::prompt);
    }
}
