//! Tests of the fallback, with GPUs that fail.

use super::failures::Failures;
use super::retoucher::ActiveRetoucher;
use super::segmenter::FallbackSegmenter;
use super::{ActiveDevice, Gpu};
use crate::image::{Buffer, Face, Frame, RawMask, Size};
use crate::model::device::choice::DeviceChoice;
use crate::model::weights::Weights;
use crate::model::{
    CpuRetoucher, Enlargement, FACE_SIDE, FaceCrop, FaceSearch, Factor, Retoucher, SegmentError, Segmenter,
};
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// A GPU whose segmentation network never passes its test.
#[derive(Debug)]
struct Broken {
    loads: AtomicUsize,
    panics: bool,
    /// Loads of the auxiliary networks.
    retouchers: AtomicUsize,
    /// Whether the auxiliary networks pass their test from the second load on.
    recovers: bool,
    retry_after: Duration,
}

impl Default for Broken {
    fn default() -> Self {
        let (loads, retouchers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { loads, panics: false, retouchers, recovers: false, retry_after: Duration::from_secs(300) }
    }
}

impl Broken {
    fn recovering(retry_after: Duration) -> Arc<Self> {
        Arc::new(Self { recovers: true, retry_after, ..Self::default() })
    }
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
        let is_first = self.retouchers.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first || !self.recovers { Arc::new(BrokenRetoucher) } else { Arc::new(CpuRetoucher::default()) }
    }

    fn retry_after(&self) -> Duration {
        self.retry_after
    }
}

#[derive(Debug)]
struct BrokenRetoucher;

impl Retoucher for BrokenRetoucher {
    fn faces(&self, _: &Frame, _: FaceSearch) -> Result<Vec<Face>, SegmentError> {
        Err(SegmentError::Unusable("broken adapter failed its self-test of the face network".to_owned()))
    }

    fn restoration(&self, _: &FaceCrop) -> Result<FaceCrop, SegmentError> {
        Err(SegmentError::Device("out of memory".to_owned()))
    }

    fn enlarge_band(&self, picture: &mut Enlargement) -> Result<(), SegmentError> {
        picture.compute(u32::MAX, |_| Ok(()))
    }
}

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

/// A GPU whose network works until the GPU is lost, and again after a load that succeeds.
struct Unsteady {
    lost: Arc<AtomicBool>,
    loads: AtomicUsize,
    /// Number of loads after the first one that hang.
    hangs: AtomicUsize,
    /// Received by the second load: whether it succeeds.
    gate: Option<Mutex<mpsc::Receiver<bool>>>,
    retry_after: Duration,
}

impl Unsteady {
    fn new(retry_after: Duration) -> Self {
        let (lost, loads, hangs) = (Arc::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        Self { lost, loads, hangs, gate: None, retry_after }
    }
}

impl fmt::Display for Unsteady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unsteady adapter")
    }
}

impl Gpu for Unsteady {
    fn segmenter(&self, _: &Weights, _: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
        let number = self.loads.fetch_add(1, Ordering::Relaxed);
        if number > 0
            && self.hangs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        {
            std::thread::sleep(Duration::from_secs(60));
        }
        if let Some(gate) = self.gate.as_ref().filter(|_| number == 1)
            && !gate.lock().unwrap_or_else(PoisonError::into_inner).recv().expect("it ends")
        {
            return Err(SegmentError::Unusable("unsteady adapter failed its self-test".to_owned()));
        }
        self.lost.store(false, Ordering::Relaxed);
        let lost = Arc::clone(&self.lost);
        Ok(Box::new(Network(move |_: usize| match lost.load(Ordering::Relaxed) {
            true => Err(SegmentError::Unusable("a call did not return within 30s".to_owned())),
            false => Ok(()),
        })))
    }

    fn retoucher(&self) -> Arc<dyn Retoucher> {
        Arc::new(BrokenRetoucher)
    }

    /// Short for the loads that hang, and long enough for the others on a busy machine.
    fn load_limit(&self) -> Duration {
        let hangs = self.loads.load(Ordering::Relaxed) > 0 && self.hangs.load(Ordering::Relaxed) > 0;
        if hangs { Duration::from_millis(100) } else { Duration::from_secs(60) }
    }

