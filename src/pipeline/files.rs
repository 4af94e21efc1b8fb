//! The input files of a run: the source, and the background, watermark and mask that the recipe may need.

use crate::codec::EncodeOptions;
use crate::compose::Scene;
use crate::recipe::RequiredInputs;
use bytes::Bytes;
use std::fmt;
use std::time::Duration;

/// The input files of one run.
#[derive(Clone, Debug)]
pub struct Files {
    /// The picture with the subject.
    pub source: Bytes,
    /// The new background, if the recipe needs one. A missing backdrop from a prompt is rendered by the pipeline.
    pub background: Option<Bytes>,
    /// The watermark, if the recipe needs one.
    pub mark: Option<Bytes>,
    /// The caller's mask, if the recipe needs one.
    pub mask: Option<Bytes>,
    /// Time of fetching files from URLs.
    pub fetch: Duration,
}

impl From<Bytes> for Files {
    /// A source alone.
    fn from(source: Bytes) -> Self {
        Self { source, background: None, mark: None, mask: None, fetch: Duration::ZERO }
    }
}

/// The input pictures other than the source.
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

/// Input of every kind of work: the files, and the recipe without its work.
pub(super) struct Job {
    pub(super) files: Files,
    pub(super) scene: Scene,
    pub(super) encode: EncodeOptions,
    pub(super) inputs: RequiredInputs,
}
