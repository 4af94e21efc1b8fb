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

/// A GPU whose network works until the GPU is lost, and which then fails its self-test a few times.
#[derive(Debug)]
struct Unsteady {
    lost: Arc<AtomicBool>,
    /// Number of loads that hang.
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

    /// Short for the loads that hang, and long enough for the others on a busy machine.
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
fn a_lost_gpu_is_replaced_until_it_passes_its_self_test() {
    let lost = Arc::new(AtomicBool::new(false));
    let gpu = Arc::new(Unsteady { lost: Arc::clone(&lost), hangs: AtomicUsize::new(1), loads: AtomicUsize::new(0) });
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

#[test]
fn a_gpu_that_passes_its_test_before_an_unload_gets_the_next_segmenter() {
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
        std::thread::sleep(Duration::from_millis(20));
        drop(segmenter);
        segmenter = loaded();
    }
    drop(segmenter);
    assert_eq!(loaded().device(), "unsteady adapter");
}

/// A GPU that is lost once. Its second load waits for `passes`, which decides its success.
struct Gated {
    lost: Arc<AtomicBool>,
    loads: AtomicUsize,
    passes: Mutex<mpsc::Receiver<bool>>,
}

impl fmt::Display for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("gated adapter")
    }
}

impl Gpu for Gated {
    fn segmenter(&self, _: &Weights, _: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
        let number = self.loads.fetch_add(1, Ordering::Relaxed);
        if number == 1 && !self.passes.lock().unwrap_or_else(PoisonError::into_inner).recv().expect("it ends") {
            return Err(SegmentError::Unusable("gated adapter failed its self-test".to_owned()));
        }
        self.lost.store(false, Ordering::Relaxed);
        Ok(Box::new(UnsteadySegmenter(Arc::clone(&self.lost))))
    }

