//! Loads the networks on the selected device; under `auto`, falls back to the CPU from a GPU that fails, until it passes its
//! self-test again.
//!
//! Under `auto` a GPU that cannot be opened, fails its self-test or does not answer in time is replaced by the CPU, with one
//! warning. From time to time it is loaded and tested again beside the CPU; when it passes, it takes over. The time until then
//! goes on while the segmentation network is unloaded. A GPU that was configured by `gpu` or by name is never replaced: its
//! failure is the error.

use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use backdrop_kernels::conv::Isa;
use backdrop_kernels::watchdog::Watchdog;

use super::choice::{DeviceChoice, DeviceError};
use super::select::{SelectedDevice, select};
use crate::image::{Face, Frame, RawMask};
use crate::model::weights::Weights;
use crate::model::{
    CpuRetoucher, CpuSegmenter, FaceCrop, FaceSearch, Factor, Precision, Retoucher, SegmentError, Segmenter,
};
use crate::telemetry::metrics;

/// A GPU that can load the networks. A trait, so that tests can substitute one that fails.
pub trait Gpu: fmt::Display + Send + Sync {
    /// Loads the segmentation network and tests it, ready for batches of up to `max_batch`.
    ///
    /// # Errors
    /// [`SegmentError::Unusable`] when the GPU cannot be opened or fails its self-test.
    fn segmenter(&self, weights: &Weights, max_batch: usize) -> Result<Box<dyn Segmenter>, SegmentError>;

    /// The auxiliary networks. Each is loaded and tested on first use, and fails with [`SegmentError::Unusable`] then.
    fn retoucher(&self) -> Arc<dyn Retoucher>;

    /// Time that loading and testing may take, with the compilation of all shaders.
    fn load_limit(&self) -> Duration {
        Duration::from_secs(1800)
    }

    /// Time after which one that failed is first tested again; each time after that the time doubles.
    fn retry_after(&self) -> Duration {
        Duration::from_secs(300)
    }
}

#[cfg(feature = "gpu")]
impl Gpu for super::adapter::Adapter {
    fn segmenter(&self, weights: &Weights, max_batch: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
        Ok(Box::new(crate::model::GpuSegmenter::start(self, weights, max_batch)?))
    }

    fn retoucher(&self) -> Arc<dyn Retoucher> {
        Arc::new(crate::model::GpuRetoucher::new(self))
    }
}

/// The device that all networks of one engine run on. Clones share it.
#[derive(Clone)]
pub struct ActiveDevice(Arc<State>);

struct State {
    gpu: Option<Arc<dyn Gpu>>,
    /// The instruction set of the segmentation network on the CPU.
    isa: Isa,
    /// Whether a GPU that cannot be used is replaced by the CPU: under `auto`.
    falls_back: bool,
    /// When the GPU is tested again, while the segmentation network has fallen back to the CPU, and the others with it.
    fallback: Mutex<Option<NextTrial>>,
}

/// When a GPU that failed is loaded and tested again.
#[derive(Clone, Copy, Debug)]
struct NextTrial {
    /// From when `wait` counts.
    since: Instant,
    wait: Duration,
}

impl NextTrial {
    /// After `wait` from now.
    fn after(wait: Duration) -> Self {
        Self { since: Instant::now(), wait }
    }

    /// What is left of the wait.
    fn left(&self) -> Duration {
        self.wait.saturating_sub(self.since.elapsed())
    }
}

impl State {
    fn new(gpu: Option<Arc<dyn Gpu>>, isa: Isa, falls_back: bool) -> Self {
        Self { gpu, isa, falls_back, fallback: Mutex::default() }
    }

