//! Composition parameters: framing, output size, background, shadow, lighting, outline, enhancement and marks. They do
//! not depend on the picture.

use super::{Anchor, CanvasLimit, Head, Placement, Resize};
use crate::image::color::Color;

/// Parameters of a composition: the subject's placement and everything around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// The visible part of the source and the padding around it.
    pub framing: Framing,
    /// Placement of a subject that the picture's border crops, for framings with padding ([`Framing::Padded`],
    /// [`Framing::Expanded`] and [`Framing::Trimmed`]).
    pub anchor: Anchor,
    /// The size of the result.
    pub resize: Resize,
    /// The limit on the result's longest side.
    pub limit: CanvasLimit,
    /// The limit on the result's pixels; a larger result is scaled down.
    pub max_pixels: Option<u32>,
    /// The bottom layer.
    pub background: Background,
    /// The subject's shadow on the background.
    pub shadow: Option<Shadow>,
    /// Ground shadow and light on the subject's edge, from the light of the background picture.
    pub grounding: Option<Grounding>,
    /// A line around the subject, over the shadow.
    pub outline: Option<Outline>,
    /// Enhancement of the subject's brightness and saturation.
    pub enhance: Option<Enhance>,
    /// A mark over everything.
    pub watermark: Option<Watermark>,
    /// A label in the lower left corner, for example of a preview.
    pub stamp: Option<&'static str>,
}

/// The visible part of the source and the padding around it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Framing {
    /// The whole picture.
    #[default]
    Whole,
    /// The subject, centred, with padding.
    Padded {
        /// Aspect of the canvas; default: the aspect of an exact box, else square.
        aspect: Option<Aspect>,
        /// Smallest padding on each side.
        padding: Padding,
    },
    /// Part of the source around the subject.
    Cropped {
        /// Aspect of the crop: the subject is then centred, and the crop may extend beyond the source. Default: the
        /// aspect of an exact box, else of the padded subject inside the source.
        aspect: Option<Aspect>,
        /// Padding on each side in pixels of the source, clamped to the source.
        padding: u32,
    },
    /// The whole picture, expanded to contain its shadow.
    Expanded,
    /// The subject and its outline, with padding around both.
    Trimmed {
        /// Padding on each side in pixels of the source.
        padding: u32,
    },
    /// Head and shoulders.
    Portrait {
        /// Aspect of the canvas; default: the aspect of an exact box, else square.
        aspect: Option<Aspect>,
        /// The measured head.
        head: Head,
    },
    /// The subject at a given scale and position.
    Placed(Placement),
}

/// Width to height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aspect {
    width: u32,
    height: u32,
}

impl Aspect {
    /// As wide as high.
    pub const SQUARE: Self = Self { width: 1, height: 1 };

    /// `width` to `height`; `None` when either is 0.
    #[must_use]
    pub const fn new(width: u32, height: u32) -> Option<Self> {
        if width > 0 && height > 0 { Some(Self { width, height }) } else { None }
    }

    /// Width of the ratio.
    #[must_use]
    pub const fn width(self) -> u32 {
        self.width
    }

    /// Height of the ratio.
    #[must_use]
    pub const fn height(self) -> u32 {
        self.height
    }
}

/// Padding around a subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Padding {
    /// Pixels of the result.
    Pixels(u32),
    /// Share of the result's side, 0 to less than 0.5.
    Share(f32),
}

/// The bottom layer of a composition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Background {
    /// Transparent.
    #[default]
    Clear,
    /// One colour, which may be translucent.
    Color(Color),
    /// Another picture.
    Picture {
        /// How it fills the canvas.
        fit: Fit,
        /// Colour behind the picture, for bars and translucent pixels.
        behind: Color,
    },
    /// The source, blurred, with the subject inpainted.
    Blurred {
        /// Strength of the blur, 2 to 100.
        intensity: u8,
        /// Colour if the subject fills the source.
        behind: Color,
    },
    /// Border replication: beyond the source, the colour of its nearest pixel; transparent around a cutout.
    EdgeColor,
}

/// How a background picture fills the canvas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Fills the canvas; the rest of the picture is cropped.
    #[default]
    Cover,
    /// Shows the whole picture; bars fill the rest.
    Contain,
    /// Fills the canvas with the whole picture, distorted.
    Stretch,
}

/// A drop shadow of the subject. Lengths are in pixels, times [`Layout::scale`](super::Layout::scale).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shadow {
    /// Colour; alpha is ignored.
    pub color: Color,
    /// Opacity at full coverage, 0 to 1.
    pub opacity: f32,
    /// Offset to the right.
    pub dx: f32,
    /// Offset downwards.
    pub dy: f32,
    /// Standard deviation (σ) of the Gaussian blur.
    pub sigma: f32,
}

/// Lighting and ground of the picture behind the subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grounding {
    /// The picture's main light.
    pub light: Light,
    /// Upper edge of the ground, as a share of the canvas's height from the top. With `None` the light affects the
    /// subject's edge only, without a shadow.
    pub horizon: Option<f32>,
}

/// The main light of a scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Light {
    /// Direction of shadows in degrees: 0 is right, 90 is towards the viewer (down), 270 is away from the viewer.
    pub shadow_angle: f32,
    /// Length of a shadow, as a share of the subject's height: 0 under a light from straight above.
    pub shadow_length: f32,
    /// Softness of shadows: 0 (a spot, the sun) to 1 (an overcast sky).
    pub softness: f32,
    /// Opacity of the shadow at full coverage, 0 to 1.
    pub strength: f32,
    /// Colour of the light: factors for linear red, green and blue; 1 each for neutral light.
    pub tint: [f32; 3],
}

/// A line around the subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outline {
    /// Colour; alpha is ignored.
    pub color: Color,
    /// Width in pixels, times [`Layout::scale`](super::Layout::scale); more than 0.
    pub width: f32,
}

/// Strength of the brightness and saturation enhancement, 0 to 0.5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Enhance(pub f32);

/// A mark in the lower right corner.
#[derive(Clone, Debug, PartialEq)]
pub struct Watermark {
    /// Contents.
    pub mark: Mark,
    /// Opacity, 0 to 1.
    pub opacity: f32,
}

/// The contents of a watermark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A picture, given as [`Materials::mark`](super::Materials::mark).
    Picture,
    /// A line of text.
    Text(String),
}
