//! Fields whose value is one of a few words: formats, channels, methods.

use super::value::{Value, choice};
use crate::codec::{Channels, PngEffort};
use crate::compose::{Anchor, Fit};
use crate::image::OutputFormat;
use crate::matting::{Edge, Method};
use crate::recipe::kind::Kind;

choice!(Method { "closed-form" => Self::ClosedForm, "none" => Self::None });
choice!(Channels { "rgba" => Self::Rgba, "alpha" => Self::Alpha });
choice!(PngEffort { "fast" => Self::Fast, "default" => Self::Default, "best" => Self::Best });
choice!(Anchor { "center" => Self::Center, "auto" => Self::Auto });
choice!(Fit { "cover" => Self::Cover, "contain" => Self::Contain, "stretch" => Self::Stretch });

/// How partly covered pixels are finalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeChoice {
    /// Always this edge.
    Always(Edge),
    /// By the kind of the subject's outline, which the network classifies.
    Auto,
}

choice!(EdgeChoice {
    "soft" => Self::Always(Edge::Soft),
    "hard" => Self::Always(Edge::Hard),
    "auto" => Self::Auto,
});

/// Number of the segmentation network's passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detect {
    /// One.
    #[default]
    Standard,
    /// A second pass over a copy with higher contrast (CLAHE), which only adds to the mask.
    HighRecall,
}

choice!(Detect { "standard" => Self::Standard, "high_recall" => Self::HighRecall });

/// A cutout pipeline other than the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutEngine {
    /// For flat, opaque product photos.
    ProductV1,
}

choice!(CutEngine { "product-v1" => Self::ProductV1 });

/// The format of a cutout, which has alpha.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutoutFormat(pub OutputFormat);

choice!(CutoutFormat {
    "png" => Self(OutputFormat::Png),
    "webp" => Self(OutputFormat::WebP),
} ", because the result needs alpha");

impl Default for CutoutFormat {
    fn default() -> Self {
        Self(OutputFormat::Png)
    }
}

/// The format of a crop, which may be a cutout's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CropFormat(pub OutputFormat);

choice!(CropFormat {
    "png" => Self(OutputFormat::Png),
    "webp" => Self(OutputFormat::WebP),
} ", because the crop of a cutout keeps its transparency");

choice!(OutputFormat { "png" => Self::Png, "webp" => Self::WebP, "jpg" | "jpeg" => Self::Jpeg });

/// The channels of `/mask`, which returns the matte only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlphaOnly;

choice!(AlphaOnly { "alpha" => Self } ", because this endpoint answers the matte alone");

/// The channels of a composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RgbaOnly;

choice!(RgbaOnly { "rgba" => Self } ", because this endpoint answers a composition; /mask answers the matte");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enum_is_taken_in_any_case_and_jpeg_is_jpg() {
        for text in ["jpg", "JPG", "jpeg", "JPEG", "Jpeg"] {
            assert_eq!(OutputFormat::parse(text), Some(OutputFormat::Jpeg), "{text}");
        }
        assert_eq!(
            [OutputFormat::parse("PNG"), OutputFormat::parse("WebP")],
            [OutputFormat::Png, OutputFormat::WebP].map(Some)
        );
        assert_eq!(CutoutFormat::parse("WEBP"), Some(CutoutFormat(OutputFormat::WebP)));
        assert_eq!(Detect::parse("High_Recall"), Some(Detect::HighRecall));
        assert_eq!(CutEngine::parse("PRODUCT-V1"), Some(CutEngine::ProductV1));
        for text in ["", "gif", "jpe", "image/png", "png "] {
            assert_eq!(OutputFormat::parse(text), None, "{text:?}");
        }
        assert_eq!([CutoutFormat::parse("jpeg"), CutoutFormat::parse("JPG")], [None; 2]);
    }
}
