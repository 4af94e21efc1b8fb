//! Conventions of published segmentation networks for pictures and masks, from their authors' programs.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Mean and deviation of ImageNet's samples, with which most encoders were trained.
const IMAGENET: ([f32; 3], [f32; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
const HALF: ([f32; 3], [f32; 3]) = ([0.5; 3], [1.0; 3]);
const PLAIN: ([f32; 3], [f32; 3]) = ([0.0; 3], [1.0; 3]);
/// Minimum file size of RMBG 2.0; files of 1.4 are smaller.
const RMBG_2_BYTES: u64 = 200_000_000;

/// A family of networks whose files have the same conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelType {
    /// U²-Net, U²-Netp, its human variant, and silueta (Qin et al., 2020).
    U2net,
    /// IS-Net (Qin et al., 2022).
    Isnet,
    /// IS-Net trained on drawings.
    IsnetAnime,
    /// BiRefNet (Zheng et al., 2024), all variants.
    Birefnet,
    /// RMBG 1.4 and 2.0 of BRIA.
    Rmbg,
    /// BEN2 (PramaLLC, 2025).
    Ben2,
    /// MODNet (Ke et al., 2022).
    Modnet,
    /// The open weights of withoutbg.
    Withoutbg,
    /// Any other network, with every convention given.
    Custom,
}

impl ModelType {
    /// All types.
    pub const ALL: [Self; 9] = [
        Self::U2net,
        Self::Isnet,
        Self::IsnetAnime,
        Self::Birefnet,
        Self::Rmbg,
        Self::Ben2,
        Self::Modnet,
        Self::Withoutbg,
        Self::Custom,
    ];

    /// Name in `--type` and in `model.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U2net => "u2net",
            Self::Isnet => "isnet",
            Self::IsnetAnime => "isnet-anime",
            Self::Birefnet => "birefnet",
            Self::Rmbg => "rmbg",
            Self::Ben2 => "ben2",
            Self::Modnet => "modnet",
            Self::Withoutbg => "withoutbg",
            Self::Custom => "custom",
        }
    }

    /// The usual type of files with this name.
    #[must_use]
    pub fn of_file(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let known = [
            ("isnet-anime", Self::IsnetAnime),
            ("isnet", Self::Isnet),
            ("u2net", Self::U2net),
            ("silueta", Self::U2net),
            ("birefnet", Self::Birefnet),
            ("rmbg", Self::Rmbg),
            ("ben2", Self::Ben2),
            ("modnet", Self::Modnet),
            ("withoutbg", Self::Withoutbg),
        ];
        known.into_iter().find(|(part, _)| name.contains(part)).map(|(_, kind)| kind)
    }

    /// The conventions of the type's files, for a file of `bytes`; `None` for [`Self::Custom`].
    #[must_use]
    pub fn conventions(self, bytes: u64) -> Option<Conventions> {
        let of = |size, fit, (mean, deviation), result| Conventions {
            size,
            fit,
            range: Range::Fixed(255.0),
            mean,
            deviation,
            order: Order::Rgb,
            input: None,
            output: Output::First,
            activation: Activation::None,
            result,
        };
        Some(match self {
            Self::U2net => Conventions { range: Range::Maximum, ..of(320, Fit::Stretch, IMAGENET, ResultKind::Mask) },
            Self::Isnet => of(1024, Fit::Stretch, HALF, ResultKind::Mask),
            Self::IsnetAnime => of(1024, Fit::Letterbox, PLAIN, ResultKind::Mask),
            Self::Birefnet => Conventions {
                output: Output::Last,
                activation: Activation::Sigmoid,
                ..of(1024, Fit::Stretch, IMAGENET, ResultKind::Mask)
            },
            Self::Rmbg if bytes < RMBG_2_BYTES => of(1024, Fit::Stretch, HALF, ResultKind::Mask),
            Self::Rmbg => of(1024, Fit::Stretch, IMAGENET, ResultKind::Mask),
            Self::Ben2 => of(1024, Fit::Stretch, PLAIN, ResultKind::Mask),
            Self::Modnet => of(512, Fit::ShorterSide, ([0.5; 3], [0.5; 3]), ResultKind::Matte),
            Self::Withoutbg => Conventions {
                output: Output::Named("alpha".to_owned()),
                ..of(1024, Fit::LetterboxTopLeft, PLAIN, ResultKind::Matte)
            },
            Self::Custom => return None,
        })
    }

    /// Licence of the published weights, and whether it allows commercial use; `None` if disputed or unknown.
    #[must_use]
    pub const fn licence(self, bytes: u64) -> (&'static str, Option<bool>) {
        match self {
            Self::U2net => ("Apache-2.0 (silueta: unknown)", Some(true)),
            Self::Isnet => ("Apache-2.0; trained on DIS5K, whose terms are for research", None),
            Self::IsnetAnime => ("Apache-2.0", Some(true)),
            Self::Birefnet => ("MIT; rights in its training data are disputed", None),
            Self::Rmbg if bytes < RMBG_2_BYTES => ("BRIA RMBG-1.4, for non-commercial use", Some(false)),
            Self::Rmbg => ("CC-BY-NC-4.0", Some(false)),
            Self::Ben2 => ("MIT", Some(true)),
            Self::Modnet => ("Apache-2.0", Some(true)),
            Self::Withoutbg => ("Apache-2.0 and DINOv3's licence", None),
            Self::Custom => ("unknown", None),
        }
    }
}

