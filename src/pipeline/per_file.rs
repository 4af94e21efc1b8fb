//! A value for each input file of a run, and conversions whose errors name the file.

use super::error::PipelineError;
use super::files::{AuxImage, Files};
use crate::codec::DecodeError;
use bytes::Bytes;

pub(super) struct PerFile<T> {
    pub(super) source: T,
    pub(super) background: Option<T>,
    pub(super) mark: Option<T>,
    pub(super) mask: Option<T>,
}

impl From<Files> for PerFile<Bytes> {
    fn from(Files { source, background, mark, mask, fetch: _ }: Files) -> Self {
        Self { source, background, mark, mask }
    }
}

impl<T> PerFile<T> {
    /// The values that exist, the source's first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        [Some(&self.source), self.background.as_ref(), self.mark.as_ref(), self.mask.as_ref()].into_iter().flatten()
    }

    /// Converts each value, the source's first; `convert` gets `None` for the source.
    ///
    /// # Errors
    /// The first error, with the picture's name.
    pub(super) fn try_map<U>(
        self,
        convert: impl Fn(Option<AuxImage>, T) -> Result<U, DecodeError>,
    ) -> Result<PerFile<U>, PipelineError> {
        let aux = |which, file: Option<T>| {
            let converted = file.map(|file| convert(Some(which), file)).transpose();
            converted.map_err(|error| PipelineError::AuxImage { which, error })
        };
        Ok(PerFile {
            source: convert(None, self.source)?,
            background: aux(AuxImage::Background, self.background)?,
            mark: aux(AuxImage::Mark, self.mark)?,
            mask: aux(AuxImage::Mask, self.mask)?,
        })
    }
}
