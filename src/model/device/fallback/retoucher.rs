//! The auxiliary networks on the GPU, or on the CPU until failed ones pass their self-tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::active_device::{ActiveDevice, report_failure};
use super::failures::Failures;
use super::gpu::Gpu;
use super::next_trial::NextTrial;
use crate::image::{Face, Frame};
use crate::model::{CpuRetoucher, Enlargement, FaceCrop, FaceSearch, Retoucher, SegmentError};

impl ActiveDevice {
    /// The auxiliary networks.
    #[must_use]
    pub fn retoucher(&self) -> Arc<dyn Retoucher> {
        match &self.0.gpu {
            None => Arc::new(CpuRetoucher::default()),
            Some(gpu) => Arc::new(ActiveRetoucher::new(self, &**gpu)),
        }
    }
}

/// The auxiliary networks on the GPU, and on the CPU after a fallback.
#[derive(Debug)]
pub(super) struct ActiveRetoucher {
    device: ActiveDevice,
    gpu: Mutex<GpuNetworks>,
    cpu: CpuRetoucher,
}

#[derive(Debug)]
pub(super) struct GpuNetworks {
    networks: Arc<dyn Retoucher>,
    /// [`ActiveDevice::recoveries`] at creation.
    recoveries: u64,
    /// Consecutive failures of all auxiliary networks.
    failures: Failures,
    /// Whether one of the networks became unusable.
    failed: bool,
    /// When failed networks are loaded and tested again.
    pub(super) next_trial: NextTrial,
}

impl GpuNetworks {
    fn new(gpu: &dyn Gpu, recoveries: u64) -> Self {
        let (networks, next_trial) = (gpu.retoucher(), NextTrial::after(gpu.retry_after()));
        Self { networks, recoveries, failures: Failures::default(), failed: false, next_trial }
    }

    /// Whether these are `networks`, without an unusable one.
    fn are_in_use(&self, networks: &Arc<dyn Retoucher>) -> bool {
        Arc::ptr_eq(&self.networks, networks) && !self.failed
    }
}

impl ActiveRetoucher {
    pub(super) fn new(device: &ActiveDevice, gpu: &dyn Gpu) -> Self {
        let networks = GpuNetworks::new(gpu, device.recoveries());
        Self { device: device.clone(), gpu: Mutex::new(networks), cpu: CpuRetoucher::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, GpuNetworks> {
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The networks on the GPU; `None` while the CPU replaces it.
    fn on_gpu(&self) -> Option<Arc<dyn Retoucher>> {
        let gpu = self.device.gpu()?;
        let mut state = self.state();
        let recoveries = self.device.recoveries();
        if state.recoveries != recoveries {
            *state = GpuNetworks::new(&**gpu, recoveries);
        } else if state.failed {
            if state.next_trial.left().is_zero() {
                // Without fallback, requests fail until the trial.
                state.next_trial.postpone(if self.device.0.falls_back { 2 } else { 1 });
                let next_trial = state.next_trial;
                *state = GpuNetworks { next_trial, ..GpuNetworks::new(&**gpu, recoveries) };
            } else if self.device.0.falls_back {
                return None;
            }
        }
        Some(Arc::clone(&state.networks))
    }

    /// Counts the `outcome` of `networks` under fallback. A success after the wait resets the wait; a success during
    /// the wait may be another network's than the failed one's.
    fn counted<T>(&self, networks: &Arc<dyn Retoucher>, outcome: Result<T, SegmentError>) -> Result<T, SegmentError> {
        let mut state = self.state();
        if !self.device.0.falls_back || !state.are_in_use(networks) {
            return outcome;
        }
        if outcome.is_ok() && state.next_trial.left().is_zero() {
            state.next_trial.reset();
        }
        state.failures.counted(outcome)
    }

    /// Marks `networks` as failed. Returns whether they were in use.
    fn mark_failed(&self, networks: &Arc<dyn Retoucher>) -> bool {
        let mut state = self.state();
        let were_in_use = state.are_in_use(networks);
        if were_in_use {
            state.failed = true;
            state.next_trial.postpone(1);
        }
        were_in_use
    }

    fn run<T>(&self, mut work: impl FnMut(&dyn Retoucher) -> Result<T, SegmentError>) -> Result<T, SegmentError> {
        let falls_back = self.device.0.falls_back;
        let Some(networks) = self.on_gpu() else { return work(&self.cpu) };
        match self.counted(&networks, work(&*networks)) {
            Err(SegmentError::Unusable(reason)) => {
                let first = self.mark_failed(&networks);
                if falls_back {
                    if first {
                        tracing::warn!(
                            reason,
                            "the GPU cannot be used for faces and upscaling; these networks run on the CPU until they \
                             are tested again"
                        );
                    }
                    return work(&self.cpu);
                }
                if first {
                    tracing::error!(
                        reason,
                        "the GPU cannot be used for faces and upscaling; requests that need these networks fail until they \
                         are tested again"
                    );
                }
                Err(SegmentError::Unusable(reason))
            }
            Err(SegmentError::Device(reason)) if falls_back => {
                report_failure(&reason);
                work(&self.cpu)
            }
            done => done,
        }
    }
}

impl Retoucher for ActiveRetoucher {
    fn faces(&self, frame: &Frame, search: FaceSearch) -> Result<Vec<Face>, SegmentError> {
        self.run(|retoucher| retoucher.faces(frame, search))
    }

    fn restoration(&self, face: &FaceCrop) -> Result<FaceCrop, SegmentError> {
        self.run(|retoucher| retoucher.restoration(face))
    }

    fn enlarge_band(&self, picture: &mut Enlargement) -> Result<(), SegmentError> {
        if picture.has_failed() {
            return self.cpu.enlarge_band(picture);
        }
        self.run(|retoucher| {
            let done = retoucher.enlarge_band(picture);
            if done.is_err() {
                picture.set_failed();
            }
            done
        })
    }
}
