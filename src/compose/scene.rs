//! What a finished picture is made of, beside the subject. Nothing here depends on the picture at hand.

use super::{Anchor, CanvasLimit, Head, Placement, Resize};
use crate::image::color::Color;

/// Everything that surrounds the subject, and the subject's place in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// What part of the source shows, and how much room is around it.
    pub framing: Framing,
    /// Where a subject lies that the picture's border cuts off, with room around it ([`Framing::Padded`],
    /// [`Framing::Grown`] and [`Framing::Trimmed`]).
    pub anchor: Anchor,
    /// The size of the result.
    pub resize: Resize,
    /// How large it may be.
    pub limit: CanvasLimit,
    /// Pixels that the result may have in all; a larger one is scaled down.
    pub max_pixels: Option<u32>,
    /// What lies behind everything.
    pub background: Background,
    /// The subject's shadow on the background.
    pub shadow: Option<Shadow>,
    /// Stands the subject on the ground of the picture behind it.
    pub grounding: Option<Grounding>,
    /// A line around the subject, over the shadow.
    pub outline: Option<Outline>,
    /// Brighter, more colourful.
    pub enhance: Option<Enhance>,
    /// A mark over everything.
    pub watermark: Option<Watermark>,
    /// A word in the lower left corner that says what kind of picture this is.
    pub stamp: Option<&'static str>,
}

/// What part of the source shows, and how much room is around it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Framing {
    /// The picture as it is.
    #[default]
    Whole,
    /// The subject in the middle, with room around it.
    Padded {
        /// Of the canvas; without one that of an exact box, else square.
        aspect: Option<Aspect>,
        /// Least room on each side.
        padding: Padding,
    },
    /// Part of the source around the subject.
    Cropped {
        /// Of the crop, which then has the subject in its middle and may reach beyond the source; without one that of an
        /// exact box, else whatever the subject has, inside the source.
        aspect: Option<Aspect>,
        /// Room on each side in pixels of the source, as far as that goes.
        padding: u32,
    },
    /// The picture as it is, grown where its shadow leaves it.
    Grown,
    /// The subject and its outline, with room around both.
    Trimmed {
        /// Room on each side in pixels of the source.
        padding: u32,
    },
    /// Head and shoulders.
    Portrait {
        /// Of the canvas; without one that of an exact box, else square.
        aspect: Option<Aspect>,
        /// What it is framed by.
        head: Head,
    },
    /// The subject at a scale and a place of its own.
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

    /// `width` to `height`; nothing when either is 0.
    #[must_use]
    pub const fn new(width: u32, height: u32) -> Option<Self> {
        if width > 0 && height > 0 { Some(Self { width, height }) } else { None }
    }

    /// The share of the width.
    #[must_use]
    pub const fn width(self) -> u32 {
        self.width
    }

    /// The share of the height.
    #[must_use]
    pub const fn height(self) -> u32 {
        self.height
    }
}

/// Room around a subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Padding {
    /// Pixels of the result.
    Pixels(u32),
    /// Share of the side of the result, 0 to less than 0.5.
    Share(f32),
}

/// What lies behind everything.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Background {
    /// Nothing.
    #[default]
    Clear,
    /// One colour, which may let something through.
    Color(Color),
    /// Another picture.
    Picture {
        /// How it fills the canvas.
        fit: Fit,
        /// Behind it, where it leaves room or lets something through.
        behind: Color,
    },
    /// The source's own background, blurred, as if the subject were not there.
    Blurred {
        /// 2 to 100.
        intensity: u8,
        /// Where there is nothing but subject.
        behind: Color,
    },
    /// Beyond the source the colour of its nearest pixel; nothing around a cutout.
    EdgeColor,
}

/// How a background picture fills the canvas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// All of the canvas; what sticks out is cut off.
    #[default]
    Cover,
    /// All of the picture; bars fill what is left.
    Contain,
    /// Both, distorted.
    Stretch,
}

/// A shadow of the subject. Lengths are in pixels, times [`Layout::scale`](super::Layout::scale).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shadow {
    /// Its colour; alpha is not looked at.
    pub color: Color,
    /// Its coverage where it is full, 0 to 1.
    pub opacity: f32,
    /// Distance to the right.
    pub dx: f32,
    /// Distance downwards.
    pub dy: f32,
    /// Standard deviation (σ) of its Gaussian blur.
    pub sigma: f32,
}

/// How a subject stands in the picture behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grounding {
    /// The light of that picture.
    pub light: Light,
    /// Where the ground meets what is behind it, as a share of the canvas's height from the top; without ground the
    /// subject only takes on the light.
    pub horizon: Option<f32>,
}

/// The main light of a scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Light {
    /// Where shadows fall: degrees, 0 is right, 90 is towards the viewer (down), 270 is away from the viewer.
    pub shadow_angle: f32,
    /// Length of a shadow, as a share of the subject's height: 0 under a light from straight above.
    pub shadow_length: f32,
    /// How soft shadows are: 0 (a spot, the sun) to 1 (an overcast sky).
    pub softness: f32,
    /// Coverage of the shadow where it is full, 0 to 1.
    pub strength: f32,
    /// Colour of the light: factors for linear red, green and blue, 1 each under neutral light.
    pub tint: [f32; 3],
}

/// A line around the subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outline {
    /// Its colour; alpha is not looked at.
    pub color: Color,
    /// In pixels, times [`Layout::scale`](super::Layout::scale); more than 0.
    pub width: f32,
}

/// How much brightness and saturation are lifted, 0 to 0.5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Enhance(pub f32);

/// A mark in the lower right corner.
#[derive(Clone, Debug, PartialEq)]
pub struct Watermark {
    /// What is drawn.
    pub mark: Mark,
    /// 0 to 1.
    pub opacity: f32,
}

/// What a watermark shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A picture, which comes as [`Materials::mark`](super::Materials::mark).
    Picture,
    /// A line of text.
    Text(String),
}
