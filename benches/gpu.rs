//! Matting on every graphics adapter, beside the CPU: `cargo bench --bench gpu -- [MEGAPIXELS...]` (1, 4 and 16.8 without).
//!
//! A drawn subject with a soft edge is cut out several times; the least time is printed. On a GPU that is from the clean-up of the mask,
//! which is the host's, to the cutout in the host's memory; the upload of the picture, which is the network's, is timed beside it. With
//! several pictures in flight each has a thread, as it has a worker in the daemon. The software adapter of Mesa is one of those
//! listed: its times say nothing of a GPU's.

use backdrop::image::{Buffer, DeviceCopy, DeviceSession, Frame, RawMask, Size};
use backdrop::matting::{self, Options};
use backdrop::model::device::adapters;
use std::error::Error;
use std::time::{Duration, Instant};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;
/// Pictures in flight.
const TOGETHER: usize = 4;
/// Cells along a side of the network's grid.
const GRID: u32 = 384;

fn main() -> Result<(), Box<dyn Error>> {
    let given: Result<Vec<f64>, _> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").map(|argument| argument.parse()).collect();
    let sizes = Some(given?).filter(|sizes| !sizes.is_empty()).unwrap_or_else(|| vec![1.0, 4.0, 16.8]);
    println!("{:44} {:>6} {:>10} {:>10} {:>16}", "ms", "MP", "upload", "matting", "with 4 in flight");
    for megapixels in sizes {
        let side = (megapixels * 1e6).sqrt().min(4096.0) as u32;
        let frame = picture(side);
        let mask = mask();
        let row = |device: &str, upload: Duration, alone: Duration, together: Duration| {
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            println!("{device:44} {megapixels:>6} {:>10.1} {:>10.1} {:>16.1}", ms(upload), ms(alone), ms(together));
        };
        row("CPU", Duration::ZERO, alone(&frame, &mask, None), together(&frame, &mask, None));
        for adapter in adapters() {
            let device = adapter.session()?;
            let upload = least(|| drop(DeviceCopy::of(frame.pixels(), frame.size(), &device)));
            let (alone, together) = (alone(&frame, &mask, Some(&device)), together(&frame, &mask, Some(&device)));
            row(&adapter.to_string(), upload, alone, together);
        }
    }
    Ok(())
}

/// A copy of `frame`, on `device` too where there is one.
fn prepared(frame: &Frame, device: Option<&DeviceSession>) -> Frame {
    let frame = Frame::new(frame.size(), frame.pixels().to_vec().into());
    if let Some(device) = device {
        frame.keep_on_device(DeviceCopy::of(frame.pixels(), frame.size(), device));
    }
    frame
}

fn alone(frame: &Frame, mask: &RawMask, device: Option<&DeviceSession>) -> Duration {
    let mut frames: Vec<Frame> = (0..RUNS).map(|_| prepared(frame, device)).collect();
    least(|| cut_out(frames.pop().expect("one for each run"), mask))
}

/// The time of each of several pictures in flight: that of all of them, divided.
fn together(frame: &Frame, mask: &RawMask, device: Option<&DeviceSession>) -> Duration {
    let mut runs: Vec<Vec<Frame>> =
        (0..RUNS).map(|_| (0..TOGETHER).map(|_| prepared(frame, device)).collect()).collect();
    let all = least(|| {
        let frames = runs.pop().expect("some for each run");
        std::thread::scope(|scope| {
            for frame in frames {
                scope.spawn(move || cut_out(frame, mask));
            }
        });
    });
    all / TOGETHER as u32
}

fn cut_out(frame: Frame, mask: &RawMask) {
    matting::cut_out(frame, mask, &Options::default()).expect("a subject");
}

fn least(mut work: impl FnMut()) -> Duration {
    let time = |()| {
        let began = Instant::now();
        work();
        began.elapsed()
    };
    std::iter::repeat_n((), RUNS).map(time).min().expect("at least one run")
}

/// A fringed disc, how much of (`x`, `y`) in 0..=1 it covers with an edge this wide.
fn covered(x: f32, y: f32, edge: f32) -> f32 {
    let (x, y) = (x - 0.5, y - 0.5);
    let fringe = 0.01 * (60.0 * y.atan2(x)).sin();
    ((0.3 + fringe - x.hypot(y)) / edge + 0.5).clamp(0.0, 1.0)
}

fn picture(side: u32) -> Frame {
    let at = |pixel: u32| (pixel as f32 + 0.5) / side as f32;
    let pixels = (0..side).flat_map(|y| (0..side).map(move |x| (x, y))).flat_map(|(x, y)| {
        let grain = (x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(40_503)) >> 13) % 9;
        let alpha = covered(at(x), at(y), 0.004);
        let mixed = |front: f32, back: f32| (front * alpha + back * (1.0 - alpha)) as u8 + grain as u8;
        [mixed(210.0, 40.0), mixed(120.0, 70.0), mixed(60.0 + 40.0 * at(x), 150.0), 255]
    });
    Frame::new(Size::new(side, side), Buffer::from(pixels.collect::<Vec<u8>>()))
}

fn mask() -> RawMask {
    let at = |cell: u32| (cell as f32 + 0.5) / GRID as f32;
    let values = (0..GRID).flat_map(|y| (0..GRID).map(move |x| covered(at(x), at(y), 0.02)));
    RawMask::new(Size::new(GRID, GRID), values.collect()).expect("probabilities")
}