    fn retry_after(&self) -> Duration {
        self.retry_after
    }
}

/// A GPU's network whose masks have one cell, if the check of the number of pictures permits.
struct Network<F>(F);

impl<F: Fn(usize) -> Result<(), SegmentError> + Send> Segmenter for Network<F> {
    fn model(&self) -> &str {
        "unsteady"
    }

    fn device(&self) -> String {
        "unsteady adapter".to_owned()
    }

    fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError> {
        (self.0)(frames.len())?;
        Ok(frames.iter().map(|_| RawMask::new(Size::new(1, 1), vec![0.5]).expect("a probability")).collect())
    }
}

/// Wait before a trial that a test waits for.
const SOON: Duration = Duration::from_millis(10);

#[test]
fn a_lost_gpu_is_replaced_until_it_passes_its_self_test() {
    let gpu = Arc::new(Unsteady { hangs: AtomicUsize::new(1), ..Unsteady::new(SOON) });
    let lost = &gpu.lost;
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
        let on_gpu = || segmenter.segment(&[&picture()]).expect("one of them answers")[0].size().width == 1;
        wait_for("it is not tried again", on_gpu);
    });
    assert_eq!(log.matches("WARN").count(), 1, "{log}");
    assert!(log.contains("run on it again"), "{log}");
    assert!(gpu.loads.load(Ordering::Relaxed) >= 3, "the first, one that hung, and one that passed");
    assert_eq!(segmenter.device(), "unsteady adapter");
    assert_eq!(format!("{device:?}"), "ActiveDevice(unsteady adapter)");
}

