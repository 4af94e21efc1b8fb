//! Probes the headers of the input files against their limits; their pixels are decoded from the result.

use super::error::PipelineError;
use super::files::{AuxImage, Files};
use crate::codec::{self, DecodeError, Header, Limits};
use crate::compose::Materials;
use crate::image::{BufferPool, Frame, Size};
use bytes::Bytes;

/// The files of a job, all of them within their limits before the first is decoded.
pub(super) struct Probed {
    source: ProbedFile,
    background: Option<ProbedFile>,
    mark: Option<ProbedFile>,
    mask: Option<ProbedFile>,
}

/// The pixels of the files of a job.
pub(super) struct DecodedFiles {
    pub(super) source: Frame,
    pub(super) materials: Materials,
    pub(super) mask: Option<Frame>,
}

impl Probed {
    /// The background has limits of its own.
    pub(super) fn of(files: Files, limits: &Limits, background_limits: &Limits) -> Result<Self, PipelineError> {
        let aux = |which, bytes: Option<Bytes>, limits| {
            let probed = bytes.map(|bytes| ProbedFile::of(bytes, limits)).transpose();
            probed.map_err(|error| PipelineError::AuxImage { which, error })
        };
        Ok(Self {
            source: ProbedFile::of(files.source, limits)?,
            background: aux(AuxImage::Background, files.background, background_limits)?,
            mark: aux(AuxImage::Mark, files.mark, limits)?,
            mask: aux(AuxImage::Mask, files.mask, limits)?,
        })
    }

    /// Size of the source.
    pub(super) const fn size(&self) -> Size {
        self.source.header.size
    }

    /// Size of the caller's mask.
    pub(super) fn mask_size(&self) -> Option<Size> {
        self.mask.as_ref().map(|mask| mask.header.size)
    }

    /// Pixels of all decoded pictures.
    pub(super) fn pixels(&self) -> usize {
        let area = |file: &Option<ProbedFile>| file.as_ref().map_or(0, |file| file.header.size.area());
        self.size().area() + area(&self.background) + area(&self.mark) + area(&self.mask)
    }

    /// The pixels of all files.
    pub(super) fn decoded(self, buffers: &BufferPool) -> Result<DecodedFiles, PipelineError> {
        let aux = |which, file: Option<ProbedFile>| {
            let decoded = file.map(|file| file.decoded(buffers)).transpose();
            decoded.map_err(|error| PipelineError::AuxImage { which, error })
        };
        let background = aux(AuxImage::Background, self.background)?;
        let mark = aux(AuxImage::Mark, self.mark)?;
        let mask = aux(AuxImage::Mask, self.mask)?;
        let source = self.source.decoded(buffers)?;
        Ok(DecodedFiles { source, materials: Materials { background, plate: None, mark }, mask })
    }
}

/// A file whose header is within its limits.
struct ProbedFile {
    bytes: Bytes,
    header: Header,
}

impl ProbedFile {
    fn of(bytes: Bytes, limits: &Limits) -> Result<Self, DecodeError> {
        let header = codec::probe(&bytes, limits)?;
        Ok(Self { bytes, header })
    }

    fn decoded(self, buffers: &BufferPool) -> Result<Frame, DecodeError> {
        let Self { bytes, header } = self;
        let frame = codec::decode(&bytes, &header, buffers)?;
        if frame.size() == header.size {
            Ok(frame)
        } else {
            Err(DecodeError::Corrupt(format!("the header says {}, the pixels {}", header.size, frame.size())))
        }
    }
}
