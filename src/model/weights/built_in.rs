//! The weights files embedded in the binary.

use crate::model::Factor;

/// An embedded weights file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// Segmentation.
    Fgnet,
    /// Segmentation by a mask so far and marks.
    Guided,
    /// Upscaling by this factor.
    Upscale(Factor),
    /// Face restoration.
    Restore,
    /// Face detection.
    Face,
    /// Classification of the subject's outline by features of the embedded segmentation network.
    Edge,
}

impl BuiltIn {
    /// All files, in the order of the manifest.
    pub const ALL: [Self; 7] = [
        Self::Fgnet,
        Self::Guided,
        Self::Upscale(Factor::Two),
        Self::Upscale(Factor::Four),
        Self::Restore,
        Self::Face,
        Self::Edge,
    ];

    /// File name in `weights/`.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Fgnet => "fgnet-384.safetensors",
            Self::Guided => "guided-384.safetensors",
            Self::Upscale(Factor::Two) => "upscale-2.safetensors",
            Self::Upscale(Factor::Four) => "upscale-4.safetensors",
            Self::Restore => "restore-256.safetensors",
            Self::Face => "face-320.safetensors",
            Self::Edge => "edge-352.safetensors",
        }
    }

    /// Content of the file.
    #[must_use]
    pub const fn bytes(self) -> &'static [u8] {
        match self {
            Self::Fgnet => FGNET,
            Self::Guided => GUIDED,
            Self::Upscale(Factor::Two) => UPSCALE_2,
            Self::Upscale(Factor::Four) => UPSCALE_4,
            Self::Restore => RESTORE,
            Self::Face => FACE,
            Self::Edge => EDGE,
        }
    }
}

// Not constants, of which each unit of code that reads one would have a copy.
static FGNET: &[u8] = include_bytes!("../../../weights/fgnet-384.safetensors");
static GUIDED: &[u8] = include_bytes!("../../../weights/guided-384.safetensors");
static UPSCALE_2: &[u8] = include_bytes!("../../../weights/upscale-2.safetensors");
static UPSCALE_4: &[u8] = include_bytes!("../../../weights/upscale-4.safetensors");
static RESTORE: &[u8] = include_bytes!("../../../weights/restore-256.safetensors");
static FACE: &[u8] = include_bytes!("../../../weights/face-320.safetensors");
static EDGE: &[u8] = include_bytes!("../../../weights/edge-352.safetensors");
