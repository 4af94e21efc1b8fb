//! The auxiliary networks on the GPU, or on the CPU until those that failed pass their self-tests.

use std::sync::{Arc, Mutex, PoisonError};

use super::active_device::{ActiveDevice, report_failure};
use super::next_trial::NextTrial;
use crate::image::{Face, Frame};
use crate::model::{CpuRetoucher, Enlargement, FaceCrop, FaceSearch, Retoucher, SegmentError};

impl ActiveDevice {
    /// The auxiliary networks.
    #[must_use]
    pub fn retoucher(&self) -> Arc<dyn Retoucher> {
        match self.gpu() {
            None => Arc::new(CpuRetoucher::default()),
            Some(gpu) => Arc::new(ActiveRetoucher {
                device: self.clone(),
                gpu: Mutex::new(GpuNetworks {
                    networks: gpu.retoucher(),
                    failed: false,
                    next_trial: NextTrial::after(gpu.retry_after()),
                }),
                cpu: CpuRetoucher::default(),
            }),
        }
    }
}

/// The auxiliary networks on the GPU, and on the CPU after a fallback.
#[derive(Debug)]
struct ActiveRetoucher {
    device: ActiveDevice,
    gpu: Mutex<GpuNetworks>,
    cpu: CpuRetoucher,
}

/// The auxiliary networks on the GPU.
#[derive(Debug)]
struct GpuNetworks {
    networks: Arc<dyn Retoucher>,
    /// Whether one of them could not be used.
    failed: bool,
    /// When they are loaded and tested again after that.
    next_trial: NextTrial,
}

impl ActiveRetoucher {
    /// The networks on the GPU, unless the CPU stands in.
    fn on_gpu(&self) -> Option<Arc<dyn Retoucher>> {
        let gpu = self.device.gpu()?;
        let mut state = self.gpu.lock().unwrap_or_else(PoisonError::into_inner);
        if self.device.0.falls_back && state.failed {
            if !state.next_trial.left().is_zero() {
                return None;
            }
            (state.networks, state.failed) = (gpu.retoucher(), false);
            state.next_trial.postpone(2);
        }
        Some(Arc::clone(&state.networks))
    }

    /// Notes that a network cannot be used on the GPU; whether that is news.
    fn give_up(&self) -> bool {
        let mut state = self.gpu.lock().unwrap_or_else(PoisonError::into_inner);
        state.next_trial.postpone(1);
        !std::mem::replace(&mut state.failed, true)
    }

    fn run<T>(&self, mut work: impl FnMut(&dyn Retoucher) -> Result<T, SegmentError>) -> Result<T, SegmentError> {
        let falls_back = self.device.0.falls_back;
        let Some(networks) = self.on_gpu() else { return work(&self.cpu) };
        match work(&*networks) {
            Err(SegmentError::Unusable(reason)) => {
                let first = self.give_up();
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
                    tracing::error!(reason, "requests that need this network fail until another device is configured");
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
