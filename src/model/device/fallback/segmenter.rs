//! The segmentation network on the GPU, or on the CPU until a failed GPU passes its self-test.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use backdrop_kernels::conv::Isa;
use backdrop_kernels::watchdog::Watchdog;

use super::active_device::{ActiveDevice, report_failure};
use super::failures::Failures;
use super::gpu::Gpu;
use crate::image::{Frame, RawMask};
use crate::model::weights::Weights;
use crate::model::{CpuSegmenter, SegmentError, Segmenter};

impl ActiveDevice {
    /// Loads the segmentation network, ready for batches of up to `max_batch`. The CPU needs no warm-up.
    ///
    /// # Errors
    /// [`SegmentError`] when the device cannot be used and does not fall back.
    pub fn segmenter(&self, weights: &Weights, max_batch: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
        match &self.0.gpu {
            None => cpu_segmenter(weights, self.0.isa),
            Some(gpu) if self.0.falls_back => {
                Ok(Box::new(FallbackSegmenter::load(self, Arc::clone(gpu), weights, max_batch)?))
            }
            Some(gpu) => load(gpu, weights, max_batch),
        }
    }
}

fn cpu_segmenter(weights: &Weights, isa: Isa) -> Result<Box<dyn Segmenter>, SegmentError> {
    let segmenter = CpuSegmenter::new(weights, isa);
    Ok(Box::new(segmenter.map_err(|error| SegmentError::Unusable(error.to_string()))?))
}

/// The segmentation network on `gpu`, loaded and tested in bounded time.
fn load(gpu: &Arc<dyn Gpu>, weights: &Weights, max_batch: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
    let (on, weights) = (Arc::clone(gpu), weights.clone());
    let loaded = Watchdog::new(gpu.load_limit()).call(move || on.segmenter(&weights, max_batch));
    loaded.unwrap_or_else(|error| Err(SegmentError::Unusable(format!("{gpu}: loading: {error}"))))
}

/// The segmentation network under `auto`: on the GPU; after its failure on the CPU, until the GPU passes its self-test.
pub(super) struct FallbackSegmenter {
    pub(super) device: ActiveDevice,
    pub(super) gpu: Arc<dyn Gpu>,
    pub(super) weights: Weights,
    pub(super) max_batch: usize,
    pub(super) running: Box<dyn Segmenter>,
    /// Consecutive failures of the GPU.
    pub(super) failures: Failures,
    /// While the CPU is used instead.
    pub(super) retrial: Option<Retrial>,
    /// For batches that fail on a GPU that remains in use.
    pub(super) cpu: Option<Box<dyn Segmenter>>,
}

impl FallbackSegmenter {
    fn load(
        device: &ActiveDevice,
        gpu: Arc<dyn Gpu>,
        weights: &Weights,
        max_batch: usize,
    ) -> Result<Self, SegmentError> {
        let loaded = device.gpu().map(|gpu| load(gpu, weights, max_batch));
        let (running, retrial) = match loaded {
            Some(Ok(running)) => (running, None),
            failed => {
                if let Some(Err(error)) = failed {
                    device.fall_back(&error.into_reason(), gpu.retry_after());
                }
                (cpu_segmenter(weights, device.0.isa)?, Some(Retrial::begin(device, &gpu, weights, max_batch)))
            }
        };
        let (device, weights, failures) = (device.clone(), weights.clone(), Failures::default());
        Ok(Self { device, gpu, weights, max_batch, running, failures, retrial, cpu: None })
    }
}

impl Segmenter for FallbackSegmenter {
    fn model(&self) -> &str {
        self.running.model()
    }

    fn device(&self) -> String {
        let device = self.running.device();
        if self.retrial.is_some() { format!("{device}, because {} failed", self.gpu) } else { device }
    }

    fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError> {
        if let Some(recovered) = self.retrial.as_ref().and_then(Retrial::recovered) {
            (self.running, self.retrial) = (recovered, None);
            self.device.recover();
        }
        if self.retrial.is_some() {
            return self.running.segment(frames);
        }
        match self.failures.counted(self.running.segment(frames)) {
            Err(SegmentError::Unusable(reason)) => {
                self.device.fall_back(&reason, self.gpu.retry_after());
                self.running = cpu_segmenter(&self.weights, self.device.0.isa)?;
                self.retrial = Some(Retrial::begin(&self.device, &self.gpu, &self.weights, self.max_batch));
                self.running.segment(frames)
            }
            Err(SegmentError::Device(reason)) => {
                report_failure(&reason);
                let cpu = match self.cpu.take() {
                    Some(cpu) => cpu,
                    None => cpu_segmenter(&self.weights, self.device.0.isa)?,
                };
                self.cpu.insert(cpu).segment(frames)
            }
            Ok(masks) => Ok(masks),
        }
    }

    fn free_idle_memory(&mut self) {
        self.running.free_idle_memory();
    }
}

/// Interval at which a waiting thread reads the time of the next trial.
const POLL: Duration = Duration::from_secs(1);

/// A thread that tests a failed GPU at each [`NextTrial`] until it passes or the waiting segmenter is dropped.
pub(super) struct Retrial {
    device: ActiveDevice,
    recovered: mpsc::Receiver<Box<dyn Segmenter>>,
    /// Dropping it ends the thread.
    _stop: mpsc::Sender<()>,
}

impl Retrial {
    fn begin(device: &ActiveDevice, gpu: &Arc<dyn Gpu>, weights: &Weights, max_batch: usize) -> Self {
        let ((stop, stopped), (found, recovered)) = (mpsc::channel::<()>(), mpsc::channel());
        let (of, gpu, weights) = (device.clone(), Arc::clone(gpu), weights.clone());
        let run = move || {
            // `None` after the trial of another segmenter, dropped meanwhile, has passed.
            let left = || of.until_trial().unwrap_or_default();
            while stopped.recv_timeout(left().min(POLL)) == Err(RecvTimeoutError::Timeout) {
                if !left().is_zero() {
                    continue;
                }
                // A hanging driver keeps the thread of each attempt. Postponed before the attempt, so that a segmenter
                // loaded meanwhile does not start another one.
                of.postpone_trial(2);
                match load(&gpu, &weights, max_batch) {
                    Ok(segmenter) => {
                        // On an error the segmenter was dropped meanwhile; the next one finds a working GPU.
                        if found.send(segmenter).is_err() {
                            of.recover();
                        }
                        return;
                    }
                    // The segmenter was dropped; one that was loaded meanwhile may run on the GPU.
                    Err(_) if stopped.try_recv() == Err(TryRecvError::Disconnected) => return,
                    Err(error) => {
                        let reason = error.into_reason();
                        tracing::debug!(reason, "the GPU still cannot be used");
                        of.fall_back(&reason, gpu.retry_after());
                    }
                }
                of.postpone_trial(1);
            }
        };
        let thread = std::thread::Builder::new().name("gpu-retrial".to_owned()).spawn(run);
        thread.expect("the system has threads left");
        Self { device: device.clone(), recovered, _stop: stop }
    }

    fn recovered(&self) -> Option<Box<dyn Segmenter>> {
        self.recovered.try_recv().ok()
    }
}

impl Drop for Retrial {
    fn drop(&mut self) {
        // The GPU passed without a later batch: the next segmenter is loaded on it.
        if self.recovered().is_some() {
            self.device.recover();
        }
    }
}
