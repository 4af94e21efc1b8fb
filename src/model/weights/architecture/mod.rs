//! The architectures of the networks, and the tensors that a weights file of each must hold.
//!
//! Every batch normalisation is folded into the convolution before it, so a layer is a weight and a bias.

pub mod edge;
pub mod face;
pub mod fgnet;
pub mod restore;
pub mod upscale;

use std::collections::HashMap;
use std::fmt;

use super::error::WeightsError;
use crate::model::Factor;

/// The architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Segmentation: [`fgnet`].
    Fgnet,
    /// Segmentation by a mask so far and marks: [`fgnet`] with the layers of [`guide`](fgnet::guide).
    Guided,
    /// Upscaling: [`upscale`].
    Upscale,
    /// Face restoration: [`restore`].
    Restore,
    /// Face detection: [`face`].
    Face,
    /// Classification of the subject's outline: [`edge`].
    Edge,
}

impl Architecture {
    /// All architectures.
    pub const ALL: [Self; 6] = [Self::Fgnet, Self::Guided, Self::Upscale, Self::Restore, Self::Face, Self::Edge];

    /// Name, as stated in weights files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fgnet => "fgnet",
            Self::Guided => "guided",
            Self::Upscale => "upscale",
            Self::Restore => "restore",
            Self::Face => "face",
            Self::Edge => "edge",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A network, with the metadata specific to its weights files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Network {
    /// [`Architecture::Fgnet`].
    Fgnet {
        /// Side of the square input in training: a multiple of 32 in 64..=2048.
        input_side: usize,
    },
    /// [`Architecture::Guided`].
    Guided {
        /// Side of the square input in training, as for [`Network::Fgnet`].
        input_side: usize,
    },
    /// [`Architecture::Upscale`].
    Upscale {
        /// The factor of the enlargement.
        factor: Factor,
    },
    /// [`Architecture::Restore`].
    Restore,
    /// [`Architecture::Face`].
    Face {
        /// Minimum score of a face, between 0 and 1.
        threshold: f32,
    },
    /// [`Architecture::Edge`].
    Edge,
}

/// Metadata fields of single networks.
const INPUT_SIDE: &str = "input_side";
const FACTOR: &str = "factor";
const THRESHOLD: &str = "threshold";

impl Network {
    /// The network's architecture.
    #[must_use]
    pub const fn architecture(self) -> Architecture {
        match self {
            Self::Fgnet { .. } => Architecture::Fgnet,
            Self::Guided { .. } => Architecture::Guided,
            Self::Upscale { .. } => Architecture::Upscale,
            Self::Restore => Architecture::Restore,
            Self::Face { .. } => Architecture::Face,
            Self::Edge => Architecture::Edge,
        }
    }

    /// Reads the metadata of a weights file.
    pub(super) fn from_metadata(metadata: &HashMap<String, String>) -> Result<Self, WeightsError> {
        let field = |name: &'static str| metadata.get(name).ok_or(WeightsError::Metadata(name));
        let found = field("architecture")?;
        let Some(architecture) = Architecture::ALL.into_iter().find(|one| one.name() == found) else {
            let expected = Architecture::ALL.map(Architecture::name).join("`, `");
            return Err(WeightsError::Architecture { found: found.clone(), expected });
        };
        let input_side = || {
            let side = field(INPUT_SIDE)?.parse().ok().filter(|side| fgnet::is_input_side(*side));
            side.ok_or(WeightsError::Metadata(INPUT_SIDE))
        };
        Ok(match architecture {
            Architecture::Fgnet => Self::Fgnet { input_side: input_side()? },
            Architecture::Guided => Self::Guided { input_side: input_side()? },
            Architecture::Upscale => {
                let factor = field(FACTOR)?;
                let known = Factor::ALL.into_iter().find(|one| one.get().to_string() == *factor);
                Self::Upscale { factor: known.ok_or(WeightsError::Metadata(FACTOR))? }
            }
            Architecture::Restore => Self::Restore,
            Architecture::Face => {
                let threshold = field(THRESHOLD)?.parse().ok().filter(|score| *score > 0.0 && *score < 1.0);
                Self::Face { threshold: threshold.ok_or(WeightsError::Metadata(THRESHOLD))? }
            }
            Architecture::Edge => Self::Edge,
        })
    }

    /// The metadata field specific to this network, with its value.
    #[must_use]
    pub fn own_field(self) -> Option<(&'static str, String)> {
        match self {
            Self::Fgnet { input_side } | Self::Guided { input_side } => Some((INPUT_SIDE, input_side.to_string())),
            Self::Upscale { factor } => Some((FACTOR, factor.get().to_string())),
            Self::Restore | Self::Edge => None,
            Self::Face { threshold } => Some((THRESHOLD, threshold.to_string())),
        }
    }

    /// Every convolution, in the order data flows through them.
    #[must_use]
    pub fn convolutions(self) -> Vec<Convolution> {
        match self {
            Self::Fgnet { .. } => fgnet::convolutions(),
            Self::Guided { .. } => [fgnet::convolutions(), fgnet::guide()].concat(),
            Self::Upscale { factor } => upscale::convolutions(factor),
            Self::Restore => restore::convolutions(),
            Self::Face { .. } => face::convolutions(),
            Self::Edge => edge::convolutions(),
        }
    }

    /// Every tensor, in the order data flows through the network.
    #[must_use]
    pub fn tensors(self) -> Vec<Expected> {
        self.convolutions()
            .into_iter()
            .flat_map(|Convolution { name, shape }| {
                [
                    Expected { name: format!("{name}.weight"), shape: shape.to_vec() },
                    Expected { name: format!("{name}.bias"), shape: vec![shape[0]] },
                ]
            })
            .collect()
    }
}

/// One tensor that a weights file must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Name, as in the PyTorch module.
    pub name: String,
    /// Extents: `[out, in, rows, columns]` for a weight, `[out]` for a bias.
    pub shape: Vec<usize>,
}

/// A convolution of a network: `name.weight` and `name.bias`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// The module's path, without `.weight`.
    pub name: String,
    /// `[out, in, rows, columns]`; `in` is 1 for a depthwise convolution.
    pub shape: [usize; 4],
}

impl Convolution {
    /// A kernel of `size`×`size`; `channels_in` is 1 for a depthwise convolution.
    #[must_use]
    pub fn new(name: impl Into<String>, channels_in: usize, channels_out: usize, size: usize) -> Self {
        Self { name: name.into(), shape: [channels_out, channels_in, size, size] }
    }

    /// The module that held convolution and batch normalisation in training; `None` without normalisation.
    #[must_use]
    pub fn normalised(&self) -> Option<&str> {
        self.name.strip_suffix(".conv")
    }
}

/// One inverted residual, as in MobileNetV2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Channels of the input.
    pub channels_in: usize,
    /// Channels of the depthwise convolution.
    pub hidden: usize,
    /// Channels of the result.
    pub channels_out: usize,
    /// Side of the depthwise convolution's kernel: 3 or 5.
    pub size: usize,
    /// Stride of the depthwise convolution.
    pub stride: usize,
}

impl Block {
    /// Whether a 1×1 convolution expands the input first.
    #[must_use]
    pub const fn expands(self) -> bool {
        self.hidden != self.channels_in
    }

    /// Whether the input is added to the result.
    #[must_use]
    pub const fn is_residual(self) -> bool {
        self.stride == 1 && self.channels_in == self.channels_out
    }
}
