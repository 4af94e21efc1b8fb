//! Probes the headers of the input files against their limits, and decodes the files to pixels.
//!
//! Waits for decode workers, which are processes, happen on threads that CPU work does not need.

use super::call::Call;
use super::error::PipelineError;
use super::files::{AuxImage, Files};
use super::per_file::PerFile;
use super::warning::Warning;
use super::workers::{Workers, timed};
use crate::codec::{self, DecodeError, Header, Limits};
use crate::engine::{Engine, EngineError, Tenant};
use crate::image::{BufferPool, Frame, Size};
use bytes::Bytes;
use std::time::Duration;
use tokio::time::timeout_at;

/// The header of a file, checked against the limits of `call`, by its deadline.
///
/// # Errors
/// [`PipelineError::Decode`], [`PipelineError::Engine`].
pub async fn header_of(
    engine: &Engine,
    bytes: Bytes,
    Call { tenant, deadline, limits, .. }: Call,
) -> Result<Header, PipelineError> {
    let waits = codec::waits_for_worker(&bytes);
    let probed = probing(engine, tenant, waits, move || codec::probe(&bytes, &limits));
    Ok(timeout_at(deadline.into(), probed).await.unwrap_or(Err(EngineError::DeadlineExceeded))??)
}

/// Runs `probe` on a CPU worker for `tenant`; with `waits` it waits for a free decoder.
async fn probing<T: Send + 'static>(
    engine: &Engine,
    tenant: Tenant,
    waits: bool,
    probe: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EngineError> {
    if waits { engine.wait_for_decoder(tenant, probe).await } else { engine.cpu(tenant, probe).await }
}

/// The files of a run, all within their limits before the first is decoded.
pub(super) struct Probed(PerFile<ProbedFile>);

impl Probed {
    /// Probes all files; the background has separate limits. Adds the time of the work to `took`.
    pub(super) async fn of(
        files: Files,
        background_limits: Limits,
        engine: &Engine,
        call: &Call,
        took: &mut Duration,
    ) -> Result<Self, PipelineError> {
        let files = PerFile::from(files);
        let waits = files.iter().any(|bytes| codec::waits_for_worker(bytes));
        let limits = call.limits;
        let probe = move || {
            files.try_map(|which, bytes| {
                let limits = if which == Some(AuxImage::Background) { &background_limits } else { &limits };
                let applies_profile = which != Some(AuxImage::Mask);
                let header = Header { applies_profile, ..codec::probe(&bytes, limits)? };
                Ok(ProbedFile::Encoded { bytes, header })
            })
        };
        let (probed, probing) = probing(engine, call.tenant, waits, timed("probe", probe)).await?;
        *took += probing;
        Ok(Self(probed?))
    }

    pub(super) const fn flaw(&self) -> Option<Warning> {
        match &self.0.source {
            ProbedFile::Encoded { header: Header { flaw: Some(flaw), .. }, .. } => Some(Warning::Flawed(*flaw)),
            ProbedFile::Encoded { .. } | ProbedFile::Decoded(_) => None,
        }
    }

    pub(super) const fn size(&self) -> Size {
        self.0.source.size()
    }

    pub(super) fn background_size(&self) -> Option<Size> {
        self.0.background.as_ref().map(ProbedFile::size)
    }

    pub(super) fn mask_size(&self) -> Option<Size> {
        self.0.mask.as_ref().map(ProbedFile::size)
    }

    pub(super) fn pixels(&self) -> usize {
        self.0.iter().map(|file| file.size().area()).sum()
    }

    /// Decodes the files whose format decode workers decode. Adds the time of the work to `took`.
    pub(super) async fn received(self, workers: &Workers<'_>, took: &mut Duration) -> Result<Self, PipelineError> {
        if !self.0.iter().any(ProbedFile::waits_for_worker) {
            return Ok(self);
        }
        let buffers = workers.engine.buffers().clone();
        let receive = move || {
            self.0.try_map(|_, file| {
                Ok(if file.waits_for_worker() { ProbedFile::Decoded(file.decoded(&buffers)?) } else { file })
            })
        };
        Ok(Self(workers.timed_wait("decode", took, receive).await??))
    }

    pub(super) fn decoded(self, buffers: &BufferPool) -> Result<PerFile<Frame>, PipelineError> {
        self.0.try_map(|_, file| file.decoded(buffers))
    }
}

/// The checked header of a file, or its pixels.
enum ProbedFile {
    Encoded { bytes: Bytes, header: Header },
    Decoded(Frame),
}

impl ProbedFile {
    const fn size(&self) -> Size {
        match self {
            Self::Encoded { header, .. } => header.size,
            Self::Decoded(frame) => frame.size(),
        }
    }

    fn waits_for_worker(&self) -> bool {
        matches!(self, Self::Encoded { bytes, .. } if codec::waits_for_worker(bytes))
    }

    fn decoded(self, buffers: &BufferPool) -> Result<Frame, DecodeError> {
        match self {
            Self::Encoded { bytes, header } => codec::decode(&bytes, &header, buffers),
            Self::Decoded(frame) => Ok(frame),
        }
    }
}