    fn fallback(&self) -> MutexGuard<'_, Option<NextTrial>> {
        self.fallback.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveDevice {
    /// The device selected for `choice`.
    ///
    /// # Errors
    /// [`DeviceError`] when an explicitly configured device is not there.
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
    /// [`DeviceError`] also when the processor does not have the precision, or a GPU was selected for another than f32.
    pub fn select_in(choice: &DeviceChoice, precision: Precision) -> Result<Self, DeviceError> {
        let device = Self::select(choice)?;
        if precision != Precision::F32 && device.gpu().is_some() {
            return Err(DeviceError::PrecisionOnGpu(choice.clone()));
        }
        let State { gpu, falls_back, .. } = &*device.0;
        Ok(Self(Arc::new(State::new(gpu.clone(), precision.isa()?, *falls_back))))
    }

    /// `gpu`, or the CPU if there is none, as the device selected for `choice`.
    #[must_use]
    pub fn new(choice: &DeviceChoice, gpu: Option<Arc<dyn Gpu>>) -> Self {
        Self(Arc::new(State::new(gpu, Isa::detect(), *choice == DeviceChoice::Auto)))
    }

    /// The GPU, unless there is none or the networks fell back to the CPU.
    fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        self.0.gpu.as_ref().filter(|_| self.0.fallback().is_none())
    }

    /// Loads the segmentation network, ready for batches of up to `max_batch`. The CPU needs no warm-up.
    ///
    /// # Errors
    /// [`SegmentError`] when the device cannot be used and there is no fallback.
    pub fn segmenter(&self, weights: &Weights, max_batch: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
        match &self.0.gpu {
            None => cpu_segmenter(weights, self.0.isa),
            Some(gpu) if self.0.falls_back => {
                Ok(Box::new(FallbackSegmenter::load(self, Arc::clone(gpu), weights, max_batch)?))
            }
            Some(gpu) => load(gpu, weights, max_batch),
        }
    }

