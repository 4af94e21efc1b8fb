//! The device in use: the selected GPU, or the CPU while the GPU has failed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backdrop_kernels::conv::Isa;

use super::gpu::Gpu;
use super::next_trial::NextTrial;
use crate::model::Precision;
use crate::model::device::choice::{DeviceChoice, DeviceError};
use crate::model::device::select::{SelectedDevice, select};
use crate::telemetry::metrics;

/// The device of all networks of one engine. Clones share it.
#[derive(Clone)]
pub struct ActiveDevice(pub(super) Arc<DeviceState>);

pub(super) struct DeviceState {
    pub(super) gpu: Option<Arc<dyn Gpu>>,
    /// Instruction set of the segmentation network on the CPU.
    pub(super) isa: Isa,
    /// Whether the CPU replaces a GPU that cannot be used: under `auto`.
    pub(super) falls_back: bool,
    /// The next trial of the GPU, while all networks have fallen back to the CPU.
    fallback: Mutex<Option<NextTrial>>,
    /// Number of returns to the GPU.
    recoveries: AtomicU64,
}

impl DeviceState {
    fn new(gpu: Option<Arc<dyn Gpu>>, isa: Isa, falls_back: bool) -> Self {
        Self { gpu, isa, falls_back, fallback: Mutex::default(), recoveries: AtomicU64::new(0) }
    }

    pub(super) fn fallback(&self) -> MutexGuard<'_, Option<NextTrial>> {
        self.fallback.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveDevice {
    /// The device selected for `choice`.
    ///
    /// # Errors
    /// [`DeviceError`] when an explicitly configured device is not available.
    pub fn select(choice: &DeviceChoice) -> Result<Self, DeviceError> {
        match select(choice)? {
            SelectedDevice::Cpu => Ok(Self::new(choice, None)),
            #[cfg(feature = "gpu")]
            SelectedDevice::Gpu(adapter) => Ok(Self::new(choice, Some(Arc::new(adapter)))),
        }
    }

    /// As [`select`](Self::select), with the segmentation network in `precision`.
    ///
    /// # Errors
    /// [`DeviceError`] also when the processor lacks the precision, or a GPU was selected with another than f32.
    pub fn select_in(choice: &DeviceChoice, precision: Precision) -> Result<Self, DeviceError> {
        let device = Self::select(choice)?;
        if precision != Precision::F32 && device.gpu().is_some() {
            return Err(DeviceError::PrecisionOnGpu(choice.clone()));
        }
        let DeviceState { gpu, falls_back, .. } = &*device.0;
        Ok(Self(Arc::new(DeviceState::new(gpu.clone(), precision.isa()?, *falls_back))))
    }

    /// `gpu`, or without it the CPU, as the device selected for `choice`.
    #[must_use]
    pub fn new(choice: &DeviceChoice, gpu: Option<Arc<dyn Gpu>>) -> Self {
        Self(Arc::new(DeviceState::new(gpu, Isa::detect(), *choice == DeviceChoice::Auto)))
    }

    /// The GPU; `None` without one, and while the networks have fallen back to the CPU.
    pub(super) fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        self.0.gpu.as_ref().filter(|_| self.0.fallback().is_none())
    }

    /// Moves all networks to the CPU. The GPU is tested again after `wait`, unless a trial is already scheduled.
    pub(super) fn fall_back(&self, reason: &str, wait: Duration) {
        let mut fallback = self.0.fallback();
        if fallback.is_none() {
            *fallback = Some(NextTrial::after(wait));
            metrics::device_fell_back(true);
            tracing::warn!(
                reason,
                "the GPU cannot be used; all networks run on the CPU until it passes its self-test again"
            );
        }
    }

    /// Moves all networks back to the GPU.
    pub(super) fn recover(&self) {
        let mut fallback = self.0.fallback();
        if fallback.take().is_none() {
            return;
        }
        // Under the lock: a reader that finds the GPU in use reads the new count.
        self.0.recoveries.fetch_add(1, Ordering::Relaxed);
        drop(fallback);
        metrics::device_fell_back(false);
        tracing::info!(device = %self, "the GPU passed its self-test; the networks run on it again");
    }

    /// Number of returns to the GPU. What was loaded on the GPU before the last return may belong to a lost session.
    pub(super) fn recoveries(&self) -> u64 {
        self.0.recoveries.load(Ordering::Relaxed)
    }

    /// Time until the next trial of the GPU, if one is scheduled.
    pub(super) fn until_trial(&self) -> Option<Duration> {
        let next = *self.0.fallback();
        next.map(|next| next.left())
    }

    /// Restarts the wait for the next trial, `longer` times as long as the last one.
    pub(super) fn postpone_trial(&self, longer: u32) {
        if let Some(next) = &mut *self.0.fallback() {
            next.postpone(longer);
        }
    }
}

impl fmt::Display for ActiveDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gpu() {
            Some(gpu) => write!(f, "{gpu}"),
            None => f.write_str("CPU"),
        }
    }
}

impl fmt::Debug for ActiveDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActiveDevice({self})")
    }
}

/// Reports that the CPU repeats work that failed on the GPU: out of memory, or invalid values.
pub(super) fn report_failure(reason: &str) {
    metrics::network_failed();
    tracing::warn!(reason, "a network failed on the device; it runs on the CPU for this work");
}