#[test]
fn the_wait_for_the_next_trial_continues_while_the_segmenter_is_unloaded() {
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

    // The trial becomes due while no segmenter is loaded; the next segmenter begins with it.
    device.0.fallback().as_mut().expect("it failed").since -= gpu.retry_after();
    let segmenter = device.segmenter(&weights, 1).expect("the CPU computes");
    wait_for("it is not tried again", || gpu.loads.load(Ordering::Relaxed) >= 2);
    let left = device.until_trial().expect("it failed again");
    assert!(left > gpu.retry_after(), "the wait is not longer: {left:?}");
    drop(segmenter);
    assert_eq!(gpu.loads.load(Ordering::Relaxed), 2);
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A device whose first segmenter was dropped during a trial, which the sender decides, and its second one, on the CPU.
fn unloaded_during_a_trial() -> (mpsc::Sender<bool>, Arc<Unsteady>, ActiveDevice, Box<dyn Segmenter>) {
    let (ends, passes) = mpsc::channel();
    let gate = Some(Mutex::new(passes));
    let gpu = Arc::new(Unsteady { gate, ..Unsteady::new(Duration::from_secs(300)) });
    let device = ActiveDevice::new(&DeviceChoice::Auto, Some(Arc::clone(&gpu) as Arc<dyn Gpu>));
    let mut first = device.segmenter(&Weights::embedded(), 1).expect("it works");
    gpu.lost.store(true, Ordering::Relaxed);
    first.segment(&[&picture()]).expect("the CPU takes over");
    device.0.fallback().as_mut().expect("it failed").since -= gpu.retry_after();
    wait_for("it is not tried again", || gpu.loads.load(Ordering::Relaxed) == 2);
    drop(first);
    let second = device.segmenter(&Weights::embedded(), 1).expect("the CPU computes");
    assert!(second.device().starts_with("CPU ("), "{}", second.device());
    (ends, gpu, device, second)
}

#[test]
fn a_gpu_that_passes_after_the_segmenter_was_loaded_again_is_used() {
    let (passes, _gpu, device, mut second) = unloaded_during_a_trial();
    passes.send(true).expect("the trial goes on");
    let on_gpu = || second.segment(&[&picture()]).expect("one of them answers")[0].size() == Size::new(1, 1);
    wait_for("the second segmenter stays on the CPU", on_gpu);
    assert_eq!(second.device(), "unsteady adapter");
    assert_eq!(device.until_trial(), None);
}

#[test]
fn a_trial_that_fails_after_another_one_has_passed_changes_nothing() {
    let (passes, gpu, device, mut second) = unloaded_during_a_trial();
    device.0.fallback().as_mut().expect("it failed").since -= 2 * gpu.retry_after();
    let on_gpu = || second.segment(&[&picture()]).expect("one of them answers")[0].size() == Size::new(1, 1);
    wait_for("the second segmenter stays on the CPU", on_gpu);
    passes.send(false).expect("the trial goes on");
    wait_for("the trial does not end", || Arc::strong_count(&gpu) == 3);
    assert_eq!(device.until_trial(), None);
}

#[test]
fn an_explicit_gpu_that_is_lost_is_an_error() {
    let gpu = Unsteady::new(SOON);
    let lost = Arc::clone(&gpu.lost);
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

/// The device that enlarges. [`BrokenRetoucher`] represents the GPU.
fn enlarged_by(retoucher: &dyn Retoucher) -> &'static str {
    let large = retoucher.enlarged(picture(), Factor::Two).expect("one of them answers");
    assert_eq!(large.size(), Size::new(16, 16));
    if large.pixel(8, 8)[3] == 0 { "GPU" } else { "CPU" }
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
fn the_retoucher_follows_the_segmenter_to_the_cpu() {
    let device = device(&DeviceChoice::Auto, &Arc::default());
    let retoucher = device.retoucher();
    assert_eq!(enlarged_by(&*retoucher), "GPU");
    device.segmenter(&Weights::embedded(), 1).expect("the CPU takes over");
    assert_eq!(enlarged_by(&*retoucher), "CPU");
    let log = logged(|| assert_eq!(retoucher.faces(&picture(), FaceSearch::All).expect("the CPU answers"), []));
    assert!(!log.contains("WARN"), "the segmenter has warned already: {log}");
}

#[test]
fn a_network_of_the_retoucher_that_fails_its_test_moves_it_to_the_cpu_under_auto() {
    let retoucher = device(&DeviceChoice::Auto, &Arc::default()).retoucher();
    let face = FaceCrop(vec![[0.5; 3]; FACE_SIDE * FACE_SIDE]);
    let log = logged(|| {
        retoucher.restoration(&face).expect("the CPU restores it");
        assert_eq!(enlarged_by(&*retoucher), "GPU");
    });
    assert!(log.contains("out of memory"), "{log}");
    let log = logged(|| {
        for _ in 0..2 {
            assert_eq!(retoucher.faces(&picture(), FaceSearch::All).expect("the CPU answers"), []);
        }
    });
    assert_eq!(log.matches("WARN").count(), 1, "{log}");
    assert_eq!(enlarged_by(&*retoucher), "CPU");
}

#[test]
fn networks_that_fail_on_an_explicit_gpu_are_an_error_and_loaded_again() {
    for choice in explicit() {
        let gpu = Broken::recovering(Duration::from_millis(20));
        let device = device(&choice, &gpu);
        assert!(matches!(device.segmenter(&Weights::embedded(), 1), Err(SegmentError::Unusable(_))), "{choice}");
        let retoucher = device.retoucher();
        let faces = || retoucher.faces(&picture(), FaceSearch::All);
        let log = logged(|| assert!(matches!(faces(), Err(SegmentError::Unusable(_))), "{choice}"));
        assert_eq!(log.matches("ERROR").count(), 1, "{log}");
        // Failing requests do not postpone the trial.
        wait_for("they are not loaded again", || faces().is_ok());
    }
}

#[test]
fn the_wait_of_the_retouchers_networks_is_reset_when_they_have_passed() {
    let wait = Duration::from_secs(300);
    let gpu = Broken::recovering(wait);
    let device = device(&DeviceChoice::Auto, &gpu);
    let retoucher = ActiveRetoucher::new(&device, &*gpu);
    let faces = || retoucher.faces(&picture(), FaceSearch::All).expect("one of them answers");
    faces();
    assert_eq!(gpu.retouchers.load(Ordering::Relaxed), 1);
    retoucher.state().next_trial.since -= wait;
    faces();
    assert_eq!(gpu.retouchers.load(Ordering::Relaxed), 2, "they are not tested again");
    assert!(retoucher.state().next_trial.left() > wait, "one of them may fail again");
    retoucher.state().next_trial.since -= 2 * wait;
    faces();
    retoucher.state().next_trial.postpone(1);
    let left = retoucher.state().next_trial.left();
    assert!(left <= wait, "the wait is still longer: {left:?}");
}

#[test]
fn the_networks_of_the_retoucher_are_loaded_again_when_the_gpu_has_recovered() {
    let gpu = Broken::recovering(Duration::from_secs(300));
    let device = device(&DeviceChoice::Auto, &gpu);
    let retoucher = device.retoucher();
    assert_eq!(enlarged_by(&*retoucher), "GPU");
    device.fall_back("it was lost", Duration::from_secs(300));
    assert_eq!(enlarged_by(&*retoucher), "CPU");
    device.recover();
    for _ in 0..2 {
        assert_eq!(retoucher.faces(&picture(), FaceSearch::All).expect("the GPU answers"), []);
    }
    assert_eq!(gpu.retouchers.load(Ordering::Relaxed), 2, "the first ones, and those after the recovery");
}

#[test]
fn a_network_of_the_retoucher_that_fails_three_times_in_a_row_moves_it_to_the_cpu_under_auto() {
    let retoucher = device(&DeviceChoice::Auto, &Arc::default()).retoucher();
    let face = FaceCrop(vec![[0.5; 3]; FACE_SIDE * FACE_SIDE]);
    let restore = |times: usize| {
        (0..times).for_each(|_| drop(retoucher.restoration(&face).expect("the CPU restores it")));
    };
    for _ in 0..2 {
        restore(2);
        assert_eq!(enlarged_by(&*retoucher), "GPU", "a success comes between");
    }
    restore(3);
    assert_eq!(enlarged_by(&*retoucher), "CPU");
}

/// On a GPU whose network fails on batches of more than one picture.
fn small_segmenter() -> FallbackSegmenter {
    let running = |pictures: usize| match pictures {
        1 => Ok(()),
        _ => Err(SegmentError::Device("out of memory".to_owned())),
    };
    FallbackSegmenter {
        device: ActiveDevice::new(&DeviceChoice::Auto, None),
        gpu: Arc::new(Broken::default()),
        weights: Weights::embedded(),
        max_batch: 2,
        running: Box::new(Network(running)),
        failures: Failures::default(),
        retrial: None,
        cpu: None,
    }
}

/// Widths of the masks of `pictures` pictures.
fn widths(segmenter: &mut FallbackSegmenter, pictures: usize) -> Vec<u32> {
    let frames = vec![picture(); pictures];
    let masks = segmenter.segment(&frames.iter().collect::<Vec<_>>()).expect("one of them answers");
    assert_eq!(masks.len(), pictures);
    masks.iter().map(|mask| mask.size().width).collect()
}

#[test]
fn the_cpu_segments_batches_that_fail_and_replaces_a_gpu_that_fails_three_in_a_row() {
    let mut segmenter = small_segmenter();
    let log = logged(|| {
        for _ in 0..2 {
            assert!(widths(&mut segmenter, 2).iter().all(|&width| width > 1), "the CPU's masks");
            assert!(widths(&mut segmenter, 2)[0] > 1, "the CPU's masks");
            assert_eq!(widths(&mut segmenter, 1), [1], "the GPU goes on");
        }
    });
    assert_eq!(log.matches("out of memory").count(), 4, "{log}");
    assert_eq!(segmenter.device(), "unsteady adapter");
    let mut segment = |pictures: usize| widths(&mut segmenter, pictures)[0];
    assert!((0..3).all(|_| segment(2) > 1), "the CPU's masks");
    assert!(segment(1) > 1, "the GPU is still used");
    assert!(segmenter.device().ends_with("because broken adapter failed"), "{}", segmenter.device());
    assert!(segmenter.device.until_trial().is_some(), "it is not tested again");
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