    fn retoucher(&self) -> Arc<dyn Retoucher> {
        Arc::new(BrokenRetoucher)
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A device whose first segmenter was dropped during a trial, which the sender decides, and its second one, on the CPU.
fn unloaded_during_a_trial() -> (mpsc::Sender<bool>, Arc<Gated>, ActiveDevice, Box<dyn Segmenter>) {
    let (ends, passes) = mpsc::channel();
    let lost = Arc::new(AtomicBool::new(false));
    let gpu = Arc::new(Gated { lost: Arc::clone(&lost), loads: AtomicUsize::new(0), passes: Mutex::new(passes) });
    let device = ActiveDevice::new(&DeviceChoice::Auto, Some(Arc::clone(&gpu) as Arc<dyn Gpu>));
    let mut first = device.segmenter(&Weights::embedded(), 1).expect("it works");
    lost.store(true, Ordering::Relaxed);
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

/// A GPU whose auxiliary networks fail their test the first time.
#[derive(Debug)]
struct Recovering {
    loads: AtomicUsize,
    retry_after: Duration,
}

impl Recovering {
    fn after(retry_after: Duration) -> Arc<Self> {
        Arc::new(Self { loads: AtomicUsize::new(0), retry_after })
    }
}

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
        match self.loads.fetch_add(1, Ordering::Relaxed) {
            0 => Arc::new(BrokenRetoucher),
            _ => Arc::new(CpuRetoucher::default()),
        }
    }

    fn retry_after(&self) -> Duration {
        self.retry_after
    }
}

#[test]
fn networks_of_the_retoucher_that_failed_their_test_are_tested_again() {
    let gpu = Recovering::after(Duration::from_millis(20));
    let retoucher = ActiveDevice::new(&DeviceChoice::Auto, Some(Arc::clone(&gpu) as Arc<dyn Gpu>)).retoucher();
    let loads = || gpu.loads.load(Ordering::Relaxed);
    assert_eq!(retoucher.faces(&picture(), FaceSearch::All).expect("the CPU answers"), []);
    wait_for("they are not tested again", || {
        assert_eq!(retoucher.faces(&picture(), FaceSearch::All).expect("one of them answers"), []);
        loads() >= 2
    });
    assert_eq!(retoucher.faces(&picture(), FaceSearch::All).expect("the GPU answers"), []);
    assert_eq!(loads(), 2, "they passed");
}

#[test]
fn networks_of_the_retoucher_that_failed_on_an_explicit_gpu_are_loaded_again() {
    for choice in explicit() {
        let gpu = Recovering::after(Duration::from_millis(20));
        let retoucher = ActiveDevice::new(&choice, Some(gpu)).retoucher();
        let faces = || retoucher.faces(&picture(), FaceSearch::All);
        assert!(matches!(faces(), Err(SegmentError::Unusable(_))), "{choice}");
        // Failing requests do not postpone the trial.
        wait_for("they are not loaded again", || faces().is_ok());
    }
}

#[test]
fn the_wait_of_the_retouchers_networks_is_reset_when_they_have_passed() {
    let wait = Duration::from_secs(300);
    let gpu = Recovering::after(wait);
    let device = ActiveDevice::new(&DeviceChoice::Auto, Some(Arc::clone(&gpu) as Arc<dyn Gpu>));
    let retoucher = ActiveRetoucher::new(&device, &*gpu);
    let faces = || retoucher.faces(&picture(), FaceSearch::All).expect("one of them answers");
    faces();
    assert_eq!(gpu.loads.load(Ordering::Relaxed), 1);
    retoucher.state().next_trial.since -= wait;
    faces();
    assert_eq!(gpu.loads.load(Ordering::Relaxed), 2, "they are not tested again");
    assert!(retoucher.state().next_trial.left() > wait, "one of them may fail again");
    retoucher.state().next_trial.since -= 2 * wait;
    faces();
    retoucher.state().next_trial.postpone(1);
    let left = retoucher.state().next_trial.left();
    assert!(left <= wait, "the wait is still longer: {left:?}");
}

#[test]
fn the_networks_of_the_retoucher_are_loaded_again_when_the_gpu_has_recovered() {
    let gpu = Recovering::after(Duration::from_secs(300));
    let device = ActiveDevice::new(&DeviceChoice::Auto, Some(Arc::clone(&gpu) as Arc<dyn Gpu>));
    let retoucher = device.retoucher();
    assert_eq!(enlarged_by(&*retoucher), "GPU");
    device.fall_back("it was lost", Duration::from_secs(300));
    assert_eq!(enlarged_by(&*retoucher), "CPU");
    device.recover();
    for _ in 0..2 {
        assert_eq!(retoucher.faces(&picture(), FaceSearch::All).expect("the GPU answers"), []);
    }
    assert_eq!(gpu.loads.load(Ordering::Relaxed), 2, "the first ones, and those after the recovery");
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

/// A GPU's network that fails on batches of more than one picture.
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

fn small_segmenter() -> FallbackSegmenter {
    FallbackSegmenter {
        device: ActiveDevice::new(&DeviceChoice::Auto, None),
        gpu: Arc::new(Broken::default()),
        weights: Weights::embedded(),
        max_batch: 2,
        running: Box::new(OutOfMemory),
        failures: Failures::default(),
        retrial: None,
        cpu: None,
    }
}

#[test]
fn a_gpu_that_fails_three_batches_in_a_row_is_replaced() {
    let mut segmenter = small_segmenter();
    let mut segment = |pictures: usize| {
        let frames = vec![picture(); pictures];
        segmenter.segment(&frames.iter().collect::<Vec<_>>()).expect("one of them answers")[0].size().width
    };
    for _ in 0..2 {
        assert!(segment(2) > 1 && segment(2) > 1, "the CPU's masks");
        assert_eq!(segment(1), 1, "the GPU goes on");
    }
    assert!((0..3).all(|_| segment(2) > 1), "the CPU's masks");
    assert!(segment(1) > 1, "the GPU is still used");
    assert!(segmenter.device().ends_with("because broken adapter failed"), "{}", segmenter.device());
    assert!(segmenter.device.until_trial().is_some(), "it is not tested again");
}

#[test]
fn a_batch_that_fails_on_a_gpu_that_remains_in_use_is_segmented_by_the_cpu() {
    let mut segmenter = small_segmenter();
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
                let error = retoucher.faces(&picture(), FaceSearch::All).expect_err("it is broken");
                assert!(matches!(error, SegmentError::Unusable(_)), "{error}");
            }
        });
        assert_eq!(log.matches("ERROR").count(), 1, "{log}");
        assert_eq!(enlarged_by(&*retoucher), "GPU");
    }
}

#[test]
fn the_cpu_is_used_without_a_gpu() {
    for choice in [DeviceChoice::Auto, DeviceChoice::Cpu] {
        let device = ActiveDevice::new(&choice, None);
        let segmenter = device.segmenter(&Weights::embedded(), 1).expect("the CPU computes");
        assert!(segmenter.device().starts_with("CPU ("), "{}", segmenter.device());
        assert_eq!(device.retoucher().faces(&picture(), FaceSearch::All).expect("the CPU computes"), []);
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