impl fmt::Display for ModelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ModelType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || format!("expected {}", Self::ALL.map(Self::name).join(", "));
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(known)
    }
}

/// The input that a network expects, and the result that it returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conventions {
    /// Side of the square input in pixels; with [`Fit::ShorterSide`], of the shorter side. A graph with a fixed size overrides it.
    pub size: u32,
    /// How a picture is fitted to the input.
    pub fit: Fit,
    /// Divisor of the samples.
    pub range: Range,
    /// Subtracted from each channel after the division.
    pub mean: [f32; 3],
    /// Divisor of each channel after the subtraction.
    pub deviation: [f32; 3],
    /// The order of the channels.
    #[serde(default)]
    pub order: Order,
    /// Name of the input; by default the graph's only input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The output that is the mask.
    #[serde(default)]
    pub output: Output,
    /// Conversion of the output's values to probabilities.
    #[serde(default)]
    pub activation: Activation,
    /// Meaning of the values.
    #[serde(default)]
    pub result: ResultKind,
}

/// How a picture is fitted to the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// Both sides become the side of the square.
    Stretch,
    /// The longer side becomes the side of the square; black on both sides of the shorter one.
    Letterbox,
    /// As [`Fit::Letterbox`], with the picture at the top left corner.
    LetterboxTopLeft,
    /// The shorter side becomes the size, the longer one in proportion; both rounded to multiples of 32.
    ShorterSide,
}

/// Divisor of samples of 0 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Range {
    /// A number, such as 255.
    Fixed(f32),
    /// The largest sample of the picture: `maximum`.
    #[serde(with = "maximum")]
    Maximum,
}

mod maximum {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str("maximum")
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
        let text = String::deserialize(from)?;
        if text == "maximum" { Ok(()) } else { Err(D::Error::custom("expected a number, or `maximum`")) }
    }
}

/// The order of the channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Red first.
    #[default]
    Rgb,
    /// Blue first.
    Bgr,
}

/// The output that is the mask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// The first output.
    #[default]
    First,
    /// The last output.
    Last,
    /// The output of this name.
    Named(String),
}

/// Conversion of the output's values to probabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// The values are probabilities.
    #[default]
    None,
    /// The values are logits.
    Sigmoid,
}

/// Meaning of a network's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultKind {
    /// Probability of subject; its edge is matted.
    #[default]
    Mask,
    /// Coverage by the subject; used without matting.
    Matte,
}