    /// Moves all networks to the CPU. The GPU is tested again after `wait`, unless it has failed before.
    fn fall_back(&self, reason: &str, wait: Duration) {
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

    /// Moves them back.
    fn recover(&self) {
        *self.0.fallback() = None;
        metrics::device_fell_back(false);
        tracing::info!(device = %self, "the GPU passed its self-test; the networks run on it again");
    }

    /// What is left of the wait until the GPU is tested again.
    fn until_trial(&self) -> Option<Duration> {
        let next = *self.0.fallback();
        next.map(|next| next.left())
    }

    /// Begins the wait for the next trial, `longer` times that for the last one.
    fn postpone_trial(&self, longer: u32) {
        if let Some(next) = &mut *self.0.fallback() {
            *next = NextTrial::after(next.wait.saturating_mul(longer));
        }
    }

    /// The auxiliary networks.
    #[must_use]
    pub fn retoucher(&self) -> Arc<dyn Retoucher> {
        match self.gpu() {
            None => Arc::new(CpuRetoucher::default()),
            Some(gpu) => Arc::new(ActiveRetoucher {
                device: self.clone(),
                gpu: Mutex::new(GpuNetworks { networks: gpu.retoucher(), failed: None, wait: gpu.retry_after() }),
                cpu: CpuRetoucher::default(),
            }),
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

/// The segmentation network under `auto`: on the GPU, and on the CPU from when that fails until it passes its self-test again.
struct FallbackSegmenter {
    device: ActiveDevice,
    gpu: Arc<dyn Gpu>,
    weights: Weights,
    max_batch: usize,
    running: Box<dyn Segmenter>,
    /// While the CPU stands in.
    retrial: Option<Retrial>,
    /// For batches that fail on a GPU that goes on.
    cpu: Option<Box<dyn Segmenter>>,
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
        Ok(Self { device: device.clone(), gpu, weights: weights.clone(), max_batch, running, retrial, cpu: None })
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
        match self.running.segment(frames) {
            Err(SegmentError::Unusable(reason)) if self.retrial.is_none() => {
                self.device.fall_back(&reason, self.gpu.retry_after());
                self.running = cpu_segmenter(&self.weights, self.device.0.isa)?;
                self.retrial = Some(Retrial::begin(&self.device, &self.gpu, &self.weights, self.max_batch));
                self.running.segment(frames)
            }
            Err(SegmentError::Device(reason)) if self.retrial.is_none() => {
                report_failure(&reason);
                let cpu = match self.cpu.take() {
                    Some(cpu) => cpu,
                    None => cpu_segmenter(&self.weights, self.device.0.isa)?,
                };
                self.cpu.insert(cpu).segment(frames)
            }
            done => done,
        }
    }
}

/// Reports that the CPU does what the GPU failed to do this time: out of memory, or values that are none.
fn report_failure(reason: &str) {
    metrics::network_failed();
    tracing::warn!(reason, "a network failed on the device; it runs on the CPU for this work");
}

/// A thread that loads and tests a failed GPU when the device's [`NextTrial`] is due, until it passes or the segmenter that waits
/// for it is dropped.
struct Retrial {
    device: ActiveDevice,
    recovered: mpsc::Receiver<Box<dyn Segmenter>>,
    /// The thread ends when it is dropped.
    _stop: mpsc::Sender<()>,
}

impl Retrial {
    fn begin(device: &ActiveDevice, gpu: &Arc<dyn Gpu>, weights: &Weights, max_batch: usize) -> Self {
        let ((stop, stopped), (found, recovered)) = (mpsc::channel::<()>(), mpsc::channel());
        let (of, gpu, weights) = (device.clone(), Arc::clone(gpu), weights.clone());
        let run = move || {
            let left = || of.until_trial().unwrap_or_else(|| gpu.retry_after());
            // A driver that hangs keeps the thread of each attempt.
            while stopped.recv_timeout(left()) == Err(RecvTimeoutError::Timeout) {
                // Before the attempt: a segmenter that is loaded meanwhile does not begin one beside it.
                of.postpone_trial(2);
                match load(&gpu, &weights, max_batch) {
                    Ok(segmenter) => {
                        // An error means that the segmenter was dropped during the attempt; the next one finds a GPU that works.
                        if found.send(segmenter).is_err() {
                            of.recover();
                        }
                        return;
                    }
                    Err(error) => tracing::debug!(reason = error.into_reason(), "the GPU still cannot be used"),
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
        // It passed and no batch came since, so that the next segmenter is loaded on it.
        if self.recovered().is_some() {
            self.device.recover();
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
    /// When one of them could not be used.
    failed: Option<Instant>,
    /// From then until they are loaded and tested again.
    wait: Duration,
}

impl ActiveRetoucher {
    /// The networks on the GPU, unless the CPU stands in.
    fn on_gpu(&self) -> Option<Arc<dyn Retoucher>> {
        let gpu = self.device.gpu()?;
        let mut state = self.gpu.lock().unwrap_or_else(PoisonError::into_inner);
        if self.device.0.falls_back
            && let Some(failed) = state.failed
        {
            if failed.elapsed() < state.wait {
                return None;
            }
            let wait = state.wait.saturating_mul(2);
            *state = GpuNetworks { networks: gpu.retoucher(), failed: None, wait };
        }
        Some(Arc::clone(&state.networks))
    }

    /// Notes that a network cannot be used on the GPU; whether that is news.
    fn give_up(&self) -> bool {
        let mut state = self.gpu.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed.replace(Instant::now()).is_none()
    }

    fn run<T>(&self, work: impl Fn(&dyn Retoucher) -> Result<T, SegmentError>) -> Result<T, SegmentError> {
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
    fn faces(&self, frame: &Frame) -> Result<Vec<Face>, SegmentError> {
        self.run(|retoucher| retoucher.faces(frame))
    }

    fn search_faces(&self, frame: &Frame, search: FaceSearch) -> Result<Vec<Face>, SegmentError> {
        self.run(|retoucher| retoucher.search_faces(frame, search))
    }

    fn restoration(&self, face: &FaceCrop) -> Result<FaceCrop, SegmentError> {
        self.run(|retoucher| retoucher.restoration(face))
    }

    fn enlarged(&self, frame: &Frame, by: Factor) -> Result<Frame, SegmentError> {
        self.run(|retoucher| retoucher.enlarged(frame, by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Buffer, Size};
    use crate::model::FACE_SIDE;
    use std::io::{self, Write};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// A GPU that cannot be used.
    #[derive(Debug, Default)]
    struct Broken {
        loads: AtomicUsize,
        panics: bool,
    }

    impl fmt::Display for Broken {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("broken adapter")
        }
    }

    impl Gpu for Broken {
        fn segmenter(&self, _: &Weights, _: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
            self.loads.fetch_add(1, Ordering::Relaxed);
            assert!(!self.panics, "the driver crashed");
            Err(SegmentError::Unusable("broken adapter failed its self-test".to_owned()))
        }

        fn retoucher(&self) -> Arc<dyn Retoucher> {
            Arc::new(BrokenRetoucher)
        }
    }

    #[derive(Debug)]
    struct BrokenRetoucher;

    impl Retoucher for BrokenRetoucher {
        fn faces(&self, _: &Frame) -> Result<Vec<Face>, SegmentError> {
            Err(SegmentError::Unusable("broken adapter failed its self-test of the face network".to_owned()))
        }

        fn restoration(&self, _: &FaceCrop) -> Result<FaceCrop, SegmentError> {
            Err(SegmentError::Device("out of memory".to_owned()))
        }

        fn enlarged(&self, frame: &Frame, _: Factor) -> Result<Frame, SegmentError> {
            Ok(frame.clone())
        }
    }

    /// The log lines that `work` writes on this thread.
    fn logged(work: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Sink(Arc<Mutex<Vec<u8>>>);
        impl Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let sink = Sink::default();
        let writer = sink.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(lines, work);
        let bytes = sink.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8(bytes).expect("the log is UTF-8")
    }

    /// A GPU whose network answers until it is lost, and which then fails its self-test a few times.
    #[derive(Debug)]
    struct Unsteady {
        lost: Arc<AtomicBool>,
        /// Loads that hang.
        hangs: AtomicUsize,
        loads: AtomicUsize,
    }

    impl fmt::Display for Unsteady {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("unsteady adapter")
        }
    }

    impl Gpu for Unsteady {
        fn segmenter(&self, _: &Weights, _: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
            if self.loads.fetch_add(1, Ordering::Relaxed) > 0
                && self.hangs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                std::thread::sleep(Duration::from_secs(60));
            }
            self.lost.store(false, Ordering::Relaxed);
            Ok(Box::new(UnsteadySegmenter(Arc::clone(&self.lost))))
        }

        fn retoucher(&self) -> Arc<dyn Retoucher> {
            Arc::new(BrokenRetoucher)
        }

        /// Short for a load that hangs; one that answers must not be taken for it on a loaded machine.
        fn load_limit(&self) -> Duration {
            let hangs = self.loads.load(Ordering::Relaxed) > 0 && self.hangs.load(Ordering::Relaxed) > 0;
            if hangs { Duration::from_millis(100) } else { Duration::from_secs(60) }
        }

        fn retry_after(&self) -> Duration {
            Duration::from_millis(10)
        }
    }

    struct UnsteadySegmenter(Arc<AtomicBool>);

    impl Segmenter for UnsteadySegmenter {
        fn model(&self) -> &str {
            "unsteady"
        }

        fn device(&self) -> String {
            "unsteady adapter".to_owned()
        }

        fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError> {
            if self.0.load(Ordering::Relaxed) {
                return Err(SegmentError::Unusable("a call did not return within 30s".to_owned()));
            }
            Ok(frames.iter().map(|_| RawMask::new(Size::new(1, 1), vec![0.5]).expect("a probability")).collect())
        }
    }

    #[test]
    fn a_gpu_that_is_lost_is_replaced_and_takes_over_again_when_it_passes_its_test() {
        let lost = Arc::new(AtomicBool::new(false));
        let gpu =
            Arc::new(Unsteady { lost: Arc::clone(&lost), hangs: AtomicUsize::new(1), loads: AtomicUsize::new(0) });
        let device = ActiveDevice::new(&DeviceChoice::Auto, Some(Arc::clone(&gpu) as Arc<dyn Gpu>));
        let mut segmenter = device.segmenter(&Weights::embedded(), 1).expect("it works");
        assert_eq!(segmenter.segment(&[&picture()]).expect("it answers")[0].size(), Size::new(1, 1));
        lost.store(true, Ordering::Relaxed);
        let log = logged(|| {
            let mask = segmenter.segment(&[&picture()]).expect("the CPU takes over").remove(0);
            assert!(mask.size().width > 1, "the CPU's");
            assert!(segmenter.device().starts_with("CPU ("), "{}", segmenter.device());
            assert!(segmenter.device().ends_with("because unsteady adapter failed"), "{}", segmenter.device());
            assert_eq!(format!("{device:?}"), "ActiveDevice(CPU)");
            let began = std::time::Instant::now();
            while segmenter.segment(&[&picture()]).expect("one of them answers")[0].size().width > 1 {
                assert!(began.elapsed() < Duration::from_secs(30), "it is not tried again");
            }
        });
        assert_eq!(log.matches("WARN").count(), 1, "{log}");
        assert!(log.contains("run on it again"), "{log}");
        assert!(gpu.loads.load(Ordering::Relaxed) >= 3, "the first, one that hung, and one that passed");
        assert_eq!(segmenter.device(), "unsteady adapter");
        assert_eq!(format!("{device:?}"), "ActiveDevice(unsteady adapter)");
    }

    #[test]
    fn the_wait_for_the_next_trial_goes_on_while_the_segmenter_is_unloaded() {
        let gpu = Arc::new(Broken::default());
        let (device, weights) = (device(&DeviceChoice::Auto, &gpu), Weights::embedded());
        assert_eq!(device.until_trial(), None);
        drop(device.segmenter(&weights, 1).expect("the CPU takes over"));
        let left = device.until_trial().expect("it failed");
        assert!(left <= gpu.retry_after() && left > gpu.retry_after() / 2, "{left:?}");
        let pause = Duration::from_millis(20);
        std::thread::sleep(pause);
        drop(device.segmenter(&weights, 1).expect("the CPU computes"));
        assert!(device.until_trial().is_some_and(|now| now <= left - pause), "the wait began anew");
        assert_eq!(gpu.loads.load(Ordering::Relaxed), 1);

        // It becomes due while no segmenter is loaded: the next one begins with it.
        device.0.fallback().as_mut().expect("it failed").since -= gpu.retry_after();
        let segmenter = device.segmenter(&weights, 1).expect("the CPU computes");
        let began = Instant::now();
        while gpu.loads.load(Ordering::Relaxed) < 2 {
            assert!(began.elapsed() < Duration::from_secs(30), "it is not tried again");
            std::thread::sleep(Duration::from_millis(1));
        }
        let left = device.until_trial().expect("it failed again");
        assert!(left > gpu.retry_after(), "the wait is not longer: {left:?}");
        drop(segmenter);
        assert_eq!(gpu.loads.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_gpu_that_passes_its_test_before_an_unload_has_the_next_segmenter() {
        let lost = Arc::new(AtomicBool::new(false));
        let gpu = Unsteady { lost: Arc::clone(&lost), hangs: AtomicUsize::new(0), loads: AtomicUsize::new(0) };
        let device = ActiveDevice::new(&DeviceChoice::Auto, Some(Arc::new(gpu)));
        let loaded = || device.segmenter(&Weights::embedded(), 1).expect("one of them computes");
        let mut segmenter = loaded();
        lost.store(true, Ordering::Relaxed);
        segmenter.segment(&[&picture()]).expect("the CPU takes over");
        assert!(device.until_trial().is_some());
        let began = Instant::now();
        while device.until_trial().is_some() {
            assert!(began.elapsed() < Duration::from_secs(30), "the GPU is never used again");
            // Unloaded without another batch.
            std::thread::sleep(Duration::from_millis(20));
            drop(segmenter);
            segmenter = loaded();
        }
        drop(segmenter);
        assert_eq!(loaded().device(), "unsteady adapter");
    }

    #[test]
    fn an_explicit_gpu_that_is_lost_is_an_error() {
        let lost = Arc::new(AtomicBool::new(false));
        let gpu = Unsteady { lost: Arc::clone(&lost), hangs: AtomicUsize::new(0), loads: AtomicUsize::new(0) };
        let device = ActiveDevice::new(&DeviceChoice::Gpu, Some(Arc::new(gpu)));
        let mut segmenter = device.segmenter(&Weights::embedded(), 1).expect("it works");
        lost.store(true, Ordering::Relaxed);
        assert!(matches!(segmenter.segment(&[&picture()]), Err(SegmentError::Unusable(_))));
    }

    fn device(choice: &DeviceChoice, gpu: &Arc<Broken>) -> ActiveDevice {
        ActiveDevice::new(choice, Some(Arc::clone(gpu) as Arc<dyn Gpu>))
    }

    fn explicit() -> [DeviceChoice; 2] {
        [DeviceChoice::Gpu, DeviceChoice::Named("broken".to_owned())]
    }

    fn picture() -> Frame {
        Frame::new(Size::new(8, 8), Buffer::from(vec![128; 8 * 8 * 4]))
    }

    #[test]
    fn auto_falls_back_to_the_cpu_with_one_warning() {
        for panics in [false, true] {
            let gpu = Arc::new(Broken { panics, ..Broken::default() });
            let (device, weights) = (device(&DeviceChoice::Auto, &gpu), Weights::embedded());
            let log = logged(|| {
                for _ in 0..2 {
                    let segmenter = device.segmenter(&weights, 1).expect("the CPU takes over");
                    assert!(segmenter.device().starts_with("CPU ("), "{}", segmenter.device());
                }
            });
            assert_eq!(log.matches("WARN").count(), 1, "{log}");
            assert!(log.contains("all networks run on the CPU") && log.contains("broken adapter"), "{log}");
            assert_eq!(gpu.loads.load(Ordering::Relaxed), 1, "a GPU that failed is not tried again");
            assert_eq!(format!("{device:?}"), "ActiveDevice(CPU)");
        }
    }

    #[test]
    fn a_gpu_configured_explicitly_is_an_error_and_not_replaced() {
        for choice in explicit() {
            let gpu = Arc::new(Broken::default());
            let (device, weights) = (device(&choice, &gpu), Weights::embedded());
            for _ in 0..2 {
                let error = device.segmenter(&weights, 1).err().expect("it is broken").to_string();
                assert_eq!(error, "the device cannot be used: broken adapter failed its self-test", "{choice}");
            }
            assert_eq!(gpu.loads.load(Ordering::Relaxed), 2, "every load tries the configured GPU");
        }
    }

    #[test]
    fn the_retoucher_follows_the_segmenter_to_the_cpu() {
        let device = device(&DeviceChoice::Auto, &Arc::default());
        let retoucher = device.retoucher();
        assert_eq!(retoucher.enlarged(&picture(), Factor::Two).expect("the GPU answers").size(), Size::new(8, 8));
        device.segmenter(&Weights::embedded(), 1).expect("the CPU takes over");
        assert_eq!(retoucher.enlarged(&picture(), Factor::Two).expect("the CPU answers").size(), Size::new(16, 16));
        let log = logged(|| assert_eq!(retoucher.faces(&picture()).expect("the CPU answers"), []));
        assert!(!log.contains("WARN"), "the segmenter has warned already: {log}");
    }

    #[test]
    fn a_network_of_the_retoucher_that_fails_its_test_moves_it_to_the_cpu_under_auto() {
        let retoucher = device(&DeviceChoice::Auto, &Arc::default()).retoucher();
        let face = FaceCrop(vec![[0.5; 3]; FACE_SIDE * FACE_SIDE]);
        let log = logged(|| {
            retoucher.restoration(&face).expect("the CPU restores it");
            assert_eq!(retoucher.enlarged(&picture(), Factor::Two).expect("the GPU answers").size(), Size::new(8, 8));
        });
        assert!(log.contains("out of memory"), "{log}");
        let log = logged(|| {
            for _ in 0..2 {
                assert_eq!(retoucher.faces(&picture()).expect("the CPU answers"), []);
            }
        });
        assert_eq!(log.matches("WARN").count(), 1, "{log}");
        assert_eq!(retoucher.enlarged(&picture(), Factor::Two).expect("the CPU answers").size(), Size::new(16, 16));
    }

    /// A GPU whose auxiliary networks fail their test the first time.
    #[derive(Debug, Default)]
    struct Recovering(AtomicUsize);

    impl fmt::Display for Recovering {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("recovering adapter")
        }
    }

    impl Gpu for Recovering {
        fn segmenter(&self, _: &Weights, _: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
            Err(SegmentError::Unusable("it has none".to_owned()))
        }

        fn retoucher(&self) -> Arc<dyn Retoucher> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Arc::new(BrokenRetoucher),
                _ => Arc::new(CpuRetoucher::default()),
            }
        }

        fn retry_after(&self) -> Duration {
            Duration::from_millis(20)
        }
    }

    #[test]
    fn networks_of_the_retoucher_that_failed_their_test_are_tested_again() {
        let gpu = Arc::new(Recovering::default());
        let retoucher = ActiveDevice::new(&DeviceChoice::Auto, Some(Arc::clone(&gpu) as Arc<dyn Gpu>)).retoucher();
        let loads = || gpu.0.load(Ordering::Relaxed);
        assert_eq!(retoucher.faces(&picture()).expect("the CPU answers"), []);
        let began = Instant::now();
        while loads() < 2 {
            assert_eq!(retoucher.faces(&picture()).expect("one of them answers"), []);
            assert!(began.elapsed() < Duration::from_secs(30), "they are not tested again");
        }
        assert_eq!(retoucher.faces(&picture()).expect("the GPU answers"), []);
        assert_eq!(loads(), 2, "they passed");
    }

    #[test]
    fn a_batch_that_fails_on_a_gpu_that_goes_on_is_segmented_by_the_cpu() {
        struct OutOfMemory;
        impl Segmenter for OutOfMemory {
            fn model(&self) -> &str {
                "small"
            }

            fn device(&self) -> String {
                "small adapter".to_owned()
            }

            fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError> {
                if frames.len() > 1 {
                    return Err(SegmentError::Device("out of memory".to_owned()));
                }
                Ok(vec![RawMask::new(Size::new(1, 1), vec![0.5]).expect("a probability")])
            }
        }
        let mut segmenter = FallbackSegmenter {
            device: ActiveDevice::new(&DeviceChoice::Auto, None),
            gpu: Arc::new(Broken::default()),
            weights: Weights::embedded(),
            max_batch: 2,
            running: Box::new(OutOfMemory),
            retrial: None,
            cpu: None,
        };
        let sizes = |masks: Vec<RawMask>| masks.iter().map(RawMask::size).collect::<Vec<_>>();
        let log = logged(|| {
            for _ in 0..2 {
                let masks = sizes(segmenter.segment(&[&picture(), &picture()]).expect("the CPU's masks"));
                assert!(masks.len() == 2 && masks[0].width > 1, "{masks:?}");
                assert_eq!(sizes(segmenter.segment(&[&picture()]).expect("the GPU's mask")), [Size::new(1, 1)]);
            }
        });
        assert_eq!(log.matches("out of memory").count(), 2, "{log}");
        assert_eq!(segmenter.device(), "small adapter");
    }

    #[test]
    fn a_network_of_the_retoucher_that_fails_its_test_is_an_error_on_an_explicit_gpu() {
        for choice in explicit() {
            let retoucher = device(&choice, &Arc::default()).retoucher();
            let log = logged(|| {
                for _ in 0..2 {
                    let error = retoucher.faces(&picture()).expect_err("it is broken");
                    assert!(matches!(error, SegmentError::Unusable(_)), "{error}");
                }
            });
            assert_eq!(log.matches("ERROR").count(), 1, "{log}");
            assert_eq!(retoucher.enlarged(&picture(), Factor::Two).expect("the GPU answers").size(), Size::new(8, 8));
        }
    }

    #[test]
    fn the_cpu_is_used_without_a_gpu() {
        for choice in [DeviceChoice::Auto, DeviceChoice::Cpu] {
            let device = ActiveDevice::new(&choice, None);
            let segmenter = device.segmenter(&Weights::embedded(), 1).expect("the CPU computes");
            assert!(segmenter.device().starts_with("CPU ("), "{}", segmenter.device());
            assert_eq!(device.retoucher().faces(&picture()).expect("the CPU computes"), []);
        }
    }

    #[cfg(feature = "gpu")]
    #[test]
    fn an_adapter_that_cannot_be_opened_falls_back_under_auto_only() {
        use crate::model::device::adapter::{Adapter, AdapterKind, Api};
        let (name, kind, api) = ("absent".to_owned(), AdapterKind::Virtual, Api::Vulkan);
        let gpu: Arc<dyn Gpu> = Arc::new(Adapter { name, kind, api, index: 9 });
        let load = |choice| ActiveDevice::new(&choice, Some(Arc::clone(&gpu))).segmenter(&Weights::embedded(), 1);
        let segmenter = load(DeviceChoice::Auto).expect("the CPU takes over");
        assert!(segmenter.device().starts_with("CPU ("), "{}", segmenter.device());
        assert!(matches!(load(DeviceChoice::Gpu).err(), Some(SegmentError::Unusable(_))));
    }
}
