//! The input files of a run: the source, and the background, watermark and mask that its recipe may need.

use crate::codec::EncodeOptions;
use crate::compose::Scene;
use crate::recipe::RequiredInputs;
use bytes::Bytes;
use std::fmt;
use std::time::Duration;

/// The input files of one job.
#[derive(Clone, Debug)]
pub struct Files {
    /// The picture with the subject.
    pub source: Bytes,
    /// The new background, where the recipe needs one. A backdrop from a prompt is rendered here if it is missing.
    pub background: Option<Bytes>,
    /// The watermark, where the recipe needs one.
    pub mark: Option<Bytes>,
    /// The caller's mask, where the recipe needs one.
    pub mask: Option<Bytes>,
    /// How long it took to fetch those that had to be.
    pub fetch: Duration,
}

impl From<Bytes> for Files {
    /// A source alone.
    fn from(source: Bytes) -> Self {
        Self { source, background: None, mark: None, mask: None, fetch: Duration::ZERO }
    }
}

/// The input pictures besides the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuxImage {
    /// The new background.
    Background,
    /// The watermark.
    Mark,
    /// The caller's mask.
    Mask,
}

impl fmt::Display for AuxImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Background => "the background",
            Self::Mark => "the watermark",
            Self::Mask => "the mask",
        })
    }
}

/// What every kind of work needs: the files, and the recipe without its work.
pub(super) struct Job {
    pub(super) files: Files,
    pub(super) scene: Scene,
    pub(super) encode: EncodeOptions,
    pub(super) inputs: RequiredInputs,
}
