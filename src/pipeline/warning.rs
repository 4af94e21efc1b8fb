//! Warnings about a finished picture: what its caller may not expect.

use std::fmt;

/// What the caller may not expect of a picture. Its text is a sentence in visible ASCII without quotation marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warning {
    /// The cutout is bad with this probability, 0 to 1.
    UncertainMask(f32),
    /// The alpha channel of the source was kept as the matte.
    OwnAlphaKept,
    /// A portrait's subject has no face.
    NoFace,
    /// The built-in generator has a scene for no word of the prompt.
    NoWordRecognized,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UncertainMask(probability) => write!(
                f,
                "the mask is uncertain: the cutout is bad with a probability of {probability:.2}; check it, and mark the subject \
                 (`box`, `point`, `mask_file`) where it is wrong"
            ),
            Self::OwnAlphaKept => f.write_str(
                "the picture has transparency of its own, which was kept; `keep_alpha=false` cuts the subject out anew",
            ),
            Self::NoFace => f.write_str("the subject has no face; the result is that of /studio-shot"),
            Self::NoWordRecognized => {
                f.write_str("no word of `prompt` was recognized; the backdrop is a neutral studio")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_warning_is_visible_ascii_that_needs_no_escape_in_quotes() {
        let all = [Warning::UncertainMask(0.625), Warning::OwnAlphaKept, Warning::NoFace, Warning::NoWordRecognized];
        for text in all.map(|warning| warning.to_string()) {
            assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')), "{text}");
        }
    }
}
