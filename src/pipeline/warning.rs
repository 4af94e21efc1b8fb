//! Warnings about a finished picture.

use crate::codec::{EncodeOptions, Flaw, Limits, PngEffort};
use crate::image::{OutputFormat, Size};
use std::fmt;

/// A property of a picture that its caller may not expect. Displayed as a sentence in visible ASCII without quotes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warning {
    /// The cutout is bad with this probability, 0 to 1.
    UncertainMask(f32),
    /// The alpha channel of the source was kept as the matte.
    OwnAlphaKept,
    /// A portrait's subject has no face.
    NoFace,
    /// The built-in generator has no scene for any word of the prompt.
    NoWordRecognized,
    /// A file has a flaw, though its pixels were read.
    Flawed(Flaw),
    /// A PNG with more pixels than a source may have was compressed with the default effort, not the best.
    DefaultCompression,
}

impl Warning {
    /// Lowers the effort of a PNG whose `size` has more megapixels than `limits` allow. The best effort takes seconds
    /// of CPU time for each ten million pixels, and a small source can be enlarged to any size.
    pub(super) fn lowering_effort(encode: &mut EncodeOptions, size: Size, limits: &Limits) -> Option<Self> {
        let is_large = size.area() as u64 > u64::from(limits.max_megapixels) * 1_000_000;
        let is_costly = encode.format == OutputFormat::Png && encode.png == PngEffort::Best && is_large;
        is_costly.then(|| {
            encode.png = PngEffort::Default;
            Self::DefaultCompression
        })
    }
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
            Self::Flawed(flaw) => flaw.fmt(f),
            Self::DefaultCompression => {
                f.write_str("the picture is too large for `compression=best`; it has the default compression")
            }
            Self::NoWordRecognized => {
                f.write_str("no word of `prompt` was recognized; the backdrop is a neutral studio")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Channels;
    use crate::image::Quality;

    #[test]
    fn the_best_compression_is_limited_to_the_size_of_a_source() {
        let limits = Limits::default();
        for (format, png, side, lowered) in [
            (OutputFormat::Png, PngEffort::Best, 8192, true),
            (OutputFormat::Png, PngEffort::Best, 4096, false),
            (OutputFormat::Png, PngEffort::Default, 8192, false),
            (OutputFormat::WebP, PngEffort::Best, 8192, false),
        ] {
            let mut options = EncodeOptions { format, quality: Quality::DEFAULT, png, channels: Channels::Rgba };
            let warning = Warning::lowering_effort(&mut options, Size::new(side, side), &limits);
            assert_eq!((warning, options.png == png), (lowered.then_some(Warning::DefaultCompression), !lowered));
        }
    }

    #[test]
    fn every_warning_is_visible_ascii_that_needs_no_escape_in_quotes() {
        let all = [
            Warning::UncertainMask(0.625),
            Warning::OwnAlphaKept,
            Warning::NoFace,
            Warning::NoWordRecognized,
            Warning::DefaultCompression,
        ];
        for text in all.map(|warning| warning.to_string()) {
            assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')), "{text}");
        }
    }
}
